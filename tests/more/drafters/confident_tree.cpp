// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace test_more_drafters_confident_tree {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(drafts_trees<ModelDrafter<WatchedTreeModel, ConfidentTree>>);

using Tokens = std::vector<Token>;

// The definition: all levels are grown in full, and then the best nodes are chosen.
struct Found {
  Token token;
  Index parent;
  double confidence;
};

// A token's confidence given its parent's, by its probability and by how many siblings are likelier.
using Rating = double (*)(double, Index);
double as_drafted(double probability, Index) { return probability; }

KeptTree expected(const auto& model, const Tokens& context, const ConfidentTree& tree,
                  Rating rating = as_drafted) {
  std::vector<Found> found;
  const auto text = [&](Index k) {
    Tokens before;
    for (; k >= 0; k = found[static_cast<std::size_t>(k)].parent)
      before.insert(before.begin(), found[static_cast<std::size_t>(k)].token);
    before.insert(before.begin(), context.begin(), context.end());
    return before;
  };
  const auto grow = [&](Index k) {
    const auto q = model.distribution(text(k));
    const double confidence = k < 0 ? 1.0 : found[static_cast<std::size_t>(k)].confidence;
    Tokens tokens;
    for (Token x = 0; x < q.vocab_size(); ++x)
      if (q.probability(x) > 0) tokens.push_back(x);
    std::ranges::stable_sort(tokens, [&](Token a, Token b) { return q.probability(a) > q.probability(b); });
    for (std::size_t c = 0; c < tokens.size() && std::ssize(tokens) > 0 && static_cast<Index>(c) < tree.width;
         ++c)
      found.push_back({tokens[c], k, confidence * rating(q.probability(tokens[c]), static_cast<Index>(c))});
  };
  const auto by_confidence = [&](std::vector<Index>& nodes, Index most) {
    std::ranges::stable_sort(nodes, [&](Index a, Index b) {
      return found[static_cast<std::size_t>(a)].confidence > found[static_cast<std::size_t>(b)].confidence;
    });
    if (std::ssize(nodes) > most) nodes.resize(static_cast<std::size_t>(most));
    std::ranges::sort(nodes);
  };
  std::vector<Index> level{-1}, all;
  for (Index d = 0; d < tree.depth; ++d) {
    const Index from = std::ssize(found);
    for (const Index k : level) grow(k);
    level.clear();
    for (Index k = from; k < std::ssize(found); ++k) level.push_back(k);
    by_confidence(level, tree.width);
  }
  for (Index k = 0; k < std::ssize(found); ++k) all.push_back(k);
  by_confidence(all, tree.nodes);
  KeptTree out;
  for (const Index k : all) {
    const auto at = static_cast<std::size_t>(k);
    const auto parent = std::ranges::find(all, found[at].parent);
    if (parent == all.end()) REQUIRE(found[at].parent == -1);
    out.parents.push_back(parent == all.end() ? -1 : parent - all.begin());
    out.tokens.push_back(found[at].token);
    out.rows.emplace_back(static_cast<std::size_t>(model.vocab_size()),
                          0.0)[static_cast<std::size_t>(found[at].token)] = 1;
  }
  return out;
}

template <class Model>
KeptTree drafted(ModelDrafter<Model, ConfidentTree>& drafter, const Tokens& context,
                 const DraftLimits& limits = {}) {
  std::mt19937_64 rng{1}, untouched{1};
  const auto tree = kept(drafter.draft(context, limits, rng), 6);
  CHECK(rng == untouched);
  return tree;
}

}  // namespace

TEST_CASE("the tree is the one with the largest confidence") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 150; ++n) {
    const auto table = coarse_model(6, 2, rng);  // many tokens have equal probabilities, or probability 0
    const ConfidentTree tree{.width = 1 + n % 4, .depth = n % 5, .nodes = static_cast<Index>(rng() % 12)};
    ModelDrafter drafter{WatchedTreeModel(table), tree};
    const Tokens context{1, static_cast<Token>(n % 6)};
    INFO("case " << n);
    CHECK(drafted(drafter, context) == expected(table, context, tree));
    // The draft's limits bound the tree further.
    const DraftLimits limits{.nodes = static_cast<Index>(rng() % 6), .depth = static_cast<Index>(rng() % 4)};
    drafter.truncate(0);
    CHECK(drafted(drafter, context, limits) ==
          expected(table, context,
                   {tree.width, std::min(tree.depth, limits.depth), std::min(tree.nodes, limits.nodes)}));
  }
}

