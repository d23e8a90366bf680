// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <specdec/more/audits/draft_audit.hpp>
#include <specdec/more/audits/draft_audit_report.hpp>
#include <specdec/more/samplers/logit_bias.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/company.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace test_draft_strategies_tree {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(drafts_trees<ModelDrafter<WatchedTreeModel, Tree<Independent>>>);
static_assert(drafts_trees<ModelDrafter<StableTreeModel, Tree<WithoutReplacement>>>);
static_assert(drafts_trees<ModelDrafter<TableModel<>&, Tree<Likeliest>>>);
static_assert(Drafter<ModelDrafter<ModelPerSequence<TableModel<>>, Tree<Likeliest>>>);

using Tokens = std::vector<Token>;
using Parents = std::vector<Index>;
using Request = DraftRequest<SplitMix64>;

// The probability that the reported row of a token must give x, if the row after its parent is q and its elder
// siblings are these tokens.
double expected_row(Independent, const auto& q, const Tokens&, Token, Token x) { return q.probability(x); }
double expected_row(const Likeliest&, const auto&, const Tokens&, Token chosen, Token x) {
  return x == chosen ? 1.0 : 0.0;
}
double expected_row(WithoutReplacement, const auto& q, const Tokens& elders, Token, Token x) {
  const auto gone = [&](Token y) { return std::ranges::find(elders, y) != elders.end(); };
  double left = 0;
  for (Token y = 0; y < q.vocab_size(); ++y) left += gone(y) ? 0.0 : q.probability(y);
  return gone(x) ? 0.0 : q.probability(x) / left;
}

// How many of the `wanted` children a node has.
Index expected_children(Independent, const auto& q, Index wanted) {
  for (Token x = 0; x < q.vocab_size(); ++x)
    if (q.probability(x) == 1) return std::min<Index>(wanted, 1);
  return wanted;
}
template <class Siblings>
Index expected_children(const Siblings&, const auto& q, Index wanted) {
  Index support = 0;
  for (Token x = 0; x < q.vocab_size(); ++x) support += q.probability(x) > 0 ? 1 : 0;
  return std::min(wanted, support);
}

// How far the drafts are from the truth, over all their outcomes.
struct Deviations {
  bool shapes = true;
  double rows = 0;           // largest difference of a row from the expected row
  double probabilities = 0;  // of a draft's probability from the product of its rows
  double sum = -1;           // of the sum of all drafts' probabilities from 1
};

// Whether the tree is the first `most` nodes of the shape, without children for which rows have no tokens.
template <class Siblings>
bool is_of_shape(const KeptTree& tree, const TreeShape& shape, Index most, const Siblings& siblings,
                 const auto& model, const Tokens& context) {
  Parents places, parents;
  for (Index k = -1; k < std::ssize(places); ++k) {
    const Index place = k < 0 ? -1 : places[static_cast<std::size_t>(k)];
    const Index wanted = std::clamp<Index>(most - shape.first_child(place), 0, shape.children(place));
    const auto q = model.distribution(text_before(context, tree.tokens, tree.parents, k));
    for (Index c = 0; c < expected_children(siblings, q, wanted); ++c) {
      places.push_back(shape.first_child(place) + c);
      parents.push_back(k);
    }
    if (std::ssize(places) > std::ssize(tree.tokens)) return false;
  }
  return parents == tree.parents;
}

template <class Model, class Siblings>
Deviations deviations(const TreeShape& shape, Siblings siblings, Index order,
                      const DraftLimits& limits = {}) {
  std::mt19937_64 seed{static_cast<std::uint64_t>(shape.size())};
  Model model(TableModel<>::random(3, order, seed));
  ModelDrafter drafter{model, Tree{shape, siblings}};
  const Tokens context{2, 0, 1};
  Deviations out;
  enumerate([&](Enumerator& chance) {
    drafter.truncate(0);
    const KeptTree tree = kept(drafter.draft(context, limits, chance), 3);
    out.shapes = out.shapes && tree.rows.size() == tree.tokens.size() &&
                 is_of_shape(tree, shape, shape.size_within(limits), siblings, model, context);
    if (!out.shapes) return;
    double product = 1;
    for (Index k = 0; k < std::ssize(tree.tokens); ++k) {
      const auto at = static_cast<std::size_t>(k);
      const auto q = model.distribution(text_before(context, tree.tokens, tree.parents, tree.parents[at]));
      const Tokens elders = elders_of(tree.tokens, tree.parents, k);
      for (Token x = 0; x < 3; ++x)
        out.rows = std::max(out.rows, std::abs(tree.rows[at][static_cast<std::size_t>(x)] -
                                               expected_row(siblings, q, elders, tree.tokens[at], x)));
      product *= tree.rows[at][static_cast<std::size_t>(tree.tokens[at])];
    }
    out.probabilities = std::max(out.probabilities, std::abs(chance.probability() / product - 1));
    out.sum += chance.probability();
  });
  return out;
}

