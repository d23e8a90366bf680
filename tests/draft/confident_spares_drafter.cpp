#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace test_draft_confident_spares_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(TreeDrafter<ConfidentSparesDrafter<TableModel<>>>);
static_assert(TreeDrafter<ConfidentSparesDrafter<support::StableModel>>);
static_assert(!TreeModel<support::StableModel>, "the model need not take in trees");

using Tokens = std::vector<Token>;

struct Wanted {
  ConfidentSpares tree;
  TreeLimits limits = {};
};

// What has to be drafted, where these tokens were drawn in this order; all of them where they are chosen.
class Expected {
  struct Spare {
    double score;
    Index parent;
    Token token;
  };

  Token at(Index k) const { return tree_.tokens[static_cast<std::size_t>(k)]; }
  auto row_behind(Index node) const {
    return model_.distribution(text_before(context_, tree_.tokens, tree_.parents, node));
  }
  void add(Token token, Index parent, const auto& probability) {
    tree_.tokens.push_back(token);
    tree_.parents.push_back(parent);
    tree_.rows.emplace_back();
    for (Token x = 0; x < model_.vocab_size(); ++x) tree_.rows.back().push_back(probability(x));
  }
  void go_on(Index parent) {
    const auto q = row_behind(parent);
    if (wanted_.tree.drawn) {
      add(drawn_.at(draws_++), parent, [&](Token x) { return q.probability(x); });
    } else {
      const Token best = q.argmax();
      add(best, parent, [&](Token x) { return x == best ? 1.0 : 0.0; });
    }
  }

 public:
  Expected(const TableModel<>& model, const Tokens& context, const Tokens& drawn, const Wanted& wanted)
      : model_(model), context_(context), drawn_(drawn), wanted_(wanted) {
    const auto& [trunk, nodes, tails, tail, is_drawn] = wanted.tree;
    const Index depth = wanted.limits.depth;
    nodes_ = std::min(wanted.limits.nodes, std::max(nodes, wanted.limits.trunk));
    const Index length = std::min({std::max(trunk, wanted.limits.trunk), depth, nodes_});
    for (Index k = 0; k < length; ++k) go_on(k - 1);
    std::vector<Spare> spares;
    double reached = 1;
    for (Index k = 0; k < length; ++k) {
      const auto q = row_behind(k - 1);
      const Token token = at(k);
      for (Token x = 0; x < model.vocab_size(); ++x)
        if (x != token && q.probability(x) > 0) spares.push_back({reached * q.probability(x), k - 1, x});
      reached *= q.probability(token);
    }
    std::ranges::stable_sort(spares, [](const Spare& a, const Spare& b) { return a.score > b.score; });
    Index left = tails;
    for (const Spare& spare : spares) {
      if (std::ssize(tree_.tokens) >= nodes_) return;
      add(spare.token, spare.parent, [&](Token y) { return y == spare.token ? 1.0 : 0.0; });
      if (left-- <= 0) continue;
      for (Index i = 0; i < tail && spare.parent + 2 + i < depth && std::ssize(tree_.tokens) < nodes_; ++i)
        go_on(std::ssize(tree_.tokens) - 1);
    }
  }

  const KeptTree& tree() const { return tree_; }

 private:
  const TableModel<>& model_;
  const Tokens &context_, &drawn_;
  const Wanted& wanted_;
  KeptTree tree_;
  Index nodes_;
  std::size_t draws_ = 0;
};

// The eldest child is drawn, of the trunk or of a tail.
Tokens drawn_of(const KeptTree& tree) {
  Tokens drawn;
  for (Index k = 0; k < std::ssize(tree.tokens); ++k)
    if (elders_of(tree.tokens, tree.parents, k).empty())
      drawn.push_back(tree.tokens[static_cast<std::size_t>(k)]);
  return drawn;
}

