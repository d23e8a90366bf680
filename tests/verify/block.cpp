// SPDX-License-Identifier: MIT
#include <limits>
#include <map>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/constant_draft.hpp"

namespace test_verify_block {

using namespace specdec;
using testing::Enumerator;

static_assert(Verifier<BlockVerifier>);
static_assert(std::is_default_constructible_v<BlockVerifier>);

namespace {

using support::near;
using support::probability_of;
using support::toy_line;

// Worked by hand on the paper's example, and by the compiler: the draft AA is kept whole or not at all.
static_assert(near(probability_of(Verdict{0, 1}, BlockVerifier{}, toy_line), 3. / 4));
static_assert(near(probability_of(Verdict{2, 0}, BlockVerifier{}, toy_line), 1. / 12));
static_assert(near(probability_of(Verdict{2, 1}, BlockVerifier{}, toy_line), 1. / 6));

}  // namespace

TEST_CASE("block verification on the paper's example, worked by hand") {
  // p = (1/3, 2/3), q = (2/3, 1/3), A = 0, B = 1 (Sun et al., section 2).
  Eigen::MatrixXd target(3, 2), draft(2, 2);
  target << 1. / 3, 2. / 3, 1. / 3, 2. / 3, 1. / 3, 2. / 3;
  draft << 2. / 3, 1. / 3, 2. / 3, 1. / 3;
  const auto law = [&](Token x, Token y) {
    std::map<std::pair<Index, Token>, double> verdicts;
    testing::enumerate([&](Enumerator& chance) {
      BlockVerifier verifier;
      const Verdict v = verifier(target, draft, std::vector<Token>{x, y}, chance);
      verdicts[{v.accepted, v.token}] += chance.probability();
    });
    return verdicts;
  };
  const auto accepted = [&](Token x, Token y, Index tau) {
    double sum = 0;
    for (const auto& [verdict, p] : law(x, y)) sum += verdict.first == tau ? p : 0;
    return sum;
  };
  CHECK(accepted(0, 1, 2) == Approx(1));  // AB and BB: always accepted whole
  CHECK(accepted(1, 1, 2) == Approx(1));
  // AA: accepted whole with probability 1/4, else corrected at once to B.
  CHECK(accepted(0, 0, 2) == Approx(0.25));
  CHECK(law(0, 0).at({0, 1}) == Approx(0.75));
  // BA: B is always kept, then A with probability 1/2, else B follows B.
  CHECK(accepted(1, 0, 2) == Approx(0.5));
  CHECK(law(1, 0).at({1, 1}) == Approx(0.5));
}

TEST_CASE("a likely late token can save an unlikely early one") {
  // x_1 is unlikely under the target (w_1 = 1/2), x_2 makes up for it (w_2 = 1): token verification would
  // reject x_1 half of the time, block verification keeps both.
  Eigen::MatrixXd target(3, 2), draft(2, 2);
  target << 0.25, 0.75, 1, 0, 0.5, 0.5;
  draft << 0.5, 0.5, 0.5, 0.5;
  std::mt19937_64 rng{1};
  BlockVerifier verifier;
  for (int i = 0; i < 100; ++i) CHECK(verifier(target, draft, std::vector<Token>{0, 0}, rng).accepted == 2);
}

TEST_CASE("one block verifier serves drafts of any length") {
  std::mt19937_64 rng{2};
  BlockVerifier verifier;
  for (const Index gamma : {3, 0, 5, 1, 8, 2}) {
    const Eigen::MatrixXd target = Eigen::MatrixXd::Constant(gamma + 1, 4, 0.25);
    const Verdict v =
        verifier(target, target.topRows(gamma), std::vector<Token>(static_cast<std::size_t>(gamma)), rng);
    CHECK(v.accepted == gamma);
  }
}

TEST_CASE("block: a ratio that overflows cannot bring back a token that the target rules out") {
  // p_0(x_1) = 0, then p/q = 1/5e-324. 0 times infinity must not become a weight.
  Eigen::MatrixXd target(3, 2), draft(2, 2);
  target << 0, 1, 1, 0, 0.5, 0.5;
  draft << 1, 0, std::numeric_limits<double>::denorm_min(), 1;
  std::mt19937_64 rng{1};
  BlockVerifier verifier;
  CHECK(verifier(target, draft, std::vector<Token>{0, 0}, rng) == Verdict{0, 1});
}

}  // namespace test_verify_block