void check(const Deviations& found) {
  CHECK(found.shapes);
  CHECK(found.rows < 1e-15);
  CHECK(found.probabilities < 1e-13);
  CHECK(std::abs(found.sum) < 1e-12);
}

const std::vector<TreeShape> shapes{TreeShape(),
                                    TreeShape::linear(4),
                                    TreeShape::of_widths({2, 2}),
                                    TreeShape::of_widths({3}),
                                    TreeShape{-1, -1, 0, 0, 1, 3, 4},
                                    TreeShape{-1, 0, 0, 2, 2}};

template <class Siblings>
void check_shapes() {
  for (const TreeShape& shape : shapes) {
    INFO("a shape of " << shape.size());
    check(deviations<WatchedTreeModel>(shape, Siblings{}, 2));
    check(deviations<WatchedTreeModel>(shape, Siblings{}, 1));
  }
  check(deviations<StableTreeModel>(shapes[4], Siblings{}, 2));
  for (const Index nodes : {0, 1, 3, 5})
    for (const Index depth : {Index{0}, Index{1}, Index{2}, unlimited})
      check(deviations<WatchedTreeModel>(shapes[4], Siblings{}, 1, {nodes, depth}));
}

}  // namespace

TEST_CASE("the reported rows are the rows that siblings were drawn from, given their elders") {
  check_shapes<Independent>();
  check_shapes<WithoutReplacement>();
  check_shapes<Likeliest>();
}

namespace {

// The tree that a new drafter draws with this seed.
template <class Siblings>
KeptTree fresh(const TableModel<>& table, const TreeShape& shape, const Siblings& siblings,
               const Tokens& context, std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  ModelDrafter drafter{WatchedTreeModel(table), Tree{shape, siblings}};
  return kept(drafter.draft(context, {}, rng), table.vocab_size());
}

// No token has probability 0, so nodes have as many children as the shape says.
TableModel<> full_model(Index vocab_size, Index order, std::mt19937_64& rng) {
  Index states = 1;
  for (Index k = 0; k < order; ++k) states *= vocab_size + 1;
  TableModel<>::Rows table(states, vocab_size);
  for (Index i = 0; i < states; ++i) {
    for (Index x = 0; x < vocab_size; ++x) table(i, x) = 0.1 + uniform01(rng);
    table.row(i) /= table.row(i).sum();
  }
  return {table, order};
}

}  // namespace

TEST_CASE("one call a level feeds the nodes that have children, and what the model has not seen") {
  std::mt19937_64 rng{2};
  WatchedTreeModel model(full_model(5, 2, rng));
  ModelDrafter drafter{model, Tree{TreeShape::of_widths({3, 2, 1}), WithoutReplacement{}}};
  Tokens context{1, 2, 3};
  drafter.draft(context, {}, rng);
  CHECK(model.calls == 3);
  CHECK(model.fed == 3 + 3 + 6);
  drafter.truncate(3);  // nothing was accepted
  CHECK(model.in_tree() == 0);
  context.push_back(4);
  model.calls = model.fed = 0;
  // One node of the third level, after the first node of the second.
  drafter.draft(context, {.nodes = 10}, rng);
  CHECK(model.calls == 3);
  CHECK(model.fed == 1 + 3 + 1);
  drafter.truncate(0);
  model.calls = model.fed = 0;
  drafter.draft(context, {.depth = 1}, rng);
  CHECK(model.calls == 1);
  CHECK(model.fed == 4);
  drafter.draft(context, {.nodes = 0}, rng);  // no draft and no call
  drafter.draft(context, {.depth = -1}, rng);
  CHECK(model.calls == 1);
}

