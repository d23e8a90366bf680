#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace test_draft_confident_tree_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(TreeDrafter<ConfidentTreeDrafter<WatchedTreeModel>>);

using Tokens = std::vector<Token>;

// By the book: all levels are grown in full, and only then the best are chosen.
struct Found {
  Token token;
  Index parent;
  double confidence;
};

KeptTree expected(const auto& model, const Tokens& context, const ConfidentTree& tree) {
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
      found.push_back({tokens[c], k, confidence * q.probability(tokens[c])});
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
KeptTree drafted(ConfidentTreeDrafter<Model>& drafter, const Tokens& context, const TreeLimits& limits = {}) {
  std::mt19937_64 rng{1}, untouched{1};
  const auto tree = kept(drafter.draft(context, limits, rng), 6);
  CHECK(rng == untouched);
  return tree;
}

}  // namespace

TEST_CASE("the tree is that of the largest confidence") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 150; ++n) {
    const auto table = coarse_model(6, 2, rng);  // of which many tokens have equal probabilities, or none
    const ConfidentTree tree{.width = 1 + n % 4, .depth = n % 5, .nodes = static_cast<Index>(rng() % 12)};
    ConfidentTreeDrafter drafter{WatchedTreeModel(table), tree};
    const Tokens context{1, static_cast<Token>(n % 6)};
    INFO("case " << n);
    CHECK(drafted(drafter, context) == expected(table, context, tree));
    // Limits are further bounds of the same kind.
    const TreeLimits limits{.nodes = static_cast<Index>(rng() % 6), .depth = static_cast<Index>(rng() % 4)};
    drafter.truncate(0);
    CHECK(drafted(drafter, context, limits) ==
          expected(table, context,
                   {tree.width, std::min(tree.depth, limits.depth), std::min(tree.nodes, limits.nodes)}));
  }
}

TEST_CASE("a model that is sure makes a line of it, and one that is not a bush") {
  const auto shape = [](const std::vector<double>& p) {
    Eigen::RowVectorXd row(6);
    for (Index x = 0; x < 6; ++x) row[x] = p[static_cast<std::size_t>(x)];
    ConfidentTreeDrafter drafter{TableModel<>::context_free(row), {.width = 3, .depth = 4, .nodes = 4}};
    return drafted(drafter, Tokens{0});
  };
  CHECK(shape({0, 1, 0, 0, 0, 0}).parents == std::vector<Index>{-1, 0, 1, 2});
  CHECK(shape({0, 1, 0, 0, 0, 0}).tokens == Tokens{1, 1, 1, 1});
  CHECK(shape({0.9, 0.02, 0.02, 0.02, 0.02, 0.02}).parents == std::vector<Index>{-1, 0, 1, 2});
  CHECK(shape({0.2, 0.16, 0.16, 0.16, 0.16, 0.16}).parents == std::vector<Index>{-1, -1, -1, 0});
  CHECK(shape({0.6, 0.4, 0, 0, 0, 0}).parents ==
        std::vector<Index>{-1, -1, 0, 0});  // 0.36, 0.24; 0.24, 0.216
}

TEST_CASE("a call a level, as long as a child could be proposed") {
  std::mt19937_64 rng{2};
  Eigen::RowVectorXd row(6);
  row << 0.3, 0.2, 0.2, 0.1, 0.1, 0.1;
  const auto calls = [&](const ConfidentTree& tree) {
    WatchedTreeModel model(TableModel<>::context_free(row));
    ConfidentTreeDrafter drafter{model, tree};
    drafted(drafter, Tokens{0, 1});
    return std::pair(model.calls, model.fed);
  };
  CHECK(calls({.width = 3, .depth = 3, .nodes = 100}) == std::pair<Index, Index>(3, 2 + 3 + 3));
  CHECK(calls({.width = 3, .depth = 1, .nodes = 100}) == std::pair<Index, Index>(1, 2));
  CHECK(calls({.width = 3, .depth = 9, .nodes = 3}).first == 2);  // the tokens behind them are less likely
  CHECK(calls({.width = 3, .depth = 9, .nodes = 0}).first == 0);
}

