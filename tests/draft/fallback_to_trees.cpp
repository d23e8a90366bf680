// A chain with drafters of trees among its members.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_trees.hpp"
#include "support/one_text.hpp"
#include "support/tree_models.hpp"
#include "support/trees.hpp"
#include "support/trusted.hpp"

namespace test_draft_fallback_to_trees {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;
using Chain =
    FallbackDrafter<SuffixDrafter<Branching>, PromptLookupDrafter, ModelDrafter<TableModel<>, Spares>>;
static_assert(Drafter<Chain> && drafts_trees<Chain>);
static_assert(!drafts_trees<FallbackDrafter<PromptLookupDrafter, SuffixDrafter<>>>);

// Proposes the tokens that it is given, and records what it is told.
struct Scripted {
  Tokens tokens = {};
  DraftLimits limits = {};
  int asked = 0, observed = 0;
  Index length = -1, accepted = -1;
  Scripted() = default;
  explicit Scripted(Tokens proposal) : tokens(std::move(proposal)) {}
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;
  void truncate(Index to) { length = to; }
};
struct Line : Scripted {
  using Scripted::Scripted;
  Draft<OneHotRows> draft(std::span<const Token>, Index gamma, auto&) {
    ++asked;
    limits.nodes = gamma;
    const auto some = std::span<const Token>(tokens).first(
        std::min(tokens.size(), static_cast<std::size_t>(std::max<Index>(gamma, 0))));
    return {some, OneHotRows(some)};
  }
  void observe(const auto& judged) {
    CHECK(judged.rows.rows() == std::ssize(judged.tokens) + 1);
    CHECK(judged.parents.empty());
    CHECK(judged.verdict.node <= std::ssize(judged.tokens));
    accepted = judged.verdict.node;
    ++observed;
  }
};
// All its tokens are siblings.
struct Brood : Scripted {
  std::vector<Index> parents;
  using Scripted::Scripted;
  Draft<OneHotRows> draft(std::span<const Token>, const DraftLimits& asked_for, auto&) {
    ++asked;
    limits = asked_for;
    const auto some = std::span<const Token>(tokens).first(
        std::min(tokens.size(), asked_for.depth < 1 ? 0 : static_cast<std::size_t>(asked_for.nodes)));
    parents.assign(some.size(), -1);
    return {some, OneHotRows(some), parents};
  }
  void observe(const auto& judged) {
    CHECK(judged.rows.rows() == std::ssize(judged.tokens) + 1);
    CHECK(judged.parents.size() == judged.tokens.size());
    accepted = judged.verdict.node;
    ++observed;
  }
};

const Tokens context{0, 1, 2};

}  // namespace

TEST_CASE("the first member with a tree or a line makes the draft, and a line does not branch") {
  Line first, third({5, 6, 7});
  Brood second({3, 4});
  OneText chain{FallbackDrafter{first, second, third}};
  const DraftLimits limits{.nodes = 9, .depth = 2};
  CHECK(draft_chosen(chain, context, limits) == ChosenTree{{3, 4}, {-1, -1}});
  CHECK(first.asked == 1);
  CHECK(first.limits.nodes == 2);
  CHECK(second.limits.nodes == 9);
  CHECK(second.limits.depth == 2);
  CHECK(third.asked == 0);
  second.tokens.clear();
  CHECK(draft_chosen(chain, context, limits) == ChosenTree{{5, 6}, {}});
  CHECK(draft_chosen(chain, context, {.nodes = 1, .depth = 2}) == ChosenTree{{5}, {}});
  third.tokens.clear();
  CHECK(draft_chosen(chain, context, limits) == ChosenTree{});
  chain.truncate(2);
  CHECK(first.length + second.length + third.length == 6);
}

TEST_CASE(
    "in a chain of trees the target's calls are shown to all members, to linear ones only calls without "
    "branches") {
  std::mt19937_64 rng{1};
  auto target = TableModel<>::random(3, 1, rng);
  Line line({2});
  Brood brood({0, 1}), silent;
  SpecDec decoder{target, FallbackDrafter{silent, brood, line}, TrunkAndSpares<SampleMatchVerifier>{}};
  const Result branched = decoder.generate(context, {.max_new_tokens = 10, .gamma = 4}, rng);
  const int last_calls = 1;  // the last token has no draft, so its call is a line of length 0
  CHECK(brood.observed == branched.stats.target_calls);
  CHECK(silent.observed == branched.stats.target_calls);
  CHECK(line.observed <= last_calls);
  CHECK(brood.accepted >= 0);
  brood.tokens.clear();
  line.observed = 0;
  const Result straight = decoder.generate(context, {.max_new_tokens = 10, .gamma = 4}, rng);
  CHECK(line.observed == straight.stats.target_calls);
  CHECK(straight.stats.accepted > 0);
}