TEST_CASE("in trees of a shape, nodes that the context goes on with are not fed again") {
  std::mt19937_64 rng{3};
  const auto table = full_model(5, 3, rng);
  const TreeShape shape = TreeShape::of_widths({3, 2, 1});
  WatchedTreeModel model(table);
  ModelDrafter drafter{model, Tree{shape, WithoutReplacement{}}};
  const Tokens context{1, 2, 3};
  // How much of the context the model keeps for the next draft. Of the tokens on the way to a node, `accepted` were
  // accepted, and Y follows.
  const auto keep_drafting = [&](Index node, Index accepted, Index told) {
    drafter.truncate(0);
    std::mt19937_64 draws{5};
    const auto tree = kept(drafter.draft(context, {}, draws), 5);
    Tokens text = text_before(context, tree.tokens, tree.parents, node);
    text.resize(static_cast<std::size_t>(3 + accepted));
    text.push_back(0);
    if (told >= 0) drafter.truncate(told);
    model.calls = model.fed = model.kept = 0;
    std::mt19937_64 again{6};
    CHECK(kept(drafter.draft(text, {}, again), 5) == fresh(table, shape, WithoutReplacement{}, text, 6));
    CHECK(Tokens(model.context().begin(), model.context().end()) == text);
    CHECK(model.kept + model.fed - 3 - 6 == std::ssize(text) - 3);
    return model.kept;
  };
  CHECK(keep_drafting(15 - 1, 0, 3) == 0);
  for (const Index leaf : {9, 12, 14}) {
    CHECK(keep_drafting(leaf, 1, 4) == 1);
    CHECK(keep_drafting(leaf, 2, 5) == 2);
    CHECK(keep_drafting(leaf, 3, 6) == 2);  // a leaf has not been fed
    CHECK(keep_drafting(leaf, 3, 5) == 2);
    CHECK(keep_drafting(leaf, 3, 4) == 1);  // truncate() allows no more
    CHECK(keep_drafting(leaf, 3, 3) == 0);
    CHECK(keep_drafting(leaf, 3, -1) == 2);  // truncate() was not called
  }
}

TEST_CASE("a truncate() for one tree has no effect on the next tree") {
  std::mt19937_64 rng{3};
  WatchedTreeModel model(full_model(5, 3, rng));
  ModelDrafter drafter{model, Tree{TreeShape::linear(4), Independent{}}};
  Tokens context{1, 2};
  drafter.draft(context, {.depth = 1}, rng);  // the model was fed nothing of this tree
  drafter.truncate(3);
  context = {1, 2, 3, 4};
  const auto tree = kept(drafter.draft(context, {}, rng), 5);
  const Tokens text = text_before(context, tree.tokens, tree.parents, 3);
  drafter.truncate(std::ssize(text));
  drafter.draft(text, {}, rng);
  CHECK(model.kept == 3);
}

TEST_CASE("in trees of a shape, no more nodes have children than the model's context has room for") {
  std::mt19937_64 rng{5};
  const auto table = full_model(5, 2, rng);
  const auto drafted = [&](Index context, Index most, const TreeShape& shape) {
    WatchedTreeModel model(table, most);
    ModelDrafter drafter{model, Tree{shape, WithoutReplacement{}}};
    const Tokens text(static_cast<std::size_t>(context), 1);
    const auto tree = kept(drafter.draft(text, {}, rng), 5);
    return std::ssize(tree.tokens);
  };
  const TreeShape linear = TreeShape::linear(6), wide = TreeShape::of_widths({3, 2, 1});
  CHECK(drafted(3, 6, linear) == 4);  // the last one is not fed
  CHECK(drafted(6, 6, linear) == 1);
  CHECK(drafted(7, 6, linear) == 0);
  CHECK(drafted(3, 8, linear) == 6);
  CHECK(drafted(6, 6, wide) == 3);
  CHECK(drafted(5, 6, wide) == 5);
  CHECK(drafted(4, 6, wide) == 7);
  CHECK(drafted(3, 6, wide) == 9);
  CHECK(drafted(2, 6, wide) == 10);
  CHECK(drafted(2, 10, wide) == 14);
  CHECK(drafted(2, 11, wide) == 15);
  CHECK(drafted(7, 6, wide) == 0);
}

