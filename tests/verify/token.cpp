// SPDX-License-Identifier: MIT
#include <map>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/constant_draft.hpp"

namespace test_verify_token {

using namespace specdec;
using testing::Enumerator;

static_assert(Verifier<TokenVerifier>);

namespace {

using support::near;
using support::probability_of;
using support::toy_line;

// Worked by hand on the paper's example, and by the compiler: the draft AA, where p/q = 1/2.
static_assert(near(probability_of(Verdict{0, 1}, TokenVerifier{}, toy_line), 1. / 2));
static_assert(near(probability_of(Verdict{1, 1}, TokenVerifier{}, toy_line), 1. / 4));
static_assert(near(probability_of(Verdict{2, 0}, TokenVerifier{}, toy_line), 1. / 12));
static_assert(near(probability_of(Verdict{2, 1}, TokenVerifier{}, toy_line), 1. / 6));

}  // namespace

TEST_CASE("token verification, worked by hand") {
  Eigen::MatrixXd target(2, 3), draft(1, 3);
  target << 0.5, 0.125, 0.375, 0.25, 0.5, 0.25;
  draft << 0.25, 0.5, 0.25;
  const auto law = [&](Token x) {
    std::map<std::pair<Index, Token>, double> verdicts;
    testing::enumerate([&](Enumerator& chance) {
      const Verdict v = TokenVerifier{}(target, draft, std::vector<Token>{x}, chance);
      verdicts[{v.accepted, v.token}] += chance.probability();
    });
    return verdicts;
  };
  // p/q >= 1: accepted, and the bonus comes from the last row.
  CHECK(law(0) == std::map<std::pair<Index, Token>, double>{{{1, 0}, 0.25}, {{1, 1}, 0.5}, {{1, 2}, 0.25}});
  // p/q = 1/4; the residual is (1/4, 0, 1/8).
  const auto second = law(1);
  CHECK(second.size() == 5);
  CHECK(second.at({0, 0}) == Approx(0.75 * 2 / 3));
  CHECK(second.at({0, 2}) == Approx(0.75 * 1 / 3));
  CHECK(second.at({1, 1}) == Approx(0.25 * 0.5));
}

TEST_CASE("token verification uses its random numbers in a fixed order") {
  // One coin per token up to the rejection, then the race or the draw. Twins with equal random numbers agree.
  Eigen::MatrixXd target(2, 2), draft(1, 2);
  target << 0.25, 0.75, 0.5, 0.5;
  draft << 0.5, 0.5;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 rng{seed}, twin{seed};
    const Verdict v = TokenVerifier{}(target, draft, std::vector<Token>{0}, rng);
    if (uniform01(twin) < 0.5) {
      CHECK(v == Verdict{1, uniform01(twin) < 0.5 ? 0 : 1});
    } else {
      CHECK(v == Verdict{0, 1});
    }
  }
}

}  // namespace test_verify_token
