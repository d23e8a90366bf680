#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/spares.hpp"
#include "support/tree_models.hpp"

namespace test_draft_confident_spares_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(TreeDrafter<ConfidentSparesDrafter<TableModel<>>>);
static_assert(TreeDrafter<ConfidentSparesDrafter<support::StableModel>>);
static_assert(!takes_trees<support::StableModel>, "the model need not take in trees");

using Tokens = std::vector<Token>;

struct Wanted {
  ConfidentSpares tree;
  TreeLimits limits = {};
};

// What has to be drafted, where these tokens were drawn in this order; all of them where they are chosen.
KeptTree expected(const TableModel<>& model, const Tokens& context, const Tokens& drawn,
                  const Wanted& wanted) {
  struct Spare {
    double score;
    Index parent;
    Token token;
  };
  const auto& [trunk, nodes, tails, tail, is_drawn] = wanted.tree;
  const Index depth = wanted.limits.depth;
  const Index most = std::min(wanted.limits.nodes, std::max(nodes, wanted.limits.trunk));
  const Index length = std::min({std::max(trunk, wanted.limits.trunk), depth, most});
  ExpectedTree tree(model, context, drawn);
  const auto go_on = [&, drawn = is_drawn](Index parent) {
    if (drawn) tree.draw(parent);
    else tree.choose(tree.row_behind(parent).argmax(), parent);
  };
  std::vector<Spare> spares;
  double reached = 1;
  for (Index k = 0; k < length; ++k) {
    const auto q = tree.row_behind(k - 1);
    go_on(k - 1);
    for (Token x = 0; x < model.vocab_size(); ++x)
      if (x != tree.token(k) && q.probability(x) > 0)
        spares.push_back({reached * q.probability(x), k - 1, x});
    reached *= q.probability(tree.token(k));
  }
  std::ranges::stable_sort(spares, [](const Spare& a, const Spare& b) { return a.score > b.score; });
  Index left = tails;
  for (const Spare& spare : spares) {
    if (tree.size() >= most) break;
    tree.choose(spare.token, spare.parent);
    if (left-- <= 0) continue;
    for (Index i = 0; i < tail && spare.parent + 2 + i < depth && tree.size() < most; ++i)
      go_on(tree.size() - 1);
  }
  return tree.tree();
}

template <class Model>
void check_law(const Wanted& wanted) {
  std::mt19937_64 seed{static_cast<std::uint64_t>(wanted.tree.trunk + 7)};
  const auto table = TableModel<>::random(4, 2, seed);
  const Tokens context{2, 0, 3};
  INFO("trunk " << wanted.tree.trunk << ", nodes " << wanted.tree.nodes << ", tails " << wanted.tree.tails
                << " of " << wanted.tree.tail << ", limits " << wanted.limits.nodes << " and "
                << wanted.limits.depth);
  check_trees(ConfidentSparesDrafter{Model{table}, wanted.tree}, context, wanted.limits, 4,
              [&](const Tokens& drawn) { return expected(table, context, drawn, wanted); });
}

}  // namespace

TEST_CASE("a line has those spares by which the text most probably leaves it") {
  for (const Index trunk : {0, 1, 2, 3})
    for (const Index nodes : {0, 1, 3, 5, 9, 40}) check_law<TableModel<>>({{.trunk = trunk, .nodes = nodes}});
  check_law<support::StableModel>({{.trunk = 3, .nodes = 7}});
  for (const Index trunk : {0, 1, 3})
    for (const Index nodes : {2, 5, 12})
      check_law<TableModel<>>({{.trunk = trunk, .nodes = nodes, .tails = 2, .drawn = false}});
}

TEST_CASE("where the model is sure of a token, it has no spare") {
  // After 0 surely 1; after 1 it is open.
  RowMajor<double> rows(4, 3);
  rows << 0.2, 0.2, 0.6, 0.0, 0.98, 0.02, 0.4, 0.3, 0.3, 0.2, 0.2, 0.6;
  std::mt19937_64 rng{1};
  ConfidentSparesDrafter drafter{TableModel<>(rows, 1), {.trunk = 2, .nodes = 4, .drawn = false}};
  const KeptTree tree = kept(drafter.draft(Tokens{0}, {}, rng), 3);
  CHECK(tree.tokens == Tokens{1, 0, 1, 2});
  CHECK(tree.parents == std::vector<Index>{-1, 0, 0, 0});
}

TEST_CASE("tails are drawn behind the most probable spares") {
  for (const Index tails : {1, 2})
    for (const Index tail : {0, 1, 2})
      check_law<TableModel<>>({{.trunk = 2, .nodes = 7, .tails = tails, .tail = tail}});
  check_law<TableModel<>>({{.trunk = 1, .nodes = 5, .tails = 9, .tail = 2}});
  check_law<StableTreeModel>({{.trunk = 3, .nodes = 7, .tails = 2}});  // which forgets the trunk for a tail
}