TEST_CASE("a tree has as many of the nodes of its shape as the limits and the room in the model allow") {
  std::mt19937_64 rng{6};
  const auto table = full_model(5, 2, rng);
  const auto parents = [&](const TreeShape& shape, const DraftLimits& limits, Index room = unlimited) {
    WatchedTreeModel model(table, room == unlimited ? unlimited : 2 + room);
    ModelDrafter drafter{model, Tree{shape, WithoutReplacement{}}};
    return kept(drafter.draft(Tokens{1, 2}, limits, rng), 5).parents;
  };
  const TreeShape wide = TreeShape::of_widths({2, 1, 1, 1});
  CHECK(parents(wide, {.nodes = 4}) == Parents{-1, -1, 0, 1});
  CHECK(parents(wide, {.nodes = 7}) == Parents{-1, -1, 0, 1, 2, 3, 4});
  CHECK(parents(wide, {.nodes = 8}) == parents(wide, {}));
  CHECK(parents(wide, {.depth = 2}) == Parents{-1, -1, 0, 1});
  CHECK(parents(wide, {.nodes = 0}).empty());
  CHECK(parents(TreeShape(), {.nodes = 9}).empty());

  // With room for 2 tokens of the tree in the model, 2 nodes have children.
  CHECK(parents(wide, {}, 2) == Parents{-1, -1, 0, 1});
  CHECK(parents(wide, {}, 1) == Parents{-1, -1, 0});
  CHECK(parents(wide, {}, 0) == Parents{-1, -1});
  CHECK(parents(wide, {}, -1).empty());
}

namespace {

// Rates draws by the confidence of their rows. The more there are to choose from, the more must a token be worth: `worthy`
// times their number. A level is worth a call if the sum of its leaves is above `promising`.
struct RatingLength {
  double worthy, promising;

  Index next(Index most) const { return most; }
  // More for the third child than for the second.
  double acceptance(const CandidateToken& candidate) const {
    CHECK(candidate.drawn);
    return candidate.reading * (candidate.rank == 0 ? 1.0 : candidate.rank == 1 ? 0.4 : 0.5);
  }
  More more(const GrowingDraft& draft) const {
    CHECK(std::ranges::is_sorted(draft.values, std::greater{}));
    CHECK(draft.readings.empty());
    return {.level = std::accumulate(draft.leaves.begin(), draft.leaves.end(), 0.0) > promising,
            .tokens = std::ranges::count_if(
                draft.values, [&](double value) { return is_worthy(value, std::ssize(draft.values)); })};
  }
  void observe(const StepRecord&) const {}

  bool is_worthy(double value, Index among) const { return value > worthy * static_cast<double>(among); }
};

// The tree that a drafter should draw, given the tokens that it drew: for each token its parent and the confidence that rated
// it.
class ExpectedTree {
 public:
  Parents parents;
  std::vector<double> confidences;

  ExpectedTree(const KeptTree& tree, const WatchedTreeModel& model, const Tokens& context,
               const TreeShape& shape, const RatingLength& length, const DraftLimits& limits)
      : tree_(tree), model_(model), context_(context) {
    Index room = model.context_size() - std::ssize(context);
    std::vector<Node> level{{-1, -1, 1}};
    for (Index depth = 1; !level.empty() && room >= 0; ++depth) {
      level = children_of(level, shape, length, limits.nodes - std::ssize(parents));
      std::erase_if(level, [&](const Node& node) { return shape.children(node.place) == 0; });
      if (std::ssize(level) > room) level.resize(static_cast<std::size_t>(room));
      const Index all = std::min(std::ssize(parents) + std::ssize(level), limits.nodes);
      std::erase_if(level, [&](const Node& node) { return !length.is_worthy(node.value, all); });
      const Index left = limits.nodes - std::ssize(parents);  // each leaf may get a child
      std::ranges::stable_sort(level, std::greater{}, &Node::value);
      if (std::ssize(level) > left) level.resize(static_cast<std::size_t>(left));
      std::ranges::sort(level, {}, &Node::k);
      room -= std::ssize(level);
      double leaves = 0;
      for (const Node& node : level) leaves += node.value;
      if (!(leaves > length.promising) || depth == limits.depth || std::ssize(parents) == limits.nodes)
        return;
    }
  }

 private:
  struct Node {
    Index k, place;
    double value;
  };
  struct Child {
    Index parent;  // in the level
    double value;
  };

