// Penalties by their formulae, against counts made from scratch after every token, forward and back.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/sample/text_processor.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_sample_penalties {

using namespace specdec;

namespace {

constexpr Index vocabulary = 40;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Some logits of either sign, a 0, and a forbidden one.
Eigen::RowVectorXd raw_logits() {
  Eigen::RowVectorXd logits = Eigen::RowVectorXd::LinSpaced(vocabulary, -2, 2);
  logits[3] = 0;
  logits[4] = -infinity;
  return logits;
}

std::vector<Index> counts_of(const std::vector<Token>& text, Index last_n) {
  std::vector<Index> counts(static_cast<std::size_t>(vocabulary));
  const auto size = std::min(std::ssize(text), last_n);
  for (const Token x : std::span(text).last(static_cast<std::size_t>(size)))
    if (x >= 0 && x < vocabulary) ++counts[static_cast<std::size_t>(x)];
  return counts;
}

template <class P, class Formula>
void check(P penalty, Index last_n, const Formula& formula) {
  std::mt19937_64 rng{3};
  std::vector<Token> text;
  const auto below = [&](Index end) {
    return static_cast<Index>(uniform01(rng) * uniform01(rng) * static_cast<double>(end));
  };
  for (int n = 0; n < 1500; ++n) {
    if (n % 3 == 0) {
      const Index taken_back = std::min(below(n % 100 == 0 ? 400 : 12), std::ssize(text));
      penalty.pop(taken_back);
      text.resize(text.size() - static_cast<std::size_t>(taken_back));
    }
    for (Index more = below(12); more > 0; --more) {
      text.push_back(static_cast<Token>(below(vocabulary + 3) - 1));  // sometimes a token that no row has
      penalty.push(text.back());
    }
    Eigen::RowVectorXd logits = raw_logits(), expected = raw_logits();
    penalty.apply(Eigen::Ref<Eigen::RowVectorXd>(logits));
    const std::vector<Index> counts = counts_of(text, last_n);
    for (Index x = 0; x < vocabulary; ++x) {
      const Index count = counts[static_cast<std::size_t>(x)];
      if (count > 0) expected[x] = formula(expected[x], static_cast<double>(count));
    }
    REQUIRE(logits == expected);
  }
}

}  // namespace

static_assert(TextProcessor<RepetitionPenalty>);
static_assert(TextProcessor<FrequencyPenalty, Eigen::Ref<Eigen::RowVectorXd>>);

TEST_CASE("penalties follow their formulae while a text goes forward and back") {
  for (const Index last_n : {unlimited, Index{1}, Index{7}, Index{64}}) {
    check(RepetitionPenalty{1.3, last_n}, last_n, [](double l, double) { return l > 0 ? l / 1.3 : l * 1.3; });
    check(PresencePenalty{0.5, last_n}, last_n, [](double l, double) { return l - 0.5; });
    check(FrequencyPenalty{-0.25, last_n}, last_n, [](double l, double count) { return l + 0.25 * count; });
  }
}

TEST_CASE("neutral penalties, and penalties before any token, change nothing") {
  const auto same = [](double l, double) { return l; };
  check(RepetitionPenalty{1}, unlimited, same);
  check(PresencePenalty{0, 5}, unlimited, same);
  check(FrequencyPenalty{0}, unlimited, same);
  check(RepetitionPenalty{2, 0}, unlimited, same);
  check(FrequencyPenalty{2, 0}, unlimited, same);
}

TEST_CASE("a penalty too large for the row's type leaves logits finite, and forbidden tokens forbidden") {
  static constexpr float most = std::numeric_limits<float>::max(),
                         never = -std::numeric_limits<float>::infinity();
  const auto of = [](auto penalty) {
    for (const Token x : {0, 1, 2, 3, 0, 1, 2, 3}) penalty.push(x);
    Eigen::RowVectorXf logits = Eigen::RowVector4f(8, 0, -2, never);
    penalty.apply(Eigen::Ref<Eigen::RowVectorXf>(logits));
    return logits;
  };
  CHECK(of(RepetitionPenalty{1e39}) == Eigen::RowVector4f(8 / most, 0, -most, never));
  CHECK(of(RepetitionPenalty{1e-50}) ==
        Eigen::RowVector4f(most, 0, -2 * std::numeric_limits<float>::min(), never));
  for (const double sign : {-1.0, 1.0}) {
    const float far = static_cast<float>(-sign) * most;
    CHECK(of(PresencePenalty{sign * 1e39}) == Eigen::RowVector4f(far, far, far, never));
    CHECK(of(FrequencyPenalty{sign * 1.5e308}) == Eigen::RowVector4f(far, far, far, never));
  }
}

TEST_CASE("a penalty that is not a number, and a negative window, are refused") {
  using support::message_of;
  CHECK(message_of([] { RepetitionPenalty{0}; }) ==
        "specdec: RepetitionPenalty{0} is not a finite number above 0");
  CHECK(message_of([] { RepetitionPenalty{infinity}; }) ==
        "specdec: RepetitionPenalty{inf} is not a finite number above 0");
  CHECK(message_of([] { PresencePenalty{-infinity}; }) ==
        "specdec: PresencePenalty{-inf} is not a finite number");
  CHECK(message_of([] { FrequencyPenalty{std::numeric_limits<double>::quiet_NaN()}; }) ==
        "specdec: FrequencyPenalty{nan} is not a finite number");
  CHECK(message_of([] { PresencePenalty{0, -1}; }) == "specdec: last_n = -1 is negative");
}

}  // namespace test_sample_penalties