TEST_CASE("a model that is sure gives a line, and a model that is not gives a bush") {
  const auto shape = [](const std::vector<double>& p) {
    Eigen::RowVectorXd row(6);
    for (Index x = 0; x < 6; ++x) row[x] = p[static_cast<std::size_t>(x)];
    ModelDrafter drafter{TableModel<>::context_free(row), ConfidentTree{.width = 3, .depth = 4, .nodes = 4}};
    return drafted(drafter, Tokens{0});
  };
  CHECK(shape({0, 1, 0, 0, 0, 0}).parents == std::vector<Index>{-1, 0, 1, 2});
  CHECK(shape({0, 1, 0, 0, 0, 0}).tokens == Tokens{1, 1, 1, 1});
  CHECK(shape({0.9, 0.02, 0.02, 0.02, 0.02, 0.02}).parents == std::vector<Index>{-1, 0, 1, 2});
  CHECK(shape({0.2, 0.16, 0.16, 0.16, 0.16, 0.16}).parents == std::vector<Index>{-1, -1, -1, 0});
  CHECK(shape({0.6, 0.4, 0, 0, 0, 0}).parents ==
        std::vector<Index>{-1, -1, 0, 0});  // 0.36, 0.24; 0.24, 0.216
}

TEST_CASE("a confident tree takes one call a level, as long as a child could still be proposed") {
  std::mt19937_64 rng{2};
  Eigen::RowVectorXd row(6);
  row << 0.3, 0.2, 0.2, 0.1, 0.1, 0.1;
  const auto calls = [&](const ConfidentTree& tree) {
    WatchedTreeModel model(TableModel<>::context_free(row));
    ModelDrafter drafter{model, tree};
    drafted(drafter, Tokens{0, 1});
    return std::pair(model.calls, model.fed);
  };
  CHECK(calls({.width = 3, .depth = 3, .nodes = 100}) == std::pair<Index, Index>(3, 2 + 3 + 3));
  CHECK(calls({.width = 3, .depth = 1, .nodes = 100}) == std::pair<Index, Index>(1, 2));
  CHECK(calls({.width = 3, .depth = 9, .nodes = 3}).first == 2);  // the tokens after them are less likely
  CHECK(calls({.width = 3, .depth = 9, .nodes = 0}).first == 0);
}

TEST_CASE("in confident trees, nodes that the context goes on with are not fed again") {
  std::mt19937_64 rng{3};
  const auto table = coarse_model(6, 3, rng);
  const ConfidentTree tree{.width = 3, .depth = 4, .nodes = 14};
  WatchedTreeModel model(table);
  ModelDrafter drafter{model, tree};
  Tokens text{1, 2, 3};
  for (int n = 0; n < 100; ++n) {
    const KeptTree draft = drafted(drafter, text);
    REQUIRE(draft == expected(table, text, tree));
    text = text_before(text, draft.tokens, draft.parents, static_cast<Index>(rng() % draft.tokens.size()));
    if (n % 3 != 0) drafter.truncate(std::ssize(text));
    text.push_back(static_cast<Token>(rng() % 6));
  }
  CHECK(model.kept > 50);
}

TEST_CASE("in confident trees, no more nodes get children than the model's context has room for") {
  std::mt19937_64 rng{4};
  const auto table = coarse_model(6, 2, rng);
  const ConfidentTree tree{.width = 2, .depth = 4, .nodes = 100};
  for (const Index most : {2, 3, 4, 5, 6, 20}) {
    WatchedTreeModel model(table, most);
    ModelDrafter drafter{model, tree};
    const KeptTree draft = drafted(drafter, {1, 2, 3});
    if (most < 3) CHECK(draft.tokens.empty());
    if (most == 3) CHECK(draft == expected(table, Tokens{1, 2, 3}, {2, 1, 100}));
    if (most == 5) CHECK(draft == expected(table, Tokens{1, 2, 3}, {2, 2, 100}));
    if (most == 20) CHECK(draft == expected(table, Tokens{1, 2, 3}, tree));
    CHECK(model.fed <= most);
  }
}