  double confidence(Index k) const {
    const auto q = model_.distribution(text_before(context_, tree_.tokens, tree_.parents, k));
    return q.probability(q.argmax());
  }

  std::vector<Node> children_of(const std::vector<Node>& level, const TreeShape& shape,
                                const RatingLength& length, Index room) {
    std::vector<Child> all;
    for (std::size_t i = 0; i < level.size(); ++i) {
      double least = 1;  // no child is worth more than an elder one
      for (Index rank = 0; rank < shape.children(level[i].place); ++rank) {
        least = std::min(least, length.acceptance({confidence(level[i].k), rank, true}));
        all.push_back({static_cast<Index>(i), level[i].value * least});
      }
    }
    std::ranges::stable_sort(all, std::greater{}, &Child::value);
    const Index candidates = std::min(std::ssize(parents) + std::ssize(all), std::ssize(parents) + room);
    const Index worthy = std::ranges::count_if(
        all, [&](const Child& child) { return length.is_worthy(child.value, candidates); });
    all.resize(static_cast<std::size_t>(std::min({std::max<Index>(worthy, 1), room, std::ssize(all)})));

    std::vector<Node> next;
    for (std::size_t i = 0; i < level.size(); ++i) {
      Index place = shape.first_child(level[i].place);
      for (const Child& child : all) {
        if (child.parent != static_cast<Index>(i)) continue;
        next.push_back({std::ssize(parents), place++, child.value});
        parents.push_back(level[i].k);
        confidences.push_back(confidence(level[i].k));
      }
      if (std::ssize(parents) > std::ssize(tree_.tokens)) return {};  // not the tree that was drawn
    }
    return next;
  }

  const KeptTree& tree_;
  const WatchedTreeModel& model_;
  const Tokens& context_;
};

Index depth_of(const Parents& parents) {
  Parents depths;
  for (const Index parent : parents)
    depths.push_back(parent < 0 ? 1 : depths[static_cast<std::size_t>(parent)] + 1);
  return depths.empty() ? 0 : std::ranges::max(depths);
}

}  // namespace

TEST_CASE("a draft length says how many children are drawn, by the rows before the draws") {
  std::mt19937_64 rng{4};
  const TreeShape shape = TreeShape::of_widths({3, 3, 2, 2, 1});
  const Tokens context{1, 2, 3};
  std::set<std::size_t> sizes;
  for (int n = 0; n < 400; ++n) {
    const Index most = n % 4 == 0 ? std::ssize(context) + n / 4 % 12 : unlimited;
    WatchedTreeModel model(full_model(5, 2, rng), most);
    ModelDrafter drafter{model, Tree{shape, WithoutReplacement{}}};
    RatingLength length{0.01 * uniform01(rng), 0.5 * uniform01(rng)};
    const DraftLimits limits{.nodes = n % 2 == 0 ? 1 + n % 13 : 64, .depth = n % 5 == 0 ? 1 + n % 4 : 8};
    specdec::detail::DraftReadings readings;
    const specdec::detail::KeepDrafting<RatingLength, false> keep_drafting{&length, &readings};
    const KeptTree tree = kept(drafter.draft(context, limits, rng, keep_drafting), 5);
    const ExpectedTree expected(tree, model, context, shape, length, limits);
    CHECK(tree.parents == expected.parents);
    CHECK(model.calls == depth_of(tree.parents));  // no call in vain
    CHECK(readings.of_tokens == expected.confidences);
    CHECK(readings.drawn);
    sizes.insert(tree.tokens.size());
  }
  CHECK(sizes.size() > 12);
}

TEST_CASE("a level that was paid for has a token, and one is enough") {
  std::mt19937_64 rng{4};
  RatingLength nothing{1, 0};
  specdec::detail::DraftReadings readings;
  const specdec::detail::KeepDrafting<RatingLength, false> keep_drafting{&nothing, &readings};
  ModelDrafter drafter{WatchedTreeModel(full_model(5, 2, rng)),
                       Tree{TreeShape::of_widths({3, 3}), WithoutReplacement{}}};
  CHECK(kept(drafter.draft(Tokens{1}, {}, rng, keep_drafting), 5).parents == Parents{-1});
}

