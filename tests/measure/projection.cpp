// Oracles: sums written out, and the closed form of Leviathan et al., Theorem 3.8.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <specdec/measure/projection.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_measure_projection {

using namespace specdec;

TEST_CASE("a constant acceptance rate and cost ratio give the closed form") {
  for (const double alpha : {0.1, 0.5, 0.9})
    for (const double c : {0.0, 0.05, 0.3}) {
      const std::vector<double> survival{alpha, alpha * alpha},
          proposed{1.0};  // beyond these, the share goes on falling
      const auto projections = project(
          survival, proposed, [](Index) { return 2.0; },
          [&](Index n) { return 2.0 * c * static_cast<double>(n); });
      REQUIRE(projections.size() == 17);
      for (Index gamma = 0; gamma <= 16; ++gamma) {
        const auto& p = projections[static_cast<std::size_t>(gamma)];
        const double n = static_cast<double>(gamma);
        const double tokens = (1 - std::pow(alpha, n + 1)) / (1 - alpha);
        CHECK(p.gamma == gamma);
        CHECK(p.tokens_per_call == Approx(tokens));
        CHECK(p.speed_up == Approx(tokens / (n * c + 1)));
        CHECK(p.time_per_token == Approx(2.0 / p.speed_up));
      }
    }
}

TEST_CASE("an expected step weighs target calls by how often that many tokens are proposed") {
  const std::vector<double> proposed{0.5, 0.25};
  const auto target = [](Index n) { return n == 1 ? 10.0 : n == 2 ? 12.0 : 15.0; };
  const auto draft = [](Index n) { return n == 0 ? 1.0 : n == 1 ? 2.0 : 4.0; };
  const auto share = [&](Index i) { return proposed[static_cast<std::size_t>(i)]; };
  CHECK(expected_step_cost(0, share, target, draft) == 10);  // the drafter is not asked
  CHECK(expected_step_cost(1, share, target, draft) == 0.5 * (10 + 1) + 0.5 * (12 + 2));
  CHECK(expected_step_cost(2, share, target, draft) == 0.5 * (10 + 1) + 0.25 * (12 + 2) + 0.25 * (15 + 4));
  const auto projections = project(std::vector<double>{0.4, 0.1}, proposed, target, draft, 2);
  CHECK(projections[2].tokens_per_call == Approx(1.5));
  CHECK(projections[2].speed_up == Approx(10 * 1.5 / 13.75));
}

TEST_CASE("beyond the known positions survival goes on falling at its last rate, or stays") {
  const auto one = [](Index) { return 1.0; };
  const auto tokens = [&](std::vector<double> survival, Index gamma) {
    return project(survival, {}, one, one, gamma).back().tokens_per_call;
  };
  CHECK(tokens({}, 5) == 1);
  CHECK(tokens({0.5}, 3) == Approx(1 + 0.5 + 0.25 + 0.125));
  CHECK(tokens({0.8, 0.4}, 4) == Approx(1 + 0.8 + 0.4 + 0.2 + 0.1));
  CHECK(tokens({1.0, 1.0}, 4) == 5);
  CHECK(tokens({0.5, 0.6}, 3) == Approx(1 + 0.5 + 0.6 + 0.6));  // block verification's survival may rise
  CHECK(tokens({0.5, 0.0}, 9) == 1.5);
  CHECK(tokens({0.5, 0.0, 0.0}, 9) == 1.5);
}

TEST_CASE("impossible draft lengths are named in the error") {
  using support::message_of;
  const auto one = [](Index) { return 1.0; };
  const auto complaint = [&](Index most) { return message_of([&] { project({}, {}, one, one, most); }); };
  CHECK(complaint(-1) == "specdec: most = -1 is negative");
  CHECK(complaint(unlimited) ==
        "specdec: most = 9223372036854775807 is more than 1048576, the longest draft");
  CHECK(message_of([&] { expected_step_cost(-1, one, one, one); }) == "specdec: gamma = -1 is negative");
  CHECK(message_of([&] { expected_step_cost(unlimited, one, one, one); }) ==
        "specdec: gamma = 9223372036854775807 is more than 1048576, the longest draft");
}

}  // namespace test_measure_projection