namespace {

// Rates tokens, grows some levels and proposes some of the tokens. Keeps what it was asked.
struct Rater {
  Rating rating;
  Index levels = unlimited, most = unlimited;
  std::vector<GrowingDraft>* asked;
  std::vector<std::vector<double>>* values;

  double acceptance(const CandidateToken& candidate) const {
    CHECK(!candidate.drawn);
    return rating(candidate.reading, candidate.rank);
  }
  More more(const GrowingDraft& draft) const {
    asked->push_back(draft);
    values->push_back({draft.values.begin(), draft.values.end()});
    values->push_back({draft.leaves.begin(), draft.leaves.end()});
    return {.level = draft.levels < levels, .tokens = most};
  }
};

// The draft under the draft length, and its readings.
template <class Model, class Length>
KeptTree drafted_by(Model model, const Tokens& context, const ConfidentTree& tree, Length length,
                    const DraftLimits& limits, specdec::detail::DraftReadings& readings) {
  ModelDrafter drafter{model, tree};
  SplitMix64 source{1};
  return kept(drafter.draft(context, limits, source,
                            specdec::detail::KeepDrafting<Length, false>{&length, &readings}),
              6);
}

double by_rank(double probability, Index rank) {
  return std::sqrt(probability) / static_cast<double>(1 + rank);
}

}  // namespace

TEST_CASE("a draft length that rates tokens decides about a tree's levels and tokens") {
  std::mt19937_64 rng{5};
  for (int n = 0; n < 150; ++n) {
    const auto table = coarse_model(6, 2, rng);
    const ConfidentTree tree{.width = 1 + n % 4, .depth = 5, .nodes = 30};
    const DraftLimits limits{.nodes = 12, .depth = 4};
    std::vector<GrowingDraft> asked;
    std::vector<std::vector<double>> values;
    const Rater rater{by_rank, static_cast<Index>(rng() % 6), static_cast<Index>(rng() % 14), &asked,
                      &values};
    const Tokens context{1, static_cast<Token>(n % 6)};
    specdec::detail::DraftReadings readings;
    const KeptTree draft = drafted_by(WatchedTreeModel(table), context, tree, rater, limits, readings);
    INFO("case " << n << ", " << rater.levels << " levels, " << rater.most << " tokens");
    const Index levels = std::clamp<Index>(rater.levels, 1, limits.depth);
    // All tokens up to the level are found, of which the best 12 stay; the most valuable are proposed.
    CHECK(draft == expected(table, context, {tree.width, levels, std::min<Index>(rater.most, 12)}, by_rank));
    for (std::size_t k = 0; k < asked.size(); ++k) {
      CHECK(asked[k].levels == static_cast<Index>(k) + 1);
      const auto &found = values[2 * k], &leaves = values[2 * k + 1];
      CHECK(std::is_sorted(found.rbegin(), found.rend()));
      CHECK((!leaves.empty() || k + 1 == asked.size()));  // where there can be no level more
      CHECK(std::ssize(leaves) <= tree.width);
      for (const double leaf : leaves) CHECK(std::find(found.begin(), found.end(), leaf) != found.end());
    }
    REQUIRE(readings.of_tokens.size() == draft.tokens.size());
    for (std::size_t k = 0; k < draft.tokens.size(); ++k) {
      const auto text = text_before(context, draft.tokens, draft.parents, static_cast<Index>(k));
      const auto before = std::span(text).first(text.size() - 1);
      CHECK(readings.of_tokens[k] == table.distribution(before).probability(draft.tokens[k]));
    }
  }
}

