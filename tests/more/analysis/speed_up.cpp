// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <specdec/more/analysis/speed_up.hpp>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_analysis_speed_up {

using namespace specdec;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
const double alphas[] = {0, 1e-9, 0.01, 0.3, 0.5, 0.77, 0.95, 0.999, 1 - 1e-9, 1 - 1e-15, 1};

// 1 + α + ... + α^γ term by term.
long double geometric_sum(double alpha, Index gamma) {
  long double sum = 1;
  for (Index i = 0; i < gamma; ++i) sum = 1 + static_cast<long double>(alpha) * sum;
  return sum;
}

long double improvement(double alpha, Index gamma, double c) {
  return geometric_sum(alpha, gamma) / (1 + static_cast<long double>(gamma) * static_cast<long double>(c));
}

double relative_error(double got, long double expected) {
  return static_cast<double>(std::abs((static_cast<long double>(got) - expected) / expected));
}

}  // namespace

TEST_CASE("expected tokens are the geometric sum, near alpha = 1 too") {
  for (const double alpha : alphas)
    for (const Index gamma : {0, 1, 2, 5, 16, 100, 100000})
      CHECK(relative_error(expected_tokens(alpha, gamma), geometric_sum(alpha, gamma)) < 2e-15);
}

TEST_CASE("expected tokens are always within 1 and gamma + 1") {
  for (double gap = 1; gap > 1e-17; gap *= 0.9)
    for (const Index gamma : {1, 2, 3, 6, 100}) {
      CHECK(expected_tokens(1 - gap, gamma) <= static_cast<double>(gamma) + 1);
      CHECK(expected_tokens(gap, gamma) >= 1);
    }
}

TEST_CASE("limits of the expected tokens are exact") {
  for (const double alpha : alphas) CHECK(expected_tokens(alpha, 0) == 1);
  for (const Index gamma : {1, 7, 1000000}) {
    CHECK(expected_tokens(0, gamma) == 1);
    CHECK(expected_tokens(1, gamma) == static_cast<double>(gamma) + 1);
  }
}

TEST_CASE("walltime improvement and operations factor relate the geometric sum to their costs") {
  for (const double alpha : alphas)
    for (const Index gamma : {0, 1, 4, 9})
      for (const double ratio : {0.0, 0.02, 0.7, 3.0}) {
        CHECK(relative_error(walltime_improvement(alpha, gamma, ratio), improvement(alpha, gamma, ratio)) <
              4e-15);
        const long double n = gamma;
        CHECK(relative_error(operations_factor(alpha, gamma, ratio),
                             (n * static_cast<long double>(ratio) + n + 1) / geometric_sum(alpha, gamma)) <
              4e-15);
      }
  CHECK(operations_factor(1, 5, 0) == 1);  // no operation is wasted
  CHECK(operations_factor(0, 5, 0) == 6);
}

// Checked by trying all gamma up to 60.
TEST_CASE("some gamma helps exactly if alpha exceeds the cost ratio") {
  for (const double alpha : alphas)
    for (const double c : {0.0, 1e-9, 0.01, 0.3, 0.5, 0.77, 0.95, 1.0, 1.5}) {
      long double best = 1;
      for (Index gamma = 1; gamma <= 60; ++gamma) best = std::max(best, improvement(alpha, gamma, c));
      CHECK(drafting_helps(alpha, c) == (best > 1));
    }
}

TEST_CASE("the best gamma is the smallest of all gammas that are equally best") {
  for (const double alpha : {0.0, 0.05, 0.3, 0.5, 0.62, 0.75, 0.88, 0.95, 0.99})
    for (const double c : {0.001, 0.02, 0.05, 0.11, 0.25, 0.3, 0.5, 0.9, 1.0, 2.0})
      for (const Index most : {0, 1, 3, 1000}) {
        Index best = 0;
        for (Index gamma = 1; gamma <= most; ++gamma)
          if (improvement(alpha, gamma, c) > improvement(alpha, best, c)) best = gamma;
        INFO("alpha = " << alpha << ", c = " << c << ", most = " << most);
        CHECK(best_gamma(alpha, c, most) == best);
        if (alpha > c && best > 0) CHECK(static_cast<double>(best) < std::log(c) / std::log(alpha));
      }
}

