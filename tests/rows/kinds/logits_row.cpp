// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <specdec/rows/kinds/logits.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_logits_row {

using namespace specdec;
using namespace support;

static_assert(Distribution<LogitsRow<float>>);
static_assert(Distribution<LogitsRow<Eigen::half, Eigen::Dynamic>>);
static_assert(SummableRow<LogitsRow<double>> && SegmentedRow<LogitsRow<Eigen::bfloat16>> &&
              ArgmaxRow<LogitsRow<float>>);
static_assert(DistributionMatrix<decltype(Logits(std::declval<const Eigen::MatrixXf&>()))> &&
              has_vocab_size<decltype(Logits(std::declval<const Eigen::MatrixXf&>()))>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// Numbers are rounded to the scalar when the test makes them, so its precision is no part of the error.
template <class S>
std::vector<S> normal_logits(Index size, std::mt19937_64& rng, double spread = 2) {
  std::normal_distribution<double> normal(0, spread);
  std::vector<S> logits(static_cast<std::size_t>(size));
  for (S& l : logits) l = static_cast<S>(static_cast<float>(normal(rng)));
  return logits;
}

// softmax(l/T) of the tokens not below the cut, in long double.
template <class S>
std::vector<long double> softmax(const std::vector<S>& logits, double temperature, double cut = -infinity) {
  long double largest = -std::numeric_limits<long double>::infinity(), sum = 0;
  for (const S l : logits) largest = std::max(largest, static_cast<long double>(l));
  std::vector<long double> out;
  for (const S l : logits) {
    const auto value = static_cast<long double>(l);
    out.push_back(value < cut ? 0 : std::exp((value - largest) / static_cast<long double>(temperature)));
    sum += out.back();
  }
  for (long double& p : out) p /= sum;
  return out;
}

template <class S>
LogitsRow<S> row_of(const std::vector<S>& logits, double temperature = 1) {
  return LogitsRow<S>(NumberRow<S>(logits.data(), std::ssize(logits)), temperature);
}

// A row's own answers: each probability, and some sums and segments.
struct Stretch {
  Index start;
  double sum;
  std::vector<double> block;  // empty if the stretch is longer than a segment may be
  Index count;
};
struct Answers {
  Index size;
  Token argmax;
  std::vector<double> p;
  std::vector<Stretch> stretches;
};

template <class Row>
Answers answers(const Row& row) {
  const Index size = row.vocab_size();
  Answers out{size, row.argmax(), {}, {}};
  for (Token x = 0; x < size; ++x) out.p.push_back(row.probability(x));
  for (const Index start : {Index{0}, size / 3, size / 2, size - 1})
    for (const Index length : {Index{1}, Index{7}, Index{64}, Index{1024}, size}) {
      const Index count = std::min(length, size - start);
      Stretch stretch{start, static_cast<double>(row.sum(start, count)), {}, count};
      if (count <= max_segment_size) {
        const auto block = row.segment(start, count);
        for (Index k = 0; k < count; ++k) stretch.block.push_back(static_cast<double>(block[k]));
        stretch.block.resize(static_cast<std::size_t>(block.size()));
      }
      out.stretches.push_back(std::move(stretch));
    }
  return out;
}

void check_against(const Answers& row, const std::vector<long double>& expected, double tolerance) {
  REQUIRE(row.size == std::ssize(expected));
  double worst = 0, sum = 0;
  bool none_where_none = true;
  for (std::size_t x = 0; x < expected.size(); ++x) {
    const auto want = static_cast<double>(expected[x]);
    sum += row.p[x];
    worst = std::max(worst, std::abs(row.p[x] - want) / std::max(want, 1e-12));
    none_where_none &= want != 0 || row.p[x] == 0;
  }
  CHECK(none_where_none);
  CHECK(worst < tolerance);
  CHECK(std::abs(sum - 1) < tolerance);
}

// Checks that sums and segments agree with the probabilities.
void check_pieces(const Answers& row) {
  const auto off = [](double got, double want) { return std::abs(got - want) / (1e-5 * want + 1e-12); };
  double worst = 0;
  for (const Stretch& stretch : row.stretches) {
    double sum = 0;
    for (Index k = 0; k < stretch.count; ++k) {
      const double p = row.p[static_cast<std::size_t>(stretch.start + k)];
      sum += p;
      if (!stretch.block.empty()) worst = std::max(worst, off(stretch.block[static_cast<std::size_t>(k)], p));
    }
    if (!stretch.block.empty()) REQUIRE(std::ssize(stretch.block) == stretch.count);
    worst = std::max(worst, off(stretch.sum, sum));
  }
  CHECK(worst < 1);
}

template <class Row>
void check_against(const Row& row, const std::vector<long double>& expected, double tolerance) {
  check_against(answers(row), expected, tolerance);
}

template <class Row>
void check_pieces(const Row& row) {
  check_pieces(answers(row));
}

// Rows of S of many sizes and temperatures, with the expected values.
struct Case {
  Answers got;
  std::vector<long double> expected;
};

template <class S>
std::vector<Case> cases() {
  std::mt19937_64 rng{1};
  std::vector<Case> out;
  for (const Index size : {1, 2, 3, 17, 1000, 1024, 1025, 5000})
    for (const double temperature : {0.5, 0.7, 1.0, 1.3, 25.0}) {
      const auto logits = normal_logits<S>(size, rng);
      out.push_back({answers(row_of(logits, temperature)), softmax(logits, temperature)});
    }
  return out;
}

// The rows of a layout: as they are, with a cut, and over a copy.
template <class Layout>
std::vector<Case> cases_of_layout() {
  using S = typename Layout::Scalar;
  std::mt19937_64 rng{2};
  RowMajor<S> m(3, 1300);
  for (S& l : m.reshaped()) l = normal_logits<S>(1, rng)[0];
  Layout layout;
  layout.hold(m);
  const auto& view = std::as_const(layout).view();
  const Logits rows(view, {.temperature = 0.8});
  REQUIRE(rows.rows() == 3);
  REQUIRE(rows.vocab_size() == 1300);
  std::vector<Case> out;
  for (Index i = 0; i < 3; ++i) {
    const std::vector<S> logits(m.row(i).data(), m.row(i).data() + m.cols());
    const auto row = rows.row(i);
    out.push_back({answers(row), softmax(logits, 0.8)});
    out.push_back({answers(row.above(static_cast<Arithmetic<S>>(0.5))), softmax(logits, 0.8, 0.5)});
    std::vector<S> copy(1300);
    row.logits().copy_to(copy.data());
    out.push_back({answers(row.over(copy.data())), softmax(logits, 0.8)});
  }
  return out;
}

void check_cases(const std::vector<Case>& cases) {
  for (const auto& [got, expected] : cases) {
    check_against(got, expected, 4e-6);
    check_pieces(got);
    const auto most = static_cast<double>(std::ranges::max(expected));
    CHECK(std::abs(got.p[static_cast<std::size_t>(got.argmax)] - most) < 4e-6 * most);
  }
}

}  // namespace

