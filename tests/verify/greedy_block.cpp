// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/constant_draft.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_verify_greedy_block {

using namespace specdec;
using support::RowMajor;
using testing::Enumerator;

static_assert(Verifier<GreedyBlockVerifier>);

namespace {

// Calls the rule on the row type that support/rules.hpp has already compiled it for.
Verdict judge(GreedyBlockVerifier& verifier, const RowMajor<double>& target, const RowMajor<double>& draft,
              const std::vector<Token>& tokens, auto& chance) {
  support::AnyVerifier any{std::move(verifier)};
  const auto put_back = [&] { verifier = std::move(std::get<GreedyBlockVerifier>(any.rule)); };
  try {
    const Verdict verdict = any(target, draft, tokens, chance);
    put_back();
    return verdict;
  } catch (...) {
    put_back();
    throw;
  }
}

struct Toy {
  RowMajor<double> target{4, 2}, draft{3, 2};
  Toy() {
    target.rowwise() = Eigen::RowVector2d(1. / 3, 2. / 3);
    draft.rowwise() = Eigen::RowVector2d(2. / 3, 1. / 3);
  }
  Verdict judge(GreedyBlockVerifier& verifier, const std::vector<Token>& tokens, auto& chance) const {
    const Index gamma = static_cast<Index>(tokens.size());
    return test_verify_greedy_block::judge(verifier, target.topRows(gamma + 1), draft.topRows(gamma), tokens,
                                           chance);
  }

  // A verifier that accepted 0 of 3 tokens, so it modifies the next two.
  GreedyBlockVerifier stopped_at_once(std::mt19937_64& rng) const {
    GreedyBlockVerifier verifier;
    while (verifier.min_draft_length() != 2) {
      verifier = {};
      judge(verifier, {0, 0, 0}, rng);
    }
    return verifier;
  }
};

}  // namespace

namespace {

using support::ConstantDraft;
using support::EveryOutcome;
using support::near;
using support::probability_of;
using support::toy_line;
using support::toy_p;
using support::toy_q;

// Worked by hand on the paper's example, and by the compiler: a step over the draft AA, then one over the draft A.
static_assert(near(probability_of(Verdict{0, 1}, GreedyBlockWithin<2>{}, toy_line), 3. / 4));
static_assert(near(probability_of(Verdict{2, 1}, GreedyBlockVerifier{}, toy_line), 1. / 6));
static_assert([] {
  EveryOutcome chance;
  do {
    GreedyBlockWithin<2> verifier;
    if (verifier.judge(toy_line, chance).accepted != 0) continue;
    verifier.commit();  // B, with r = (1/3)/(2/3) = 1/2 for one token: t = (p - q/2)+ has only B
    if (verifier.min_draft_length() != 1 || !near(verifier.modifications()[0].ratio, 0.5)) return false;
    if (verifier.judge(ConstantDraft(toy_p, toy_q, std::array{0}), chance) != Verdict{0, 1}) return false;
  } while (chance.next());
  return true;
}());

}  // namespace

TEST_CASE("a rejection leaves one modification, with inverse ratio q/(g·p), for the rest of the block") {
  // AAA: g = 1, 1/2, 1/4, 1/8. A stop at 0 draws B: r = (1/3)/(2/3) = 1/2 for the 2 tokens left.
  const Toy toy;
  double stopped = 0;
  testing::enumerate([&](Enumerator& chance) {
    GreedyBlockVerifier verifier;
    const Verdict v = toy.judge(verifier, {0, 0, 0}, chance);
    if (v.accepted == 3) {
      CHECK(verifier.modifications().empty());
      CHECK(verifier.min_draft_length() == 0);
    }
    if (v.accepted != 0) return;
    stopped += chance.probability();
    CHECK(v.token == 1);
    REQUIRE(verifier.modifications().size() == 1);
    CHECK(verifier.modifications()[0].ratio == Approx(0.5));
    CHECK(verifier.modifications()[0].left == 2);
    CHECK(verifier.min_draft_length() == 2);
  });
  CHECK(stopped > 0.5);
}

TEST_CASE("modifications move on with the tokens, and end with the block in which they arose") {
  const Toy toy;
  testing::enumerate([&](Enumerator& chance) {
    GreedyBlockVerifier verifier;
    if (toy.judge(verifier, {0, 0, 0}, chance).accepted != 0) return;
    // The target is now t ∝ (p − q/2)+ = (0, 1/2), so B for sure, and a drafted A has g = 0.
    GreedyBlockVerifier on_a = verifier;
    CHECK(toy.judge(on_a, {0, 0}, chance) == Verdict{0, 1});
    // After that B, r = 1/2·(1/3)/(2/3 of the target before it) = 1/4, with one token to go. The new stop adds its own
    // r = q(B)/(1·t(B)) = 1/3.
    REQUIRE(on_a.modifications().size() == 2);
    CHECK(on_a.modifications()[0].ratio == Approx(0.25));
    CHECK(on_a.modifications()[0].left == 1);
    CHECK(on_a.modifications()[1].ratio == Approx(1. / 3));
    CHECK(on_a.modifications()[1].left == 1);
    CHECK(toy.judge(on_a, {1}, chance).accepted == 1);
    CHECK(on_a.modifications().empty());
  });
}

