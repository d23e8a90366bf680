// What a verifier declares about itself. The loop, its statistics and cascades rely on it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/rules.hpp"

namespace test_verify_verifier {

using namespace specdec;
using support::AnyVerifier;

namespace {

struct Said {
  bool draws_from_target, needs_draft, tells_survival, remembers;
};
template <class V>
constexpr Said said{draws_from_target<V>, needs_draft<V>, tells_survival<V>, detail::has_commit<V>};

void check_said(const Said& said, const Said& expected) {
  CHECK(said.draws_from_target == expected.draws_from_target);
  CHECK(said.needs_draft == expected.needs_draft);
  CHECK(said.remembers == expected.remembers);
  CHECK(said.tells_survival == expected.tells_survival);
}

// A rule that declares nothing.
struct Silent {
  Verdict judge(const auto&, auto&) const { return {}; }
};
struct Talkative : Silent {
  static constexpr bool draws_from_target = false;
  static constexpr int needs_draft = 0;  // any type that converts to bool may declare it
  void commit() {}
  float survival(double before, double, double) const { return static_cast<float>(before); }
  Index min_draft_length() const { return 3; }
};
struct Mumbling : Silent {
  void survival(double, double, double) const {}
};
static_assert(Verifier<Silent> && Verifier<Talkative> && Verifier<Mumbling>);

// A rule for trees that declares nothing, and one that returns neither kind of verdict.
struct SilentOfTrees {
  NodeVerdict judge(const auto& drafted, auto&) const { return {drafted.gamma(), 0}; }
};
struct Pathfinder {
  TreeVerdict judge(const auto&, auto&) const { return {}; }
};
static_assert(Verifier<SilentOfTrees> && judges_trees<SilentOfTrees> && !judges_trees<Silent>);
static_assert(!Verifier<Pathfinder> && !judges_trees<Pathfinder>);
static_assert(judges_trees<TraversalVerifier> && judges_trees<RecursiveRejectionVerifier> &&
              judges_trees<KSeqVerifier> && judges_trees<TrunkAndSpares<BlockVerifier>>);
static_assert(!judges_trees<TokenVerifier> && !judges_trees<BlockVerifier> &&
              !judges_trees<GreedyBlockVerifier> && !judges_trees<KeyedVerifier>);

using support::RowMajor;
using Tokens = std::vector<Token>;
using Parents = std::vector<Index>;

// How the library's rules are called: by line only, or by tree only. A rule that remembers must be a variable.
template <class R, class... Given>
concept Takes =
    requires(R&& rule, const RowMajor<double>& rows, const Tokens& tokens, std::mt19937_64& rng,
             const Given&... parents) { std::forward<R>(rule)(rows, rows, tokens, parents..., rng); };
static_assert(Takes<BlockVerifier> && Takes<const BlockVerifier&> && !Takes<BlockVerifier, Parents>);
static_assert(Takes<TraversalVerifier, Parents> && !Takes<TraversalVerifier>);
static_assert(Takes<GreedyBlockVerifier&> && !Takes<GreedyBlockVerifier> &&
              !Takes<const GreedyBlockVerifier&>);

}  // namespace

TEST_CASE("verdicts are equal where both numbers are") {
  CHECK(Verdict{2, 5} == Verdict{2, 5});
  CHECK(Verdict{2, 5} != Verdict{1, 5});
  CHECK(Verdict{2, 5} != Verdict{2, 4});
  CHECK(Verdict{} == Verdict{0, 0});
}

TEST_CASE("rules draw tokens from the target, except greedy and lossy rules") {
  // A cascade reports the target's rows as the q of its drafts. With a rule that said yes here and drew otherwise, the
  // cascade's text would be biased.
  CHECK(draws_from_target<TokenVerifier>);
  CHECK(draws_from_target<BlockVerifier>);
  CHECK(draws_from_target<GreedyBlockVerifier>);
  CHECK(draws_from_target<SampleMatchVerifier>);
  CHECK_FALSE(draws_from_target<LenientVerifier>);
  CHECK_FALSE(draws_from_target<ArgmaxVerifier>);
}

TEST_CASE("rules that use ratios need an honest q, and one rule remembers its sequence") {
  CHECK(needs_draft<TokenVerifier>);
  CHECK(needs_draft<BlockVerifier>);
  CHECK(needs_draft<GreedyBlockVerifier>);
  CHECK(needs_draft<LenientVerifier>);
  CHECK_FALSE(needs_draft<SampleMatchVerifier>);
  CHECK_FALSE(needs_draft<ArgmaxVerifier>);
  CHECK(detail::has_commit<GreedyBlockVerifier>);
  CHECK_FALSE(detail::has_commit<BlockVerifier>);
}

TEST_CASE("a rule tells its survival only if that depends on nothing but p and q of the tokens so far") {
  CHECK(tells_survival<TokenVerifier>);
  CHECK(tells_survival<BlockVerifier>);
  CHECK(tells_survival<SampleMatchVerifier>);
  CHECK(tells_survival<LenientVerifier>);
  CHECK_FALSE(tells_survival<GreedyBlockVerifier>);  // it also depends on modifications
  CHECK_FALSE(tells_survival<ArgmaxVerifier>);       // it depends on which token is the largest
}

TEST_CASE(
    "the loop believes what a user's rule declares, and takes a rule that declares nothing for a plain "
    "sampling rule") {
  check_said(said<Silent>,
             {.draws_from_target = true, .needs_draft = true, .tells_survival = false, .remembers = false});
  check_said(said<Talkative>,
             {.draws_from_target = false, .needs_draft = false, .tells_survival = true, .remembers = true});
  check_said(said<Mumbling>,
             {.draws_from_target = true, .needs_draft = true, .tells_survival = false, .remembers = false});
  CHECK(min_draft_length(Silent{}) == 0);
  CHECK(min_draft_length(Talkative{}) == 3);
}

TEST_CASE("a rule for trees judges a line as a tree without branches") {
  std::mt19937_64 seed{3};
  auto target = testing::TableModel<>::random(4, 1, seed), small = testing::TableModel<>::random(4, 1, seed);
  const Tokens text{0, 1, 2, 3}, line{1, 2, 3};
  const Parents parents{-1, 0, 1};
  const RowMajor<double> p = target.forward(text, 4), q = small.forward(text, 4);
  const RowMajor<double> draft = q.topRows(3);
  Index accepted = 0;
  const auto check = [&](const auto& rule) {
    for (std::uint64_t n = 0; n < 50; ++n) {
      SplitMix64 a(n), b(n);
      const Verdict by_line = verify(rule, p, draft, line, a);
      const TreeVerdict by_tree = verify(rule, p, draft, line, parents, b);
      CHECK(std::ssize(by_tree.path) == by_line.accepted);
      CHECK(by_tree.token == by_line.token);
      for (Index i = 0; i < by_line.accepted; ++i) CHECK(by_tree.path[static_cast<std::size_t>(i)] == i);
      accepted += by_line.accepted;
    }
  };
  check(TraversalVerifier{});
  check(RecursiveRejectionVerifier{});
  check(TrunkAndSpares<BlockVerifier>{});
  CHECK(accepted > 50);
}

TEST_CASE("only rules with modifications need drafts of a least length") {
  support::RowMajor<double> target(4, 2), draft(3, 2);
  target.rowwise() = Eigen::RowVector2d(1. / 3, 2. / 3);
  draft.rowwise() = Eigen::RowVector2d(2. / 3, 1. / 3);
  const std::vector<Token> tokens{0, 0, 0};
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    CHECK(rule.min_draft_length() == 0);
    Index longest = 0;
    for (std::mt19937_64::result_type seed = 0; seed < 50; ++seed) {
      std::mt19937_64 rng{seed};
      AnyVerifier verifier = rule;
      const Verdict verdict = verifier(target, draft, tokens, rng);
      longest = std::max(longest, verifier.min_draft_length());
      CHECK(verifier.min_draft_length() <= std::max<Index>(0, 2 - verdict.accepted));
    }
    CHECK(longest == (std::holds_alternative<GreedyBlockVerifier>(rule.rule) ? 2 : 0));
  }
}

TEST_CASE("verdicts print themselves") {
  std::ostringstream out;
  out << Verdict{2, 7} << "; " << TreeVerdict{{0, 3}, 5} << "; " << TreeVerdict{{}, 1};
  CHECK(out.str() == "2 accepted, then token 7; path [0 3], then token 5; path [], then token 1");
}

}  // namespace test_verify_verifier
