// The rules in constant expressions: the compiler proves what they accept, and the law of what they write, over all drafts and
// all outcomes. Nothing here includes Eigen.
// SPDX-License-Identifier: MIT
#include <specdec/verify/rules/block.hpp>
#include <specdec/verify/rules/greedy_block.hpp>
#include <specdec/verify/rules/lenient.hpp>
#include <specdec/verify/rules/sample_match.hpp>
#include <specdec/verify/rules/token.hpp>

#include "support/catch.hpp"
#include "support/constant_draft.hpp"

namespace test_verify_law_constexpr {

using namespace specdec;
using support::ConstantDraft;
using support::EveryOutcome;
using support::near;
using support::toy_p;
using support::toy_q;

namespace {

// Drafts two tokens in every way, and sums f(draft, verdict) over all verdicts, with their probabilities.
template <class R, class F>
constexpr double expected(const R& rule, const F& f) {
  EveryOutcome chance;
  double sum = 0;
  do {
    const Token first = chance.pick(toy_q), second = chance.pick(toy_q);
    const ConstantDraft<2> draft(toy_p, toy_q, {first, second});
    R fresh = rule;
    const Verdict verdict = fresh.judge(draft, chance);
    sum += chance.probability() * f(draft, verdict);
  } while (chance.next());
  return sum;
}

template <class R>
constexpr double accepted(const R& rule) {
  return expected(rule, [](const auto&, const Verdict& v) { return static_cast<double>(v.accepted); });
}

// The probability that the first token of the text is x.
template <class R>
constexpr double writes_first(const R& rule, Token x) {
  return expected(rule, [x](const auto& draft, const Verdict& v) {
    return (v.accepted > 0 ? draft.token(0) : v.token) == x ? 1.0 : 0.0;
  });
}

}  // namespace

// Sun et al., section 2: of two drafted tokens, token verification accepts 10/9 in expectation, block verification 11/9, and no
// rule more than 12/9.
static_assert(near(accepted(TokenVerifier{}), 10. / 9));
static_assert(near(accepted(BlockVerifier{}), 11. / 9));
static_assert(near(accepted(GreedyBlockWithin<2>{}), 12. / 9));
static_assert(near(accepted(SampleMatchVerifier{}), 4. / 9 + 16. / 81));  // Σ p·q = 4/9 at each place
static_assert(near(accepted(LenientVerifier{0.5}), 2));

// Lossless: the first token has the target's law. With a lenience of 1/2 it has the draft's.
static_assert(near(writes_first(TokenVerifier{}, 0), 1. / 3));
static_assert(near(writes_first(BlockVerifier{}, 0), 1. / 3));
static_assert(near(writes_first(SampleMatchVerifier{}, 0), 1. / 3));
static_assert(near(writes_first(LenientVerifier{0.5}, 0), 2. / 3));

TEST_CASE("the rules in constant expressions") {
  // The compiler has checked what is above. The program computes the same numbers.
  CHECK(near(accepted(TokenVerifier{}), 10. / 9));
  CHECK(near(accepted(BlockVerifier{}), 11. / 9));
  CHECK(near(accepted(GreedyBlockVerifier{}), 12. / 9));  // whose memory is on the heap
}

}  // namespace test_verify_law_constexpr