// Over all outcomes: whether the trees are right, and the error of their probabilities.
template <class Model>
void check_law(const Wanted& wanted) {
  std::mt19937_64 seed{static_cast<std::uint64_t>(wanted.tree.trunk + 7)};
  const auto table = TableModel<>::random(4, 2, seed);
  const Tokens context{2, 0, 3};
  ConfidentSparesDrafter drafter{Model{table}, wanted.tree};
  bool right = true;
  double error = 0, sum = 0;
  enumerate([&](Enumerator& chance) {
    drafter.truncate(0);
    const KeptTree tree = kept(drafter.draft(context, wanted.limits, chance), 4);
    const Tokens drawn = drawn_of(tree);
    right = right && tree == Expected(table, context, drawn, wanted).tree();
    double product = 1;
    for (std::size_t k = 0; k < tree.tokens.size(); ++k)
      product *= tree.rows[k][static_cast<std::size_t>(tree.tokens[k])];
    error = std::max(error, std::abs(product - chance.probability()));
    sum += chance.probability();
  });
  INFO("trunk " << wanted.tree.trunk << ", nodes " << wanted.tree.nodes << ", tails " << wanted.tree.tails
                << " of " << wanted.tree.tail << ", limits " << wanted.limits.nodes << " and "
                << wanted.limits.depth);
  CHECK(right);
  CHECK(error < 1e-15);
  CHECK(std::abs(sum - 1) < 1e-12);
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

KeptTree drafted(auto& drafter, const Tokens& context, std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  return kept(drafter.draft(context, {}, rng), 4);
}

constexpr ConfidentSpares with_tails{.trunk = 3, .nodes = 9, .tails = 3, .tail = 2};

KeptTree fresh(const TableModel<>& table, const Tokens& context, std::uint64_t seed) {
  ConfidentSparesDrafter drafter{TableModel<>(table), with_tails};
  return drafted(drafter, context, seed);
}

}  // namespace

TEST_CASE("the model takes in what it has not seen, and goes back no further than it has to") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 2, rng);
  CountingModel model{table};
  ConfidentSparesDrafter drafter{model, {.trunk = 3, .nodes = 8}};
  const auto fed_by = [&](const Tokens& context) {
    const Index before = model.fed;
    drafted(drafter, context, 1);
    return model.fed - before;
  };
  CHECK(fed_by({1, 2, 3}) == 3 + 2);  // the context, then all drawn tokens but the last
  drafter.truncate(3);
  CHECK(fed_by({1, 2, 3, 0}) == 1 + 2);
  drafter.truncate(4);
  Tokens text{1, 2, 3, 0};
  const KeptTree tree = drafted(drafter, text, 1);
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
      const KeptTree tree = drafted(drafter, text, step);
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
      const KeptTree tree = drafted(drafter, Tokens(size, 1), 1);
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
  std::mt19937_64 rng{6};
  const auto table = coarse_model(4, 2, rng);
  for (Index fails_at = 0; fails_at < 20; ++fails_at) {
    WatchedTreeModel model(table);
    ConfidentSparesDrafter drafter{model, with_tails};
    model.fails_at = fails_at;
    int failures = 0;
    Tokens text{1, 2};
    for (std::uint64_t n = 0; n < 3; ++n) {
      KeptTree tree;
      while (tree.tokens.empty()) {
        try {
          tree = drafted(drafter, text, n);
        } catch (const std::runtime_error&) {
          ++failures;
        }
      }
      CHECK(tree == fresh(table, text, n));
      text = text_before(text, tree.tokens, tree.parents, std::ssize(tree.tokens) - 1);
      drafter.truncate(std::ssize(text));
      text.push_back(3);
    }
    CHECK(failures == 1);
  }
}

TEST_CASE("drafters of one model take turns, and copies have models of their own, of confident spares") {
  std::mt19937_64 rng{8};
  const auto table = coarse_model(4, 3, rng);
  CountingModel model{table};
  ConfidentSparesDrafter drafter{model, with_tails};
  ModelDrafter other{model};
  const Tokens text{0, 1, 2};
  CHECK(drafted(drafter, text, 1) == fresh(table, text, 1));
  other.draft(Tokens{3, 3, 3, 2}, 2, rng);
  drafter.truncate(3);
  CHECK(drafted(drafter, text, 2) == fresh(table, text, 2));
  std::vector<const void*> refers_to;
  drafter.each_identity([&](const void* shared, specdec::detail::Role) { refers_to.push_back(shared); });
  CHECK(refers_to == std::vector<const void*>{&model});
  ConfidentSparesDrafter own{TableModel<>(table), with_tails};
  own.draft(text, {}, rng);
  auto copy = own;
  CHECK(drafted(copy, text, 3) == fresh(table, text, 3));
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