TEST_CASE("the best gamma is right at the limits") {
  CHECK(best_gamma(0.5, 0.5, 100) == 0);  // γ = 0 is as fast as γ = 1
  CHECK(best_gamma(1, 1, 100) == 0);      // every γ is equally fast
  CHECK(best_gamma(0, 0, 100) == 0);
  CHECK(best_gamma(0.5, 0, 5000) == 5000);  // even where α^γ is too small for a double
  CHECK(best_gamma(1, 0, 5000) == 5000);
  CHECK(best_gamma(1, std::nextafter(1.0, 0.0), 1000) == 1000);
  CHECK(best_gamma(0.9, 0.1, std::numeric_limits<Index>::max()) == best_gamma(0.9, 0.1, 100));
  CHECK(best_gamma(0.9, 0.1, 0) == 0);
}

TEST_CASE("the oracle's improvement is that of drafting exactly the tokens that survive") {
  // A step of τ accepted tokens costs 1 + cτ and emits τ + 1; P(τ = t) = α^t (1 − α).
  for (const double alpha : {0.0, 0.3, 0.8, 0.95})
    for (const double c : {0.0, 0.05, 0.4}) {
      double tokens = 0, cost = 0;
      for (int t = 0; t < 2000; ++t) {
        const double probability = std::pow(alpha, t) * (1 - alpha);
        tokens += probability * (t + 1);
        cost += probability * (1 + c * t);
      }
      CHECK(oracle_improvement(alpha, c) == Approx(tokens / cost).epsilon(1e-12));
      for (Index gamma = 0; gamma < 50; ++gamma)
        CHECK(oracle_improvement(alpha, c) >= walltime_improvement(alpha, gamma, c) * (1 - 1e-15));
    }
  CHECK(oracle_improvement(1, 0.25) == 4);
  CHECK(oracle_improvement(1, 0) == infinity);
}

TEST_CASE("published speed-ups follow from published measurements") {  // Chen et al.; GPT-2 XL with small
  const StepCosts chinchilla{.draft = 1.8 / 14.1};
  CHECK(speed_up(0.8 * 5, 4, chinchilla) == Approx(2.65).margin(0.005));
  CHECK(speed_up(0.62 * 5, 4, chinchilla) == Approx(2.05).margin(0.005));
  CHECK(speed_up(0.8125 * 5, 4, {.draft = 11.9 / 73.3}) == Approx(2.46).margin(0.005));
}

TEST_CASE("a measured speed-up accounts for the cost of a call over several tokens") {
  CHECK(speed_up(3, 4, {.call = 1.25, .draft = 0.0625}) == 2);
  CHECK(speed_up(1, 0, {}) == 1);
  CHECK(speed_up(5, 4, {}) == 5);
  CHECK(speed_up(5 + 1e-7, 4, {}) == Approx(5));  // rounding of a sum over rows of float
  // With the costs and the tokens of Theorem 3.8 it is that theorem.
  for (const double alpha : alphas)
    CHECK(speed_up(expected_tokens(alpha, 6), 6, {.draft = 0.07}) ==
          Approx(walltime_improvement(alpha, 6, 0.07)).epsilon(1e-14));
  // Any fraction that can be measured is a valid argument.
  for (Index gamma = 0; gamma < 100; ++gamma) {
    const double most = static_cast<double>(gamma) + 1;
    CHECK(speed_up(1 / most * most, gamma, {}) == Approx(1));
    CHECK(speed_up(most, gamma, {}) == most);
  }
}