// Half is widened in the way of bfloat16: see tests/rows/numbers.cpp.
TEST_CASE("logits give softmax(l/T) in every scalar") {
  check_cases(cases<float>());
  check_cases(cases<double>());
  check_cases(cases<Eigen::bfloat16>());
}

TEST_CASE("logits are read in every layout") {
  check_cases(cases_of_layout<AsStridedMap<float>>());
  check_cases(cases_of_layout<AsRefOfBlock<double>>());
  check_cases(cases_of_layout<AsRowMajor<Eigen::bfloat16>>());
}

TEST_CASE("the masses of large rows of logits are exact to 1e-6") {
  std::mt19937_64 rng{3};
  const Index size = 256'000;
  for (const bool peaked : {false, true}) {
    auto logits = normal_logits<float>(size, rng, 1);
    if (peaked)
      for (Index x = 0; x < size; ++x)
        logits[static_cast<std::size_t>(x)] -= 1.6f * std::log(1 + static_cast<float>(x));
    for (const double temperature : {0.5, 0.7, 1.0, 1.3}) {
      const auto row = row_of(logits, temperature);
      const auto expected = softmax(logits, temperature);
      const Index step = 16'000;
      for (Index start = 0; start < size; start += step) {
        const auto from = expected.begin() + start;
        const auto mass = static_cast<double>(std::accumulate(from, from + step, 0.0L));
        CHECK(row.sum(start, step) == Approx(mass).epsilon(1e-6));
        CHECK(row.probability(static_cast<Token>(start)) == Approx(static_cast<double>(*from)).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("a temperature of 0 is the argmax, the lowest id among equals") {
  const std::vector<float> logits{1, 3, 2, 3, -5};
  for (const double temperature : {0.0, 1e-300}) {
    const auto row = row_of(logits, temperature);
    CHECK(row.is_argmax());
    CHECK(row.argmax() == 1);
    for (Token x = 0; x < 5; ++x) CHECK(row.probability(x) == (x == 1 ? 1.0 : 0.0));
    CHECK(row.sum(0, 1) == 0);
    CHECK(row.sum(1, 4) == 1);
    CHECK(row.segment(0, 5).sum() == 1);
    CHECK(row.segment(1, 2)[0] == 1);
    for (const double u : {0.0, 0.5, std::nextafter(1.0, 0.0)}) CHECK(row.sampler()(u) == 1);
  }
}

TEST_CASE("temperatures may be tiny or huge") {
  const std::vector<float> logits{1, 3, 2, -std::numeric_limits<float>::infinity(), -5};
  for (const double temperature : {1e-37, 1e-20, 1e-3}) {
    const auto row = row_of(logits, temperature);
    CHECK(row.probability(1) == 1);
    CHECK(row.probability(2) == 0);
  }
  for (const double temperature : {1e10, 1e38, 1e60, 1e300}) {
    const auto row = row_of(logits, temperature);
    for (const Token x : {0, 1, 2, 4}) CHECK(row.probability(x) == Approx(0.25));
    CHECK(row.probability(3) == 0);
    CHECK(row.sum(3, 1) == 0);
    CHECK(row.segment(0, 5)[3] == 0);
  }
}

TEST_CASE("a logit of -inf is a probability of 0") {
  std::vector<float> logits(3000, static_cast<float>(-infinity));
  logits[1700] = 2;
  logits[2900] = 1;
  const auto row = row_of(logits);
  CHECK(row.probability(1700) == Approx(1 / (1 + std::exp(-1.0))));
  CHECK(row.probability(0) == 0);
  CHECK(row.sum(0, 1024) == 0);
  CHECK(row.sum(0, 10) == 0);
  CHECK(row.segment(0, 1000).sum() == 0);
  CHECK(!row.possible(0));
  CHECK(row.possible(2900));
  CHECK(row.argmax() == 1700);
  CHECK(row.sampler()(0.0) == 1700);
  CHECK(row.sampler()(0.99) == 2900);
}

namespace {

// Whether every question is refused.
template <class Row>
bool refuses_all(const Row& row) {
  const auto refused = [](auto&& question) {
    try {
      question();
    } catch (const InvalidDistribution&) {
      return true;
    }
    return false;
  };
  return refused([&] { row.probability(0); }) && refused([&] { row.argmax(); }) &&
         refused([&] { row.sampler()(0.5); }) && refused([&] { row.sum(0, row.vocab_size()); }) &&
         refused([&] { row.largest(); });
}

// The sizes and places at which a bad logit is not noticed.
template <class S>
std::vector<std::string> unnoticed() {
  const auto make = [](double x) { return static_cast<S>(static_cast<float>(x)); };
  std::vector<std::string> out;
  for (const Index size : {1, 2, 100, 1025, 5000})
    for (const double bad : {nan_value, infinity})
      for (const Index at : {Index{0}, size / 2, size - 1})
        for (const double rest : {0.0, -infinity}) {
          std::vector<S> logits(static_cast<std::size_t>(size), make(rest));
          logits.front() = make(0.0);
          logits[static_cast<std::size_t>(at)] = make(bad);
          bool refused = true;
          for (const double temperature : {0.0, 0.5, 1.0})
            refused = refused && refuses_all(row_of(logits, temperature));
          refused = refused && refuses_all(row_of(logits).above(Arithmetic<S>(-1)));
          if (!refused) out.push_back(detail::message(bad, " at ", at, " of ", size));
        }
  return out;
}

}  // namespace

TEST_CASE("logits of NaN or +inf are an error when they are read") {
  CHECK(unnoticed<float>() == std::vector<std::string>{});
  CHECK(unnoticed<double>() == std::vector<std::string>{});
  CHECK(unnoticed<Eigen::bfloat16>() == std::vector<std::string>{});
  const std::vector<float> empty;
  CHECK_THROWS_AS(row_of(empty).argmax(), InvalidDistribution);
  CHECK(row_of(empty).largest() == -infinity);
}

TEST_CASE("a row of -inf throughout can be read, but not drawn from") {
  for (const std::size_t size : {1u, 100u, 3000u})
    for (const double temperature : {0.0, 0.5, 1.0}) {
      const std::vector<float> logits(size, static_cast<float>(-infinity));
      const LogitsRow row = row_of(logits, temperature);
      const auto last = static_cast<Token>(size - 1);
      CHECK(row.is_dead_end());
      CHECK(row.probability(last) == 0);
      CHECK(row.log_probability(last) == -infinity);
      CHECK(row.sum(0, row.vocab_size()) == 0);
      CHECK((row.segment(0, 1) == 0).all());
      CHECK(row.largest() == -infinity);
      if (temperature > 0) CHECK(row.log_sum_exp().value == -infinity);
      CHECK(row.tempered(2).is_dead_end());
      CHECK(row.above(0.5f).probability(0) == 0);
      auto sampler = row.sampler();
      const std::string refused = "no token has a finite logit";
      CHECK(support::message_of<InvalidDistribution>([&] { sampler(0.5); }) == refused);
      CHECK(support::message_of<InvalidDistribution>([&] { row.argmax(); }) == refused);
    }
  CHECK(!row_of(std::vector<float>{0, static_cast<float>(-infinity)}).is_dead_end());
}

namespace {

template <class S>
void check_cuts() {
  std::mt19937_64 rng{4};
  for (const Index size : {5, 700, 5000})
    for (const double temperature : {0.7, 1.0}) {
      auto logits = normal_logits<S>(size, rng);
      logits[1] = logits[0];
      for (const double cut : {-100.0, -1.0, 0.0, static_cast<double>(logits[0])}) {
        if (std::ranges::max(logits) < S(cut)) continue;
        const auto row = row_of(logits, temperature).above(static_cast<Arithmetic<S>>(cut));
        const auto expected = softmax(logits, temperature, cut);
        const Answers got = answers(row);
        check_against(got, expected, 4e-6);
        check_pieces(got);
        bool possible_where_kept = true;
        for (Token x = 0; x < size; ++x)
          possible_where_kept &= row.possible(x) == (expected[static_cast<std::size_t>(x)] > 0);
        CHECK(possible_where_kept);
        // A lower cut does not bring tokens back.
        CHECK(row.above(static_cast<Arithmetic<S>>(cut - 1)).cut() == row.cut());
      }
    }
}

}  // namespace

TEST_CASE("a cut removes tokens, and the rest is normalised") {
  check_cuts<float>();
  check_cuts<double>();
  check_cuts<Eigen::bfloat16>();
  const std::vector<float> logits{1, 2};
  CHECK_THROWS_AS(row_of(logits).above(3.0f).probability(0), InvalidDistribution);
}

TEST_CASE("with a given log-sum-exp the row answers without a full read") {
  // All entries but one are NaN, and most of the row's memory does not exist.
  std::vector<float> logits{static_cast<float>(nan_value), 2.0f};
  const double lse = 3.5;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    const LogitsRow<float> row(NumberRow<float>(logits.data(), 100'000), temperature, LogSumExp{lse});
    CHECK(row.probability(1) == Approx(std::exp(2 / temperature - lse)).epsilon(1e-6));
    CHECK(row.log_sum_exp().value == Approx(lse).epsilon(1e-12));
  }
  std::mt19937_64 rng{5};
  const auto full = normal_logits<float>(3000, rng);
  for (const double temperature : {0.5, 1.0}) {
    const auto read = row_of(full, temperature);
    const LogitsRow<float> row(read.logits(), temperature, read.log_sum_exp());
    check_against(row, softmax(full, temperature), 4e-6);
    check_pieces(row);
    auto by_sums = read.sampler(), by_blocks = row.sampler();
    for (int k = 0; k < 100; ++k) CHECK(by_sums(0.01 * k) == by_blocks(0.01 * k));
    const LogitsRow<float> cut(read.logits(), temperature, 1.0f, read.above(1.0f).log_sum_exp());
    check_against(cut, softmax(full, temperature, 1.0), 4e-6);
    check_pieces(cut);
  }
}

TEST_CASE("a log-sum-exp is right at temperatures whose product with it overflows a float") {
  const std::vector<float> logits{1, 3, 2, -std::numeric_limits<float>::infinity(), -5};
  for (const double temperature : {1e38, 1e60, std::numeric_limits<double>::max()}) {
    const LogitsRow<float> row(NumberRow<float>(logits.data(), 5), temperature, LogSumExp{std::log(4.0)});
    for (const Token x : {0, 1, 2, 4}) CHECK(row.probability(x) == Approx(0.25));
    CHECK(row.probability(3) == 0);
    CHECK(row.segment(0, 5)[1] == Approx(0.25f));
    CHECK(row.sampler()(0.6) == 2);
  }
}

TEST_CASE("draws from logits have the law of their probabilities") {
  std::mt19937_64 rng{6};
  for (const Index size : {1, 2, 50, 3000, 70'000})
    for (const double cut : {-infinity, 0.5}) {
      const auto logits = normal_logits<float>(size, rng);
      if (*std::ranges::max_element(logits) < cut) continue;
      const auto row = row_of(logits, 0.9).above(static_cast<float>(cut));
      auto sampler = row.sampler();
      // The inverse distribution function. Wherever the running sum of the probabilities is clear of u, u must draw
      // the token whose step it falls on.
      std::vector<double> below(static_cast<std::size_t>(size) + 1);
      for (Token x = 0; x < size; ++x)
        below[static_cast<std::size_t>(x) + 1] = below[static_cast<std::size_t>(x)] + row.probability(x);
      for (int k = 0; k < 1000; ++k) {
        const double u = (k + 0.5) / 1000;
        const auto x = static_cast<std::size_t>(sampler(u));
        CHECK(below[x] < u + 2e-6);
        CHECK(below[x + 1] > u - 2e-6);
        CHECK(row.probability(static_cast<Token>(x)) > 0);
      }
    }
}

TEST_CASE("a row of logits over a copy keeps what the row has computed") {
  std::mt19937_64 rng{7};
  auto logits = normal_logits<float>(3 * 2000, rng);
  const LogitsRow<float, Eigen::Dynamic> row(NumberRow<float, Eigen::Dynamic>(logits.data(), 2000, 3), 0.6);
  const double p = row.probability(5), sum = row.sum(0, 1024);
  const Token draw = row.sampler()(0.7);
  std::vector<float> copy(2000);
  row.logits().copy_to(copy.data());
  const float five = copy[5];
  const LogitsRow<float> kept = row.over(copy.data());
  std::ranges::fill(logits, 0.0f);
  CHECK(kept.probability(5) == p);
  CHECK(kept.sum(0, 1024) == sum);
  CHECK(kept.sampler()(0.7) == draw);
  std::ranges::fill(copy, static_cast<float>(nan_value));
  copy[5] = five;
  CHECK(kept.probability(5) == p);  // nothing is read again
}

TEST_CASE("a row of logits refuses an invalid temperature") {
  const std::vector<float> logits{0, 1, 2};
  const NumberRow<float> row(logits.data(), 3);
  CHECK_THROWS_AS(LogitsRow(row, -1.0), std::invalid_argument);
  CHECK_THROWS_AS(LogitsRow(row, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  CHECK(LogitsRow(row, std::numeric_limits<double>::infinity()).probability(0) == Approx(1.0 / 3));
}

TEST_CASE("an empty sum of a row of logits is 0, also after the last segment") {
  const std::vector<float> logits(65536, 1.0f);
  const LogitsRow row(NumberRow<float>(logits.data(), 65536));
  CHECK(row.sum(0, 65536) == Approx(1).epsilon(1e-6));
  CHECK(row.sum(65536, 0) == 0);
}

TEST_CASE("a row that reads only the stretches above its cut answers like one that reads all") {
  std::mt19937_64 rng{12};
  for (const Index size : {1, 64, 65, 1000, 5000, 70'000, 140'001})
    for (const double cut : {-9.0, 3.0, 6.5}) {
      auto logits = normal_logits<float>(size, rng);
      logits[static_cast<std::size_t>(size / 2)] = 8;
      for (const double temperature : {1.0, 0.7}) {
        const auto whole = row_of(logits, temperature).above(static_cast<float>(cut));
        const auto few = row_of(logits, temperature).above(static_cast<float>(cut), whole.peaks());
        CHECK(few.log_sum_exp().value == Approx(whole.log_sum_exp().value).epsilon(1e-7));
        for (Index start = 0; start < size; start += 1 + size / 7) {
          const Index count = std::min<Index>(size - start, 900);
          CHECK(std::abs(few.sum(start, count) - whole.sum(start, count)) < 1e-6);
          CHECK((few.segment(start, count) - whole.segment(start, count)).abs().maxCoeff() < 1e-6f);
        }
        auto draw = few.sampler();
        for (double u = 0.01; u < 1; u += 0.07) CHECK(whole.probability(draw(u)) > 0);
        CHECK(few.above(7).probability(static_cast<Token>(size / 2)) ==
              Approx(whole.above(7).probability(static_cast<Token>(size / 2))));
        CHECK(few.tempered(2).sum(0, size) == Approx(1).epsilon(1e-6));
      }
    }
}

TEST_CASE("a row that was cut reads no stretch that has lost all its tokens") {
  std::mt19937_64 rng{13};
  auto logits = normal_logits<float>(5000, rng);
  logits[100] = logits[4000] = 12;
  const auto row = row_of(logits);
  const auto cut = row.above(11, row.peaks());
  for (std::size_t x = 0; x < logits.size(); ++x)  // numbers that would be an error
    if (x / 64 != 100 / 64 && x / 64 != 4000 / 64) logits[x] = static_cast<float>(nan_value);
  CHECK(cut.probability(100) == Approx(0.5));
  CHECK(cut.sum(0, 5000) == Approx(1));
  CHECK(cut.segment(3900, 1000)[100] == Approx(0.5));
  CHECK(cut.segment(3900, 1000)[300] == 0);
  CHECK(cut.above(11.5f).tempered(0.5).probability(4000) == Approx(0.5));
  CHECK(cut.sampler()(0.7) == 4000);
  CHECK(cut.peaks()[4000 / 64] == 12);
}

TEST_CASE("a row that was cut shows the same segment from wherever it begins") {
  std::vector<float> logits(4096, -50.0f);
  for (std::size_t x = 64; x < 2048; ++x) logits[x] = 1 + 1e-4f * static_cast<float>(x);
  const auto row = row_of(logits);
  const auto cut = row.above(0, row.peaks());
  for (Index start = 0; start < 64; ++start) {  // the live tokens do not begin at a lot of the segment
    const auto segment = cut.segment(start, max_segment_size);
    double worst = 0;
    for (Index i = 0; i < max_segment_size; ++i)
      worst = std::max(worst, std::abs(segment[i] - cut.probability(static_cast<Token>(start + i))));
    CHECK(worst < 1e-9);
  }
}

TEST_CASE("a cut that no logit reaches is an error, also where the peaks are known") {
  std::vector<float> logits(300, -50.0f);
  const LogitsRow row(NumberRow<float>(logits.data(), 300), 1.0, 100.0f);
  CHECK_THROWS_AS(row.above(101, row.peaks()).probability(0), InvalidDistribution);
  for (float& l : logits) l = -static_cast<float>(infinity);
  const LogitsRow dead = row_of(logits);
  CHECK(dead.above(-1, dead.peaks()).is_dead_end());
}

TEST_CASE(
    "the peaks of a row are the largest logits of its stretches, whether or not the pass normalises it") {
  std::mt19937_64 rng{14};
  const auto check = [&]<class S>(S, Index size, Index stretch) {
    const auto logits = normal_logits<S>(size, rng);
    for (const bool normalise : {false, true}) {
      const auto row = row_of(logits, 0.8);
      const auto peaks = normalise ? row.peaks_and_normaliser() : row.peaks();
      CHECK(row.is_normalised() == normalise);
      REQUIRE(peaks.size() == (size + stretch - 1) / stretch);
      for (Index s = 0; s < peaks.size(); ++s) {
        const Index count = std::min(stretch, size - s * stretch);
        CHECK(peaks[s] == row.logits().max(s * stretch, count));
      }
      CHECK(row.largest() == row.logits().max(0, size));
      CHECK(peaks.top() == row.largest());
    }
  };
  check(0.0f, 1, 64);
  check(0.0, 1000, 64);
  check(Eigen::half{}, 65'536, 64);
  check(Eigen::bfloat16{}, 65'537, 128);
  check(0.0f, 300'000, 512);
}

}  // namespace test_rows_logits_row