TEST_CASE("draws are rated by rows before temperature and hooks") {
  std::mt19937_64 rng{4};
  RatingLength all{0, 0};
  specdec::detail::DraftReadings readings;
  const specdec::detail::KeepDrafting<RatingLength, false> keep_drafting{&all, &readings};
  const Eigen::RowVector4d logits = Eigen::RowVector4d(0.7, 0.15, 0.1, 0.05).array().log();
  ProcessedModel model{WatchedTreeModel(TableModel<>::context_free(logits)), Temperature{0.5},
                       LogitBias{{0, -std::numeric_limits<double>::infinity()}}};
  ModelDrafter drafter{model, Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}};
  const auto draft = drafter.draft(Tokens{1}, {}, rng, keep_drafting);
  CHECK(std::ssize(draft.tokens) == 4);
  for (const double confidence : readings.of_tokens) CHECK(confidence == Approx(0.7));
}

TEST_CASE("a draft length that returns no probability for a draw is an error") {
  struct Certain : RatingLength {
    double acceptance(const CandidateToken& candidate) const { return candidate.rank == 0 ? 0.5 : 2; }
  };
  std::mt19937_64 rng{4};
  Certain length{{0, 0}};
  specdec::detail::DraftReadings readings;
  const specdec::detail::KeepDrafting<Certain, false> keep_drafting{&length, &readings};
  ModelDrafter drafter{WatchedTreeModel(TableModel<>::context_free(Eigen::RowVector2d(0.75, 0.25))),
                       Tree{TreeShape::of_widths({2}), WithoutReplacement{}}};
  CHECK(message_of([&] { drafter.draft(Tokens{1}, {}, rng, keep_drafting); }) ==
        "specdec: the draft length's acceptance of a drawn token of rank 1, reading 0.75, is 2, outside [0, "
        "1]");
}

TEST_CASE("where a row has fewer tokens than children, those that are not drawn are not rated") {
  std::mt19937_64 rng{4};
  RatingLength all{0, 0};
  specdec::detail::DraftReadings readings;
  const specdec::detail::KeepDrafting<RatingLength, false> keep_drafting{&all, &readings};
  ModelDrafter drafter{WatchedTreeModel(TableModel<>::context_free(Eigen::RowVector4d(0.7, 0.3, 0, 0))),
                       Tree{TreeShape::of_widths({3, 3}), WithoutReplacement{}}};
  CHECK(kept(drafter.draft(Tokens{1}, {}, rng, keep_drafting), 4).parents == Parents{-1, -1, 0, 0, 1, 1});
  CHECK(readings.of_tokens == std::vector<double>(6, 0.7));
  readings.clear();
  CHECK_FALSE(readings.drawn);
}