TEST_CASE("the draft lengths of a published table are near the best ones") {
  // Leviathan et al., Table 2: T5-small, -base and -large draft for T5-XXL, with cost ratios of about 0.02, 0.04 and
  // 0.11. The paper tried γ = 3, 5 and 7.
  struct Row {
    double c, alpha;
    Index gamma;
  };
  for (const auto& [c, alpha, gamma] : {Row{0.02, 0.75, 7},
                                        {0.04, 0.80, 7},
                                        {0.11, 0.82, 7},
                                        {0.02, 0.62, 7},
                                        {0.04, 0.68, 5},
                                        {0.11, 0.71, 3},
                                        {0.02, 0.65, 5},
                                        {0.04, 0.73, 5},
                                        {0.11, 0.74, 3},
                                        {0.02, 0.53, 5},
                                        {0.04, 0.55, 3},
                                        {0.11, 0.56, 3}}) {
    const Index best = best_gamma(alpha, c, 100);
    INFO("alpha = " << alpha << ", c = " << c << ": best gamma " << best);
    CHECK(std::abs(best - gamma) <= 2);
    CHECK(walltime_improvement(alpha, gamma, c) > 0.97 * walltime_improvement(alpha, best, c));
  }
}

TEST_CASE("bad arguments are named in the error") {
  const auto message = [](auto&& f) { return support::message_of(f); };
  CHECK(message([] { expected_tokens(-0.1, 1); }) == "specdec: alpha = -0.1 is outside [0, 1]");
  CHECK(message([] { expected_tokens(1.5, 1); }) == "specdec: alpha = 1.5 is outside [0, 1]");
  CHECK(message([] { expected_tokens(not_a_number, 1); }) == "specdec: alpha = nan is outside [0, 1]");
  CHECK(message([] { expected_tokens(0.5, -1); }) == "specdec: gamma = -1 is negative");
  CHECK(message([] { walltime_improvement(0.5, 1, -1); }) ==
        "specdec: cost_ratio = -1 is no finite number >= 0");
  CHECK(message([] { walltime_improvement(0.5, 1, infinity); }) ==
        "specdec: cost_ratio = inf is no finite number >= 0");
  CHECK(message([] { drafting_helps(2, 0); }) == "specdec: alpha = 2 is outside [0, 1]");
  CHECK(message([] { drafting_helps(0.5, not_a_number); }) ==
        "specdec: cost_ratio = nan is no finite number >= 0");
  CHECK(message([] { best_gamma(0.5, 0.1, -2); }) == "specdec: most = -2 is negative");
  CHECK(message([] { best_gamma(2, 0.1, 2); }) == "specdec: alpha = 2 is outside [0, 1]");
  CHECK(message([] { oracle_improvement(2, 0); }) == "specdec: alpha = 2 is outside [0, 1]");
  CHECK(message([] { oracle_improvement(0.5, -1); }) == "specdec: cost_ratio = -1 is no finite number >= 0");
  CHECK(message([] { operations_factor(0.5, 2, -1); }) ==
        "specdec: operations_ratio = -1 is no finite number >= 0");
  CHECK_THROWS_AS(speed_up(5.0001, 4, {}), std::invalid_argument);
  CHECK_THROWS_AS(speed_up(0.9999, 4, {}), std::invalid_argument);
  CHECK_THROWS_AS(speed_up(not_a_number, 4, {}), std::invalid_argument);
  CHECK(message([] { speed_up(6, 4, {}); }) == "specdec: tokens_per_call = 6 is outside [1, gamma + 1 = 5]");
  CHECK(message([] { speed_up(0.5, 4, {}); }) ==
        "specdec: tokens_per_call = 0.5 is outside [1, gamma + 1 = 5]");
  CHECK(message([] { speed_up(1, -1, {}); }) == "specdec: gamma = -1 is negative");
  CHECK(message([] { speed_up(1, 4, {.call = 0}); }) == "specdec: costs.call = 0 is no finite number > 0");
  CHECK(message([] { speed_up(1, 4, {.draft = not_a_number}); }) ==
        "specdec: costs.draft = nan is no finite number >= 0");
}

TEST_CASE("an error message can be made for the largest gamma") {
  CHECK(support::message_of([] { speed_up(0.5, std::numeric_limits<Index>::max(), {}); }) ==
        "specdec: tokens_per_call = 0.5 is outside [1, gamma + 1 = 9.22337204e+18]");
}

}  // namespace test_more_analysis_speed_up
