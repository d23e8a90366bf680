// SPDX-License-Identifier: MIT
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_testing_chi_square {

using namespace specdec;
using namespace specdec::testing;

namespace {

const Law fair{{{0}, 0.25}, {{1}, 0.25}, {{2}, 0.5}};

auto draws_from(Eigen::RowVector3d row, std::mt19937_64& rng) {
  return [row, &rng] {
    RandomChance chance{rng};
    return std::vector<Token>{chance.draw(distributions(row).row(0))};
  };
}

}  // namespace

TEST_CASE("Pearson's statistic, by hand") {
  // 100 draws: 30, 20, 50 observed, 25, 25, 50 expected.
  int n = 0;
  const auto report = check_sampled(
      [&] { return std::vector<Token>{n < 30   ? (++n, 0)
                                      : n < 50 ? (++n, 1)
                                               : (++n, 2)}; }, fair, 100, 1e-3);
  CHECK(report.statistic == Approx(2));
  CHECK(report.degrees == 2);
  const double t = -std::log(1e-3 / 2);
  CHECK(report.threshold == Approx(2 + 2 * std::sqrt(2 * t) + 2 * t));
  CHECK(report.accepted);
}

TEST_CASE("the right law is accepted, a slightly wrong one convicted") {
  std::mt19937_64 rng{1};
  CHECK(check_sampled(draws_from({0.25, 0.25, 0.5}, rng), fair, 100000));
  CHECK_FALSE(check_sampled(draws_from({0.27, 0.23, 0.5}, rng), fair, 100000));
}

TEST_CASE("a rejected law is told by its least likely output, or by the beginning that several share") {
  const Law pairs{{{0, 0}, 0.25}, {{0, 1}, 0.25}, {{1, 0}, 0.25}, {{1, 1}, 0.25}};
  const auto told = [&](std::vector<std::vector<Token>> outputs) {
    std::size_t n = 0;
    return check_sampled([&] { return outputs[n++ % outputs.size()]; }, pairs, 1200).worst;
  };
  CHECK(told({{0, 0}, {0, 1}, {1, 0}, {1, 1}}).empty());
  CHECK(told({{0, 0}, {0, 0}, {0, 0}, {0, 1}, {1, 0}, {1, 1}}) ==
        "output [0 0] has frequency 0.5, expected 0.25");
  CHECK(told({{0, 0}, {0, 1}, {0, 0}, {0, 1}, {0, 0}, {0, 1}, {1, 0}, {1, 1}}) ==
        "output [1 ...] has frequency 0.25, expected 0.5");
  CHECK(told({{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 2}}) == "output [2 ...] has frequency 0.2, expected 0");
  CHECK(told({{}}) == "output [] has frequency 1, expected 0");

  std::ostringstream shown;
  int n = 0;
  shown << check_sampled([&] { return std::vector<Token>{n++ % 2}; }, fair, 1000);
  CHECK(shown.str().ends_with("; output [2] has frequency 0, expected 0.5"));
}

TEST_CASE("the stated false-alarm rate is kept") {
  // At 1 % the bound is conservative: of 2000 tests no more than 1 % + 5 standard errors may fail.
  std::mt19937_64 rng{2};
  int alarms = 0;
  for (int n = 0; n < 2000; ++n)
    alarms += !check_sampled(draws_from({0.25, 0.25, 0.5}, rng), fair, 200, 0.01);
  CHECK(alarms <= 20 + 5 * 4.5);
}

TEST_CASE("one impossible output is enough to reject") {
  Law law = fair;
  law[{7}] = 0;
  int n = 0;
  const auto report = check_sampled(
      [&] {
        return std::vector<Token>{++n == 1000 ? 7 : n % 4 == 0 ? 0 : n % 4 == 1 ? 1 : 2};
      },
      law, 10000);
  CHECK(report.impossible == 1);
  CHECK_FALSE(report.accepted);
}

TEST_CASE("rare outputs are pooled, and too few samples are an error") {
  Law law{{{0}, 0.9}};
  for (Token x = 1; x <= 100; ++x) law[{x}] = 0.001;
  std::mt19937_64 rng{3};
  const auto sample = [&] {
    const double u = uniform01(rng);
    return std::vector<Token>{u < 0.9 ? 0 : 1 + static_cast<Token>((u - 0.9) * 1000) % 100};
  };
  const auto report = check_sampled(sample, law, 2000);
  CHECK(report.degrees == 1);
  CHECK(report.accepted);
  CHECK_FALSE(check_sampled([] { return std::vector<Token>{0}; }, law, 2000).accepted);
  CHECK(support::message_of([&] { (void)check_sampled(sample, law, 12); }) ==
        "specdec: samples = 12 are too few: fewer than two cells expect 10");
}

TEST_CASE(
    "far too many rare outputs are convicted, even if all rare outputs together are expected only once") {
  const Law law{{{0}, 0.5}, {{1}, 0.49999}, {{2}, 0.00001}};
  const auto seen = [&](int every) {  // output [2] is expected once in 100000
    int n = 0;
    return check_sampled([&] { return std::vector<Token>{++n % every == 0 ? 2 : n % 2}; }, law, 100000);
  };
  const auto often = seen(500);
  CHECK(often.statistic < often.threshold);
  CHECK(often.rare == 200);
  CHECK(often.rare_expected == Approx(1));
  CHECK_FALSE(often.accepted);
  CHECK(seen(50000).accepted);
}

TEST_CASE("a law with one output is checked, too") {
  const Law law{{{3, 1}, 1.0}};
  CHECK(check_sampled([] { return std::vector<Token>{3, 1}; }, law, 100));
  int n = 0;
  CHECK_FALSE(check_sampled([&] { return std::vector<Token>{3, ++n == 50 ? 2 : 1}; }, law, 100));
}

TEST_CASE("numbers estimated from the samples cost degrees of freedom") {
  // Two rows of two tokens. If it is given how often each row was drawn from, each row has one degree of freedom.
  const Law law{{{0, 0}, 0.2}, {{0, 1}, 0.2}, {{1, 0}, 0.15}, {{1, 1}, 0.45}};
  const std::vector<std::vector<Token>> outputs{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  const auto check_with = [&](Index fitted) {
    int n = 0;
    return check_sampled([&] { return outputs[static_cast<std::size_t>(n++ % 4)]; }, law, 400, 1e-3, fitted);
  };
  const SampledReport report = check_with(1);
  CHECK(report.degrees == 2);
  CHECK(report.statistic == check_with(0).statistic);
  const double t = -std::log(1e-3 / 2);
  CHECK(report.threshold == Approx(2 + 2 * std::sqrt(2 * t) + 2 * t));
  const auto complaint = [&](Index fitted) { return support::message_of([&] { (void)check_with(fitted); }); };
  CHECK(complaint(2).empty());
  CHECK(complaint(3) == "specdec: fitted = 3, but there are 3 degrees of freedom");
  CHECK(complaint(-1) == "specdec: fitted = -1, but there are 3 degrees of freedom");
}

TEST_CASE("a threshold that rejects nothing, or everything, is refused") {
  const Law law{{{0}, 0.5}, {{1}, 0.5}};
  const auto complaint = [&](double false_alarm) {
    return support::message_of(
        [&] { (void)check_sampled([] { return std::vector<Token>{0}; }, law, 1000, false_alarm); });
  };
  CHECK(complaint(0) == "specdec: false_alarm = 0 is outside (0, 1)");
  CHECK(complaint(1) == "specdec: false_alarm = 1 is outside (0, 1)");
  CHECK(complaint(std::numeric_limits<double>::quiet_NaN()) ==
        "specdec: false_alarm = nan is outside (0, 1)");
}

}  // namespace test_testing_chi_square