TEST_CASE("a draft length that takes the draft model at its word, and all of a tree, changes nothing") {
  std::mt19937_64 rng{6};
  for (int n = 0; n < 50; ++n) {
    const auto table = coarse_model(6, 2, rng);
    const ConfidentTree tree{.width = 1 + n % 3, .depth = n % 5, .nodes = n % 11};
    std::vector<GrowingDraft> asked;
    std::vector<std::vector<double>> values;
    const Rater all{as_drafted, unlimited, unlimited, &asked, &values};
    specdec::detail::DraftReadings readings;
    // A bounded context leaves the tree as small as it does without a draft length.
    for (const Index most : {5, 9, 100}) {
      WatchedTreeModel plain(table, most);
      readings.clear();
      const KeptTree draft = drafted_by(WatchedTreeModel(table, most), {1, 2, 3}, tree, all, {}, readings);
      ModelDrafter drafter{plain, tree};
      CHECK(draft == drafted(drafter, {1, 2, 3}));
    }
  }
}

TEST_CASE("ratings are for the row before temperature, and a likelier sibling is never worth less") {
  Eigen::RowVectorXd row(6);
  row << 0.4, 0.25, 0.15, 0.1, 0.06, 0.04;
  const Eigen::RowVectorXd logits = row.array().log();
  const auto table = TableModel<>::context_free(logits);
  // Rates the second likeliest token above the likeliest, and the third lowest.
  const Rating odd = [](double, Index rank) { return rank == 0 ? 0.5 : rank == 1 ? 0.9 : 0.1; };
  std::vector<GrowingDraft> asked;
  std::vector<std::vector<double>> values;
  const ConfidentTree tree{.width = 3, .depth = 2, .nodes = 2};
  specdec::detail::DraftReadings readings;
  const KeptTree draft = drafted_by(ProcessedModel{WatchedTreeModel(table), Temperature{0.5}}, {0}, tree,
                                    Rater{odd, 1, unlimited, &asked, &values}, {}, readings);
  CHECK(draft.tokens == Tokens{0, 1});
  REQUIRE(values.size() == 2);
  CHECK(values[0] == std::vector<double>{0.5, 0.5});
  REQUIRE(readings.of_tokens.size() == 2);
  CHECK(readings.of_tokens[0] == Approx(0.4));
  CHECK(readings.of_tokens[1] == Approx(0.25));
}

TEST_CASE("what a draft length says about trees is checked") {
  std::mt19937_64 rng{7};
  const auto table = coarse_model(6, 2, rng);
  std::vector<GrowingDraft> asked;
  std::vector<std::vector<double>> values;
  specdec::detail::DraftReadings readings;
  const auto complaint = [&](Rating rating, Index most) {
    const Rater rater{rating, 1, most, &asked, &values};
    return message_of(
        [&] { drafted_by(WatchedTreeModel(table), {0}, ConfidentTree{}, rater, {}, readings); });
  };
  CHECK(complaint([](double, Index) { return 0.5; }, 3).empty());
  CHECK(complaint([](double, Index) { return 1.5; }, 3).find(", is 1.5, outside [0, 1]") !=
        std::string::npos);
  CHECK(complaint([](double, Index) { return std::numeric_limits<double>::quiet_NaN(); }, 3)
            .find("specdec: the draft length's acceptance of a chosen token of rank 0") == 0);
  CHECK(complaint([](double, Index) { return 0.5; }, -1)
            .find("specdec: the draft length proposes -1 tokens of a tree, outside 0..") == 0);
}

TEST_CASE("impossible confident trees are named in the error") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 1, rng);
  const auto complaint = [&](const ConfidentTree& tree) {
    return message_of([&] { ModelDrafter(WatchedTreeModel(table), tree); });
  };
  CHECK(complaint({}).empty());
  CHECK(complaint({.width = 0}) == "specdec: width = 0 is outside 1..1024");
  CHECK(complaint({.width = 1025}) == "specdec: width = 1025 is outside 1..1024");
  CHECK(complaint({.depth = -1}) == "specdec: depth = -1 is negative");
  CHECK(complaint({.nodes = -1}) == "specdec: nodes = -1 is negative");
  CHECK(complaint({.nodes = unlimited}).find("nodes = ") != std::string::npos);
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(3, std::numeric_limits<double>::quiet_NaN());
  ModelDrafter bad{TableModel<>::context_free(row), ConfidentTree{}};
  CHECK(message_of([&] { bad.draft(Tokens{0}, {}, rng); }) ==
        "specdec: draft row 0: the probability of token 0 is nan");
}