namespace {

// Returns what it is told to, for every request.
struct MisshapenModel {
  Index rows, cols, rows_of_tree, cols_of_tree;
  Index vocab_size() const { return 4; }
  Eigen::MatrixXd forward(std::span<const Token>, Index) {
    return Eigen::MatrixXd::Constant(rows, cols, 0.25);
  }
  Eigen::MatrixXd forward(std::span<const Token>, std::span<const Index>, Index) {
    return Eigen::MatrixXd::Constant(rows_of_tree, cols_of_tree, 0.25);
  }
  void keep(std::span<const Index>) {}
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("in trees of a shape, rows of a wrong shape are named in the error and not read") {
  std::mt19937_64 rng{1};
  const auto complaint = [&](MisshapenModel model) {
    ModelDrafter drafter{std::move(model), Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}};
    return message_of([&] { drafter.draft(Tokens{0}, {}, rng); });
  };
  CHECK(complaint({1, 4, 2, 4}).empty());
  CHECK(complaint({2, 4, 2, 4}) == "specdec: the draft model returned 2 rows, expected 1");
  CHECK(complaint({1, 4, 1, 4}) == "specdec: the draft model returned 1 rows, expected 2");
  CHECK(complaint({1, 4, 3, 4}).find("returned 3 rows") != std::string::npos);
  CHECK(complaint({1, 4, 0, 4}).find("returned 0 rows") != std::string::npos);
  CHECK(complaint({1, 4, 2, 5}).find("over 5 tokens, expected 2 rows") != std::string::npos);
}

TEST_CASE("an audit finds nothing wrong with honest trees") {
  std::mt19937_64 rng{11};
  const auto table = full_model(12, 1, rng);
  DraftAudit audit;
  ModelDrafter drafter{WatchedTreeModel(table), Tree{TreeShape::of_widths({3, 2}), WithoutReplacement{}}};
  Tokens context{0};
  for (int n = 0; n < 150; ++n) {
    const auto draft = drafter.draft(context, {}, rng);
    audit.add(draft.rows, draft.tokens);
    context.push_back(draft.tokens[rng() % 3]);
  }
  const auto report = audit.report();
  CHECK(report.tokens == 150 * 9);
  CHECK(report.fault == DraftFault::none);
}

TEST_CASE("trees drafted together are those that each sequence gets alone, with every kind of siblings") {
  const TreeShape bushy = TreeShape::of_widths({3, 2, 1}), uneven{-1, 0, 0, -1, 1, 2, 4};
  for (const bool calls_fail : {false, true}) {
    check_company(Tree{uneven, WithoutReplacement{}}, calls_fail);
    check_company(Tree{bushy, Independent{}}, calls_fail);
    check_company(Tree{uneven, Likeliest{}}, calls_fail);
  }
  check_company(Tree{TreeShape::linear(4), WithoutReplacement{}}, false);
}

TEST_CASE("one level of all trees is one call") {
  Bookkeeper model(TableModel<>::context_free(Eigen::RowVector4d::Constant(0.25)));
  ModelDrafter drafter{model, Tree{TreeShape::of_widths({2, 2, 1}), WithoutReplacement{}}};
  const Tokens context{1, 2, 3};
  std::vector<SplitMix64> sources{SplitMix64{1}, SplitMix64{2}, SplitMix64{3}};
  std::vector<Request> requests;
  for (Index i = 0; i < 3; ++i)
    requests.push_back({.sequence = i,
                        .context = context,
                        .limits = {.depth = i + 1},
                        .source = &sources[static_cast<std::size_t>(i)]});
  drafter.draft(std::span<Request>(requests));
  CHECK(model.calls == 3);
  for (Index i = 0; i < 3; ++i)
    CHECK(std::ssize(drafter.drafted(i).tokens) ==
          TreeShape::of_widths({2, 2, 1}).size_within({.depth = i + 1}));
}

namespace {

// A model with the row 1/4, 1/4, 1/4, 1/4. For one of its sequences the rows are too short.
struct ShortOfTokens {
  Index vocab_size() const { return 4; }
  RowSpan<DenseRow<double>> forward(std::span<const BatchFeed> feeds) {
    views.clear();
    for (const BatchFeed& feed : feeds)
      for (Index i = 0; i < feed.rows; ++i) views.emplace_back(row.data(), feed.sequence == 1 ? 3 : 4);
    return {views, 4};
  }
  void keep(Index, Index) {}
  void keep(Index, std::span<const Index>) {}
  void release(Index) {}

  std::vector<double> row = std::vector<double>(4, 0.25);
  std::vector<DenseRow<double>> views;
};

}  // namespace

TEST_CASE("a row of a wrong size costs only its own tree") {
  ModelDrafter drafter{ShortOfTokens(), Tree{TreeShape::of_widths({2, 1}), Likeliest{}}};
  const Tokens context{1, 2};
  std::vector<SplitMix64> sources(2, SplitMix64{7});
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 2; ++i)
    requests.push_back({.sequence = static_cast<Index>(i), .context = context, .source = &sources[i]});
  drafter.draft(std::span<Request>(requests));
  CHECK_FALSE(requests[0].error);
  CHECK(kept(drafter.drafted(0), 4).tokens == Tokens{0, 1, 0, 0});
  REQUIRE(requests[1].error);
  CHECK(message_of([&] { std::rethrow_exception(requests[1].error); }) ==
        "specdec: the draft model returned 1 rows over 3 tokens, expected 1 row over its vocabulary of 4");
}

TEST_CASE("a tree that has failed grows no further") {
  Bookkeeper model(TableModel<>::context_free(Eigen::RowVector4d::Constant(0.25)));
  model.spoils_behind = 2;
  ModelDrafter drafter{model, Tree{TreeShape::of_widths({4, 1, 1}), Likeliest{}}};
  const Tokens context{1};
  SplitMix64 source{1};
  std::vector<Request> requests(1, {.context = context, .source = &source});
  drafter.draft(std::span<Request>(requests));
  CHECK(requests[0].error);
  CHECK(model.calls == 2);
}

}  // namespace test_draft_strategies_tree