TEST_CASE("a draft shorter than the live modifications is refused, and the verifier stays as it was") {
  const Toy toy;
  std::mt19937_64 rng{1};
  GreedyBlockVerifier verifier = toy.stopped_at_once(rng);
  const GreedyBlockVerifier before = verifier;
  CHECK(support::message_of([&] { toy.judge(verifier, {1}, rng); }) ==
        "specdec: tokens has 1 drafted tokens, but greedy block verification still modifies the next 2: "
        "draft at "
        "least that many");
  CHECK(verifier == before);
  Toy broken;
  broken.target(0, 0) = std::nan("");
  CHECK_THROWS_AS(broken.judge(verifier, {0, 0, 0}, rng), InvalidDistribution);
  CHECK(verifier == before);
  CHECK_NOTHROW(toy.judge(verifier, {1, 1}, rng));
}

TEST_CASE("one-hot drafts leave no modifications, so a drafter without q may then propose nothing") {
  std::mt19937_64 rng{5};
  const auto target = testing::TableModel<>::random(3, 1, rng);
  for (int n = 0; n < 500; ++n) {
    RowMajor<double> rows(4, 3);
    for (Index i = 0; i < 4; ++i)
      for (Token x = 0; x < 3; ++x)
        rows(i, x) = target.distribution(std::vector<Token>{static_cast<Token>(n % 3)}).probability(x);
    const std::vector<Token> tokens{static_cast<Token>(uniform01(rng) * 3), 1, 2};
    GreedyBlockVerifier verifier;
    verifier(rows, OneHotRows(tokens), tokens, rng);
    CHECK(verifier.modifications().empty());
  }
}

TEST_CASE("greedy block: a ratio that overflows cannot bring back a token that the target rules out") {
  // p_0(x_1) = 0, then p/q = 1/5e-324. 0 times infinity must not become a weight.
  RowMajor<double> target(3, 2), draft(2, 2);
  target << 0, 1, 1, 0, 0.5, 0.5;
  draft << 1, 0, std::numeric_limits<double>::denorm_min(), 1;
  std::mt19937_64 rng{1};
  GreedyBlockVerifier verifier;
  CHECK(judge(verifier, target, draft, {0, 0}, rng) == Verdict{0, 1});
}

TEST_CASE("a modification that would leave no mass because of rounding is skipped") {
  // A stop at 0 draws token 0 with r = 0.4999/0.5. The target's rows after it equal the draft's rows up to rounding of
  // their sums, so p − r·q leaves nothing.
  RowMajor<double> target = RowMajor<double>::Constant(3, 2, 0.5),
                   draft = RowMajor<double>::Constant(2, 2, 0.5);
  draft.row(0) << 0.4999, 0.5001;
  RowMajor<double> short_target = RowMajor<double>::Constant(2, 2, 0.5);
  short_target.row(0) << 0.4995, 0.4995;
  double stopped = 0, kept = 0;
  testing::enumerate([&](Enumerator& chance) {
    GreedyBlockVerifier verifier;
    const Verdict first = judge(verifier, target, draft, {1, 0}, chance);
    if (first.accepted > 0) return;
    REQUIRE(verifier.modifications().size() == 1);
    CHECK(verifier.modifications()[0].ratio == Approx(0.9998));
    stopped = std::max(stopped, chance.probability());
    const double before = chance.probability();
    const Verdict second = judge(verifier, short_target, draft.bottomRows(1), {0}, chance);
    if (second.accepted == 1) kept += chance.probability() / before;
  });
  CHECK(stopped > 0);
  CHECK(kept == Approx(0.999).epsilon(0).margin(1e-12));  // p/q, as without a modification
}

TEST_CASE("a NaN anywhere in a row that is modified is found") {
  const Toy toy;
  std::mt19937_64 rng{3};
  GreedyBlockVerifier verifier = toy.stopped_at_once(rng);
  RowMajor<double> target(3, 3), draft(2, 3);
  target.rowwise() = Eigen::RowVector3d(0.25, 0.75, std::nan(""));
  draft.rowwise() = Eigen::RowVector3d(0.5, 0.5, 0);
  const GreedyBlockVerifier before = verifier;
  CHECK(support::message_of([&] {
          judge(verifier, target, draft, {1, 1}, rng);
        }) == "specdec: target row 0: the residual of target and draft sums to nan");
  CHECK(verifier == before);
}

TEST_CASE(
    "a ratio too large for a double does not become NaN: a token that the target rules out ends the draft") {
  // g_1 = 0.5/1e-310 would be infinite, and g_2 = g_1 · 0 would be NaN.
  RowMajor<double> target(3, 2), draft(2, 2);
  target << 0.5, 0.5, 1, 0, 0.5, 0.5;
  draft << 1e-310, 1, 0.5, 0.5;
  std::mt19937_64 rng{1};
  GreedyBlockVerifier verifier;
  const Verdict verdict = judge(verifier, target, draft, {0, 1}, rng);
  CHECK(verdict.accepted == 1);
  CHECK(verdict.token == 0);
}

// What a temporary remembers would not outlive it.
template <class V>
concept ShowsModifications = requires(V&& v) { std::forward<V>(v).modifications(); };
static_assert(ShowsModifications<const GreedyBlockVerifier&> && !ShowsModifications<GreedyBlockVerifier>);

}  // namespace test_verify_greedy_block
