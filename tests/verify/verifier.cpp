// What a verifier says of itself, which the loop, its statistics and cascades go by.
#include <algorithm>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
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
constexpr Said said{draws_from_target<V>, needs_draft<V>, TellsSurvival<V>, detail::Remembers<V>};

void check_said(const Said& said, const Said& expected) {
  CHECK(said.draws_from_target == expected.draws_from_target);
  CHECK(said.needs_draft == expected.needs_draft);
  CHECK(said.remembers == expected.remembers);
  CHECK(said.tells_survival == expected.tells_survival);
}

// A rule that says nothing of itself.
struct Silent {
  Verdict judge(const auto&, auto&) const { return {}; }
};
struct Talkative : Silent {
  static constexpr bool draws_from_target = false;
  static constexpr int needs_draft = 0;  // of any type that a bool can be made of
  void commit() {}
  float survival(double before, double, double) const { return static_cast<float>(before); }
  Index min_draft_length() const { return 3; }
};
struct Mumbling : Silent {
  void survival(double, double, double) const {}
};
static_assert(Verifier<Silent> && Verifier<Talkative> && Verifier<Mumbling>);

}  // namespace

TEST_CASE("verdicts are equal where both numbers are") {
  CHECK(Verdict{2, 5} == Verdict{2, 5});
  CHECK(Verdict{2, 5} != Verdict{1, 5});
  CHECK(Verdict{2, 5} != Verdict{2, 4});
  CHECK(Verdict{} == Verdict{0, 0});
}

TEST_CASE("what is drawn is the target's but under rules that are greedy or lossy") {
  // A cascade reports the target's rows as the q of its drafts: with a rule that said yes here and drew
  // otherwise, its text would be biased.
  CHECK(draws_from_target<TokenVerifier>);
  CHECK(draws_from_target<BlockVerifier>);
  CHECK(draws_from_target<GreedyBlockVerifier>);
  CHECK(draws_from_target<SampleMatchVerifier>);
  CHECK_FALSE(draws_from_target<LenientVerifier>);
  CHECK_FALSE(draws_from_target<ArgmaxVerifier>);
}

TEST_CASE("rules that take ratios need an honest q, and one rule remembers") {
  CHECK(needs_draft<TokenVerifier>);
  CHECK(needs_draft<BlockVerifier>);
  CHECK(needs_draft<GreedyBlockVerifier>);
  CHECK(needs_draft<LenientVerifier>);
  CHECK_FALSE(needs_draft<SampleMatchVerifier>);
  CHECK_FALSE(needs_draft<ArgmaxVerifier>);
  CHECK(detail::Remembers<GreedyBlockVerifier>);
  CHECK_FALSE(detail::Remembers<BlockVerifier>);
}

TEST_CASE("survival is told where it depends on nothing but p and q of the tokens so far") {
  CHECK(TellsSurvival<TokenVerifier>);
  CHECK(TellsSurvival<BlockVerifier>);
  CHECK(TellsSurvival<SampleMatchVerifier>);
  CHECK(TellsSurvival<LenientVerifier>);
  CHECK_FALSE(TellsSurvival<GreedyBlockVerifier>);  // modifications have a say
  CHECK_FALSE(TellsSurvival<ArgmaxVerifier>);       // what counts is whether a token is the largest
}

TEST_CASE(
    "a rule of somebody else is taken at its word, and one that says nothing for a plain sampling rule") {
  check_said(said<Silent>,
             {.draws_from_target = true, .needs_draft = true, .tells_survival = false, .remembers = false});
  check_said(said<Talkative>,
             {.draws_from_target = false, .needs_draft = false, .tells_survival = true, .remembers = true});
  check_said(said<Mumbling>,
             {.draws_from_target = true, .needs_draft = true, .tells_survival = false, .remembers = false});
  CHECK(min_draft_length(Silent{}) == 0);
  CHECK(min_draft_length(Talkative{}) == 3);
}

TEST_CASE("only modifications need drafts of a length") {
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

}  // namespace test_verify_verifier