namespace {

// The parents of a tree with drawn tokens, where every row of the model is this one. The rows alone decide about them.
std::vector<Index> drawn_parents(const std::vector<double>& p, const DrawnConfidentTree& tree,
                                 const DraftLimits& limits = {}) {
  const Eigen::RowVectorXd row = Eigen::Map<const Eigen::RowVectorXd>(p.data(), std::ssize(p));
  std::vector<Index> parents;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SplitMix64 rng(seed);
    ModelDrafter drafter{WatchedTreeModel(TableModel<>::context_free(row)), tree};
    const auto draft = drafter.draft(Tokens{0}, limits, rng);
    const std::vector<Index> found(draft.parents.begin(), draft.parents.end());
    if (seed > 1) CHECK(found == parents);
    parents = found;
  }
  return parents;
}

}  // namespace

TEST_CASE("a confident tree with drawn tokens gives each level its tokens where they are worth most") {
  using Parents = std::vector<Index>;
  const DrawnConfidentTree three{.width = 2, .depth = 3};
  // The drawn token has 0.06, the chosen one 0.9, and all that follows is best below the chosen one.
  CHECK(drawn_parents({0.9, 0.02, 0.02, 0.02, 0.02, 0.02}, three) == Parents{-1, -1, 1, 1, 3, 3});
  // The drawn token has 0.48, the chosen one 0.2; one token after each is better than two after one.
  CHECK(drawn_parents({0.2, 0.16, 0.16, 0.16, 0.16, 0.16}, three) == Parents{-1, -1, 0, 1, 2, 3});
  // Where drawn tokens are always accepted, nothing is gained by others; where they never are, all are worth something.
  const std::vector<double> p{0.5, 0.25, 0.25};
  CHECK(drawn_parents(p, {.width = 3, .depth = 1, .overlap = 0}) == Parents{-1, -1, -1});
  CHECK(drawn_parents({0, 1, 0}, three) == Parents{-1, 0, 1});  // nothing is left to be drawn
  CHECK(drawn_parents(p, three, {.nodes = 3}).size() == 3);
  CHECK(drawn_parents(p, three, {.depth = 2}).size() == 4);
  CHECK(drawn_parents(p, three, {.nodes = 0}).empty());
  CHECK(drawn_parents(p, {.width = 2, .depth = 0}).empty());
}

TEST_CASE("impossible confident trees with drawn tokens are named in the error") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 1, rng);
  const auto complaint = [&](const DrawnConfidentTree& tree) {
    return message_of([&] { ModelDrafter(WatchedTreeModel(table), tree); });
  };
  CHECK(complaint({}).empty());
  CHECK(complaint({.width = 0}) == "specdec: width = 0 is outside 1..1024");
  CHECK(complaint({.depth = -1}) == "specdec: depth = -1 is negative");
  CHECK(complaint({.overlap = 1.5}) == "specdec: overlap = 1.5 is outside [0, 1]");
  CHECK(complaint({.overlap = std::numeric_limits<double>::quiet_NaN()}) ==
        "specdec: overlap = nan is outside [0, 1]");
}

TEST_CASE("one level of all confident trees is one call") {
  Bookkeeper model(TableModel<>::context_free(Eigen::RowVector4d(0.4, 0.3, 0.2, 0.1)));
  ModelDrafter drafter{model, ConfidentTree{.width = 2, .depth = 3, .nodes = 99}};
  const Tokens context{1, 2, 3};
  SplitMix64 source{1};
  std::vector<DraftRequest<SplitMix64>> requests;
  for (Index i = 0; i < 3; ++i)
    requests.push_back({.sequence = i, .context = context, .limits = {.depth = i + 1}, .source = &source});
  drafter.draft(std::span(requests));
  CHECK(model.calls == 3);
  for (Index i = 0; i < 3; ++i) CHECK(std::ssize(drafter.drafted(i).tokens) == 2 + 4 * i);
}

}  // namespace test_more_drafters_confident_tree