TEST_CASE("rows of a chain of trees are those of the member that proposed") {
  std::mt19937_64 rng{2};
  const auto table = TableModel<>::random(4, 2, rng);
  OneText chain{Chain{SuffixDrafter{{.min_match = 2}, Branching{}}, PromptLookupDrafter{{.min_ngram = 3}},
                      ModelDrafter{TableModel<>(table), Spares{2, {1}}}}};
  ModelDrafter alone{TableModel<>(table), Spares{2, {1}}};
  std::mt19937_64 a{3}, b{3};
  const Tokens unheard_of{0, 1, 2, 3};
  CHECK(kept(chain.draft(unheard_of, {}, a), 4) == kept(alone.draft(unheard_of, {}, b), 4));
  const KeptTree chosen = kept(chain.draft(Tokens{0, 1, 2, 3, 0, 1}, {.nodes = 2}, a), 4);
  CHECK(chosen.tokens == Tokens{2, 3});
  CHECK(chosen.rows[1] == std::vector<double>{0, 0, 0, 1});
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("in a batch a chain of trees and lines writes each text as alone") {
  std::mt19937_64 rng{3};
  const auto target = TableModel<>::random(4, 2, rng), small = TableModel<>::random(4, 2, rng);
  const std::vector<Tokens> prompts{{0, 1, 2, 3, 0, 1, 2, 3, 0, 1}, {3}, {2, 2, 2}};
  const Options options{.max_new_tokens = 40, .gamma = 6};
  SuffixDrafter suffixes{{.min_match = 2}, Branching{}};
  PromptLookupDrafter lookup{{.min_ngram = 2}};
  Batch batch{ModelPerSequence{target},
              FallbackDrafter{suffixes, lookup, ModelDrafter{ModelPerSequence{small}, Spares{3, {1, 1}}}},
              TraversalVerifier{}};
  for (std::size_t i = 0; i < prompts.size(); ++i) batch.add(prompts[i], options, std::mt19937_64{i});
  for (const Finished& done : batch.run()) {
    REQUIRE_FALSE(done.error);
    const auto i = static_cast<std::size_t>(done.sequence);
    SpecDec decoder{TableModel<>(target),
                    Chain{SuffixDrafter(suffixes), PromptLookupDrafter(lookup),
                          ModelDrafter{TableModel<>(small), Spares{3, {1, 1}}}},
                    TraversalVerifier{}};
    std::mt19937_64 alone{i};
    const Result expected = decoder.generate(prompts[i], options, alone);
    CHECK(done.result.tokens == expected.tokens);
    CHECK(done.result.stats.drafted == expected.stats.drafted);
    CHECK(done.result.stats.target_calls == expected.stats.target_calls);
  }
}
#endif

TEST_CASE("a chain of trees refers to everything that its members refer to") {
  std::mt19937_64 rng{4};
  auto model = TableModel<>::random(4, 2, rng);
  FallbackDrafter chain{SuffixDrafter<Branching>{}, ModelDrafter{model, Spares{2, {1}}}};
  CHECK(chain.identities() == std::vector<const void*>{&model});
}

TEST_CASE("a chain of a tree of matches and a line with spares is lossless", "[law]") {
  const std::vector<AnyTreeRule> rules{{TraversalVerifier{}},
                                       {RecursiveRejectionVerifier{}},
                                       {TrunkAndSpares<BlockVerifier>{}},
                                       {TrunkAndSpares<SampleMatchVerifier>{}}};
  std::mt19937_64 rng{5};
  for (const AnyTreeRule& rule : rules)
    for (const Index vocab_size : {2, 3}) {
      auto target = TableModel<>::random(vocab_size, 2, rng);
      const auto small = TableModel<>::random(vocab_size, 1, rng);
      const Tokens prompt{0, 1, 0};
      const Options options{.max_new_tokens = 4, .gamma = 4};
      GenerationLaw written;
      enumerate([&](Enumerator& chance) {
        Chain chain{SuffixDrafter{{.min_match = 2}, Branching{}}, PromptLookupDrafter{{.min_ngram = 2}},
                    ModelDrafter{TableModel<>(small), Spares{2, {1}}}};
        SpecDec decoder{target, Trusted{std::move(chain)}, rule};
        const Result result = decoder.generate(prompt, options, chance);
        written.law[result.tokens] += chance.probability();
        written.accepted += chance.probability() * static_cast<double>(result.stats.accepted);
      });
      CHECK(largest_difference(written.law, target_law(target, prompt, options)).size < 1e-12);
      CHECK(written.accepted > 0.2);
    }
}

}  // namespace test_draft_fallback_to_trees
