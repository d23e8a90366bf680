// The concept Drafter, what its drafts may be, and how a drafter is asked.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_drafter {

using namespace specdec;
using testing::TableModel;
using Tokens = std::vector<Token>;

namespace {

// The least that a drafter of trees must offer. Drafts two tokens that both follow the context.
struct Least {
  Tokens tokens;
  std::vector<Index> parents;
  Draft<OneHotRows> draft(std::span<const Token>, const DraftLimits& limits, auto&) {
    tokens.clear();
    if (limits.nodes >= 2 && limits.depth >= 1) tokens = {0, 1};
    parents.assign(tokens.size(), -1);
    return {tokens, OneHotRows(tokens), parents};
  }
  void truncate(Index) {}
};

// Declares that its drafts do not branch, although they do.
struct Lying : Least {
  static constexpr bool drafts_trees = false;
};

// A drafter of trees that proposes a line and gives no parents.
struct Straight {
  Tokens tokens = {};
  Draft<OneHotRows> draft(std::span<const Token> context, const DraftLimits& limits, auto&) {
    tokens.clear();
    for (Token x = context.back(); std::ssize(tokens) < std::min<Index>(limits.length(), 3);)
      tokens.push_back(x = (x + 1) % 4);
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index) {}
};

// A drafter of lines that proposes this line.
struct Line {
  Straight straight = {};
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto& chance) {
    return straight.draft(context, {gamma}, chance);
  }
  void truncate(Index) {}
};

// Can be asked by a length and by limits.
struct Either : Line {
  using Line::draft;
  Draft<OneHotRows> draft(std::span<const Token> context, const DraftLimits& limits, auto& chance) {
    return straight.draft(context, limits, chance);
  }
};

struct Forgetless {
  Draft<OneHotRows> draft(std::span<const Token>, const DraftLimits&, auto&);
};

struct Rowless : Least {
  struct Proposal {
    std::span<const Token> tokens;
    int rows;
    std::span<const Index> parents;
  };
  Proposal draft(std::span<const Token>, const DraftLimits&, auto&);
};

static_assert(OneTextDrafter<Least> && OneTextDrafter<Least, std::mt19937_64> && drafts_trees<Least>);
static_assert(OneTextDrafter<Lying> && !drafts_trees<Lying>);
static_assert(OneTextDrafter<Straight> && drafts_trees<Straight>,
              "its drafts may branch, for all that it says");
static_assert(OneTextDrafter<Line> && !drafts_trees<Line>);
static_assert(OneTextDrafter<Either> && drafts_trees<Either>);
static_assert(OneTextDrafter<NoDrafter> && !drafts_trees<NoDrafter>);
static_assert(!OneTextDrafter<Forgetless>);
static_assert(!OneTextDrafter<Rowless>);
static_assert(std::is_same_v<decltype(specdec::detail::ask_drafter(
                                 std::declval<Line&>(), std::span<const Token>{}, DraftLimits{},
                                 std::declval<RandomChance<SplitMix64>&>())),
                             Draft<OneHotRows>>);

}  // namespace

TEST_CASE("a draft has no limits unless they are given") {
  Least drafter;
  std::mt19937_64 rng{1};
  const Tokens context{7};
  CHECK(drafter.draft(context, DraftLimits{}, rng).tokens.size() == 2);
  CHECK(DraftLimits{}.nodes == unlimited);
  CHECK(DraftLimits{}.depth == unlimited);
  CHECK(drafter.draft(context, {.nodes = 1}, rng).tokens.empty());
  CHECK(drafter.draft(context, {.depth = 0}, rng).tokens.empty());
  CHECK(drafter.draft(context, {.depth = 1}, rng).parents[1] == -1);
}

TEST_CASE("a line may be as long as both limits allow") {
  CHECK(DraftLimits{.nodes = 5, .depth = 3}.length() == 3);
  CHECK(DraftLimits{.nodes = 3, .depth = 5}.length() == 3);
  CHECK(DraftLimits{.nodes = -1}.length() == -1);
  CHECK(DraftLimits{}.length() == unlimited);
}

namespace {

struct OneToken {
  bool more(const auto&, Index i) const { return i < 0; }
};

}  // namespace

TEST_CASE("a drafter is asked by limits or by a length, whichever it takes") {
  std::mt19937_64 rng{1};
  const Tokens context{0};
  const auto ask = [&](auto drafter, const auto&... keep_drafting) {
    return std::ssize(specdec::detail::ask_drafter(drafter, context, DraftLimits{.nodes = 9, .depth = 2}, rng,
                                                   keep_drafting...)
                          .tokens);
  };
  CHECK(ask(Line{}) == 2);
  CHECK(ask(Straight{}) == 2);
  CHECK(ask(Either{}) == 2);
  // This drafter cannot end its drafts by a row.
  CHECK(ask(Line{}, OneToken{}) == 2);
  CHECK(ask(ModelDrafter{TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5))}, OneToken{}) == 1);
}

TEST_CASE("a drafter of trees that declares it drafts none gets an error") {
  std::mt19937_64 rng{2};
  auto target = TableModel<>::random(4, 1, rng);
  SpecDec decoder{target, Lying{}, BlockVerifier{}};
  CHECK(support::message_of([&] { decoder.generate(Tokens{0}, {.max_new_tokens = 8, .gamma = 3}, rng); }) ==
        "specdec: the drafter proposed a tree, and says that it drafts none (drafts_trees)");
  SpecDec honest{target, Least{}, TraversalVerifier{}};
  CHECK(honest.generate(Tokens{0}, {.max_new_tokens = 8, .gamma = 3}, rng).tokens.size() == 8);
}

TEST_CASE("a drafter of trees may propose a line without giving parents") {
  std::mt19937_64 seed{3};
  auto target = TableModel<>::random(4, 1, seed);
  const Tokens prompt{0, 1};
  const Options options{.max_new_tokens = 40, .gamma = 3};
  const auto text = [&](auto drafter, auto rule) {
    std::mt19937_64 rng{5};
    SpecDec decoder{target, drafter, rule};
    return decoder.generate(prompt, options, rng);
  };
  const Result line = text(Line{}, BlockVerifier{}), tree = text(Straight{}, TrunkAndSpares<BlockVerifier>{});
  CHECK(tree.tokens == line.tokens);
  CHECK(tree.stats.accepted == line.stats.accepted);
  CHECK(tree.stats.accepted > 5);
  const Options few{.max_new_tokens = 4, .gamma = 3};
  SpecDec decoder{target, Straight{}, TraversalVerifier{}};
  CHECK(testing::largest_difference(testing::enumerate_generate(decoder, prompt, few).law,
                                    testing::target_law(target, prompt, few))
            .size < 1e-12);
}

TEST_CASE("NoDrafter proposes nothing") {
  std::mt19937_64 rng{1};
  const auto draft = NoDrafter{}.draft(Tokens{1}, 5, rng);
  CHECK(draft.tokens.empty());
  CHECK(draft.rows.rows() == 0);
  CHECK(draft.parents.empty());
}

}  // namespace test_draft_drafter