TEST_CASE("what the context goes on with of the tree is not taken in again, in confident trees") {
  std::mt19937_64 rng{3};
  const auto table = coarse_model(6, 3, rng);
  const ConfidentTree tree{.width = 3, .depth = 4, .nodes = 14};
  WatchedTreeModel model(table);
  ConfidentTreeDrafter drafter{model, tree};
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

TEST_CASE("no more nodes get children than the model's context has room for") {
  std::mt19937_64 rng{4};
  const auto table = coarse_model(6, 2, rng);
  const ConfidentTree tree{.width = 2, .depth = 4, .nodes = 100};
  for (const Index most : {2, 3, 4, 5, 6, 20}) {
    WatchedTreeModel model(table, most);
    ConfidentTreeDrafter drafter{model, tree};
    const KeptTree draft = drafted(drafter, {1, 2, 3});
    if (most < 3) CHECK(draft.tokens.empty());
    if (most == 3) CHECK(draft == expected(table, Tokens{1, 2, 3}, {2, 1, 100}));
    if (most == 5) CHECK(draft == expected(table, Tokens{1, 2, 3}, {2, 2, 100}));
    if (most == 20) CHECK(draft == expected(table, Tokens{1, 2, 3}, tree));
    CHECK(model.fed <= most);
  }
}

TEST_CASE(
    "after a failure of the model, at any call, a drafter drafts what a new one does, in confident trees") {
  std::mt19937_64 rng{5};
  const auto table = coarse_model(6, 2, rng);
  const ConfidentTree tree{.width = 3, .depth = 3, .nodes = 9};
  for (Index fails_at = 0; fails_at < 3; ++fails_at) {
    WatchedTreeModel model(table);
    ConfidentTreeDrafter drafter{model, tree};
    model.fails_at = fails_at;
    CHECK_THROWS_AS(drafted(drafter, {1, 2}), std::runtime_error);
    if (fails_at == 1) drafter.truncate(2);
    CHECK(drafted(drafter, {1, 2}) == expected(table, Tokens{1, 2}, tree));
  }
}

TEST_CASE("tokens that the model does not know, drafters of one model, and copies") {
  std::mt19937_64 rng{6};
  const auto table = coarse_model(6, 2, rng);
  const ConfidentTree tree{.width = 2, .depth = 3, .nodes = 6};
  WatchedTreeModel model(table);
  ConfidentTreeDrafter drafter{model, tree};
  CHECK(drafted(drafter, {1, 70}) == expected(table, Tokens{1, 0}, tree));
  ModelDrafter other{model};
  other.draft(Tokens{3, 3, 3, 2}, 2, rng);
  drafter.truncate(2);
  CHECK(drafted(drafter, {1, 2}) == expected(table, Tokens{1, 2}, tree));
  CHECK(drafter.draft(Tokens{1, 2}, {}, rng).rows.vocab_size() == 6);
  std::vector<const void*> refers_to;
  drafter.each_identity([&](const void* shared, specdec::detail::Role) { refers_to.push_back(shared); });
  CHECK(refers_to == std::vector<const void*>{&model});
  ConfidentTreeDrafter own{WatchedTreeModel(table), tree};
  drafted(own, {1, 2});
  auto copy = own;
  CHECK(drafted(copy, {3, 2}) == expected(table, Tokens{3, 2}, tree));
  const auto moved = std::move(own);
  CHECK(message_of<std::logic_error>([&] {
          own.draft(Tokens{1}, {}, rng);
        }).find("was moved away") !=  // NOLINT
        std::string::npos);
}

TEST_CASE("what cannot be drafted is named, in confident trees") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 1, rng);
  const auto complaint = [&](const ConfidentTree& tree) {
    return message_of([&] { ConfidentTreeDrafter(WatchedTreeModel(table), tree); });
  };
  CHECK(complaint({}).empty());
  CHECK(complaint({.width = 0}) == "specdec: width = 0 is outside 1..1024");
  CHECK(complaint({.width = 1025}) == "specdec: width = 1025 is outside 1..1024");
  CHECK(complaint({.depth = -1}) == "specdec: depth = -1 is negative");
  CHECK(complaint({.nodes = -1}) == "specdec: nodes = -1 is negative");
  CHECK(complaint({.nodes = unlimited}).find("nodes = ") != std::string::npos);
  ConfidentTreeDrafter drafter{WatchedTreeModel(table)};
  CHECK(message_of([&] { drafter.draft(Tokens{}, {}, rng); }) ==
        "specdec: context is empty: there is nothing to continue");
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(3, std::numeric_limits<double>::quiet_NaN());
  ConfidentTreeDrafter bad{TableModel<>::context_free(row)};
  CHECK(message_of([&] { bad.draft(Tokens{0}, {}, rng); }) ==
        "specdec: draft row 0: the probability of token 0 is nan");
}

}  // namespace test_draft_confident_tree_drafter
