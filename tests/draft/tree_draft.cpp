#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace test_draft_tree_draft {

using namespace specdec;

namespace {

// The least that a drafter of trees has to be.
struct Least {
  std::vector<Token> tokens;
  std::vector<Index> parents;
  TreeDraft<OneHotRows> draft(std::span<const Token> context, const TreeLimits& limits, auto&) {
    tokens.assign(limits.nodes < 2 || limits.depth < 1 ? 0u : 2u, context.back());
    parents.assign(tokens.size(), -1);
    return {tokens, OneHotRows(tokens), parents};
  }
  void truncate(Index) {}
};

struct Linear : Least {
  Draft<OneHotRows> draft(std::span<const Token>, const TreeLimits&, auto&) {
    return {tokens, OneHotRows(tokens)};
  }
};

struct Forgetless {
  TreeDraft<OneHotRows> draft(std::span<const Token>, const TreeLimits&, auto&);
};

struct Rowless : Least {
  struct Proposal {
    std::span<const Token> tokens;
    int rows;
    std::span<const Index> parents;
  };
  Proposal draft(std::span<const Token>, const TreeLimits&, auto&);
};

static_assert(TreeDrafter<Least>);
static_assert(TreeDrafter<Least, std::mt19937_64>);
static_assert(!TreeDrafter<Linear>);
static_assert(!TreeDrafter<Forgetless>);
static_assert(!TreeDrafter<Rowless>);
static_assert(!TreeDrafter<NoDrafter>);
static_assert(!Drafter<Least>, "a drafter of trees takes limits, and no number");

}  // namespace

TEST_CASE("the limits of a tree are none unless they are told") {
  Least drafter;
  std::mt19937_64 rng{1};
  const std::vector<Token> context{7};
  CHECK(drafter.draft(context, TreeLimits{}, rng).tokens.size() == 2);
  CHECK(TreeLimits{}.nodes == unlimited);
  CHECK(TreeLimits{}.depth == unlimited);
  CHECK(TreeLimits{}.trunk == 0);
  CHECK(drafter.draft(context, {.nodes = 1}, rng).tokens.empty());
  CHECK(drafter.draft(context, {.depth = 0}, rng).tokens.empty());
  CHECK(drafter.draft(context, {.depth = 1}, rng).parents[1] == -1);
}

}  // namespace test_draft_tree_draft