TEST_CASE("limits take the least probable spares first, and leave a trunk its nodes") {
  for (Index nodes = -1; nodes <= 8; ++nodes)
    for (const Index depth : {Index{-1}, Index{0}, Index{1}, Index{2}, unlimited})
      check_law<TableModel<>>({{.trunk = 3, .nodes = 7, .tails = 1, .tail = 2}, {nodes, depth}});
  check_law<TableModel<>>({{.trunk = 1, .nodes = 2}, {9, 9, 3}});
}

namespace {

constexpr ConfidentSpares with_tails{.trunk = 3, .nodes = 9, .tails = 3, .tail = 2};

// With this model.
constexpr auto spares_with_tails = []<class M>(M&& model) {
  return ConfidentSparesDrafter<M>{std::forward<M>(model), with_tails};
};

KeptTree fresh(const TableModel<>& table, const Tokens& context, std::uint64_t seed) {
  return fresh_tree(spares_with_tails, table, context, seed);
}

}  // namespace

TEST_CASE("the model takes in what it has not seen, and goes back no further than it has to") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 2, rng);
  CountingModel model{table};
  ConfidentSparesDrafter drafter{model, {.trunk = 3, .nodes = 8}};
  const auto fed_by = [&](const Tokens& context) {
    const Index before = model.fed;
    drafted_by(drafter, context, 1);
    return model.fed - before;
  };
  CHECK(fed_by({1, 2, 3}) == 3 + 2);  // the context, then all drawn tokens but the last
  drafter.truncate(3);
  CHECK(fed_by({1, 2, 3, 0}) == 1 + 2);
  drafter.truncate(4);
  Tokens text{1, 2, 3, 0};
  const KeptTree tree = drafted_by(drafter, text, 1);
  text.insert(text.end(), tree.tokens.begin(), tree.tokens.begin() + 2);  // of the trunk
  drafter.truncate(6);
  text.push_back(1);
  CHECK(fed_by(text) == 1 + 2);
}

TEST_CASE(
    "where the context goes on with a spare or its tail, the model forgets the trunk, of confident spares") {
  std::mt19937_64 rng{2};
  int spares = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const auto table = coarse_model(4, 3, rng);
    CountingModel model{table};
    ConfidentSparesDrafter drafter{model, with_tails};
    Tokens text{1, 2, 3};
    for (std::uint64_t step = 0; step < 6; ++step) {
      const KeptTree tree = drafted_by(drafter, text, step);
      REQUIRE(tree == fresh(table, text, step));
      const Index node = static_cast<Index>(rng() % (tree.tokens.size() + 1)) - 1;
      text = text_before(text, tree.tokens, tree.parents, node);
      spares += node > 2;
      drafter.truncate(std::ssize(text));
      text.push_back(static_cast<Token>(rng() % 4));
    }
  }
  CHECK(spares > 100);
}

TEST_CASE("trunk and tails are no longer than the model's context has room for") {
  std::mt19937_64 rng{4};
  for (const Index tails : {0, 2}) {
    ConfidentSparesDrafter drafter{BoundedModel(TableModel<>::random(4, 2, rng), 6),
                                   {.trunk = 5, .nodes = 14, .tails = tails, .tail = 5}};
    const auto depth = [&](std::size_t size) {
      drafter.truncate(0);
      const KeptTree tree = drafted_by(drafter, Tokens(size, 1), 1);
      std::vector<Index> depths;
      return specdec::detail::depth(tree.parents, depths);
    };
    CHECK(depth(2) == 5);
    CHECK(depth(3) == 4);  // the last of them is not fed
    CHECK(depth(6) == 1);
    CHECK(depth(7) == 0);
  }
}

TEST_CASE(
    "after a failure of the model, at any call, a drafter of confident spares drafts what a new one does") {
  check_after_failures(spares_with_tails);
}

TEST_CASE("drafters of one model take turns, and copies have models of their own, of confident spares") {
  check_turns(spares_with_tails);
}

TEST_CASE("what cannot be drafted is named, of confident spares") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 1, rng);
  const auto complaint = [&](const ConfidentSpares& tree) {
    return message_of([&] { ConfidentSparesDrafter(TableModel<>(table), tree); });
  };
  CHECK(complaint({}).empty());
  CHECK(complaint({.trunk = -1}) == "specdec: trunk = -1 is negative");
  CHECK(complaint({.nodes = unlimited}).find("nodes = ") != std::string::npos);
  CHECK(complaint({.tails = -2}) == "specdec: tails = -2 is negative");
  CHECK(complaint({.tail = -3}) == "specdec: tail = -3 is negative");
  ConfidentSparesDrafter drafter{TableModel<>(table)};
  CHECK(message_of([&] { drafter.draft(Tokens{}, {}, rng); }) ==
        "specdec: context is empty: there is nothing to continue");
  ConfidentSparesDrafter impossible{TableModel<>::context_free(Eigen::RowVector2d(0, 0)), {.drawn = false}};
  CHECK(message_of([&] { impossible.draft(Tokens{0}, {}, rng); }) ==
        "specdec: draft row 0: no token has positive probability");
}

}  // namespace test_draft_confident_spares_drafter
