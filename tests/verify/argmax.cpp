// SPDX-License-Identifier: MIT
#include <array>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/constant_draft.hpp"

namespace test_verify_argmax {

using namespace specdec;

static_assert(Verifier<ArgmaxVerifier>);

namespace {

using support::ConstantDraft;
using support::probability_of;
using support::toy_line;
using support::toy_p;
using support::toy_q;

// By the compiler: B is the argmax of each row of the paper's example.
static_assert(probability_of(Verdict{0, 1}, ArgmaxVerifier{}, toy_line) == 1);
static_assert(probability_of(Verdict{2, 1}, ArgmaxVerifier{},
                             ConstantDraft(toy_p, toy_q, std::array{1, 1})) == 1);

}  // namespace

TEST_CASE("argmax verification accepts drafted tokens as long as each is the target's argmax") {
  Eigen::MatrixXf target(3, 3);
  target << 0.2f, 0.5f, 0.3f, 0.6f, 0.2f, 0.2f, 0.1f, 0.1f, 0.8f;
  const ArgmaxVerifier verifier;
  CHECK(verifier(target, std::vector<Token>{1, 0}) == Verdict{2, 2});
  CHECK(verifier(target, std::vector<Token>{1, 1}) == Verdict{1, 0});
  CHECK(verifier(target, std::vector<Token>{0, 0}) == Verdict{0, 1});
  CHECK(verifier(target.topRows(1), std::vector<Token>{}) == Verdict{0, 1});
}

TEST_CASE("ties go to the lowest id, for acceptance and correction") {
  Eigen::MatrixXd target(2, 3);
  target << 0.25, 0.375, 0.375, 0.5, 0, 0.5;
  const ArgmaxVerifier verifier;
  CHECK(verifier(target, std::vector<Token>{1}) == Verdict{1, 0});
  CHECK(verifier(target, std::vector<Token>{2}) == Verdict{0, 1});
}

TEST_CASE("argmax verification needs no q: q = 0 is no error, and no random number is used") {
  Eigen::MatrixXd target(2, 2), draft(1, 2);
  target << 0, 1, 1, 0;
  draft << 1, 0;
  std::mt19937_64 rng{1}, untouched{1};
  CHECK(ArgmaxVerifier{}(target, draft, std::vector<Token>{1}, rng) == Verdict{1, 0});
  CHECK(rng == untouched);
}

}  // namespace test_verify_argmax
