#include <algorithm>
#include <cmath>
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

namespace test_draft_spares_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(TreeDrafter<SparesDrafter<TableModel<>>>);
static_assert(TreeDrafter<SparesDrafter<support::StableModel>>);
static_assert(!TreeModel<support::StableModel>, "the model need not take in trees");

using Tokens = std::vector<Token>;
using Counts = std::vector<Index>;

// The tokens of a row from the likeliest to the least likely that has any probability.
Tokens by_likelihood(const auto& q) {
  Tokens tokens;
  for (Token x = 0; x < q.vocab_size(); ++x)
    if (q.probability(x) > 0) tokens.push_back(x);
  std::ranges::stable_sort(tokens, [&](Token a, Token b) { return q.probability(a) > q.probability(b); });
  return tokens;
}

// What has to be drafted, where these tokens were drawn for the trunk.
KeptTree expected(const auto& model, const Tokens& context, const Tokens& drawn, const Counts& spares,
                  const TreeLimits& limits) {
  KeptTree tree;
  Index last = -1;
  const auto add = [&](Token token, std::vector<double> row) {
    if (std::ssize(tree.tokens) >= limits.nodes) return;
    tree.tokens.push_back(token);
    tree.parents.push_back(last);
    tree.rows.push_back(std::move(row));
  };
  for (std::size_t d = 0; d < drawn.size(); ++d) {
    Tokens text = context;
    text.insert(text.end(), drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(d));
    const auto q = model.distribution(text);
    std::vector<double> row;
    for (Token x = 0; x < q.vocab_size(); ++x) row.push_back(q.probability(x));
    const Index number = std::ssize(tree.tokens);
    add(drawn[d], row);
    Index left = spares.empty() ? 0 : spares[std::min(d, spares.size() - 1)];
    for (const Token x : by_likelihood(q)) {
      if (x == drawn[d] || left-- <= 0) continue;
      std::vector<double> one_hot(row.size(), 0.0);
      one_hot[static_cast<std::size_t>(x)] = 1;
      add(x, one_hot);
    }
    last = number;
  }
  return tree;
}

// The trunk of a tree: the eldest child of the eldest child, and so on.
Tokens trunk_of(const KeptTree& tree) {
  Tokens trunk;
  for (Index last = -1;;) {
    const auto found = std::ranges::find(tree.parents, last);
    if (found == tree.parents.end()) return trunk;
    last = found - tree.parents.begin();
    trunk.push_back(tree.tokens[static_cast<std::size_t>(last)]);
  }
}

// Over all outcomes: whether the trees are right, and the error of their probabilities.
template <class Model>
void check_law(Index trunk, const Counts& spares, const TreeLimits& limits = {}) {
  std::mt19937_64 seed{static_cast<std::uint64_t>(trunk + 7)};
  auto table = TableModel<>::random(4, 2, seed);
  const Tokens context{2, 0, 3};
  SparesDrafter drafter{Model{table}, trunk, spares};
  bool right = true;
  double error = 0, sum = 0;
  enumerate([&](Enumerator& chance) {
    drafter.truncate(0);
    const KeptTree tree = kept(drafter.draft(context, limits, chance), 4);
    const Tokens drawn = trunk_of(tree);
    right = right && tree == expected(table, context, drawn, spares, limits);
    right = right && std::ssize(drawn) <= std::min(trunk, std::max<Index>(limits.depth, 0));
    if (limits.nodes == unlimited) right = right && std::ssize(drawn) == std::min(trunk, limits.depth);
    double product = 1;
    for (std::size_t k = 0; k < tree.tokens.size(); ++k)
      product *= tree.rows[k][static_cast<std::size_t>(tree.tokens[k])];
    error = std::max(error, std::abs(product - chance.probability()));
    sum += chance.probability();
  });
  CHECK(right);
  CHECK(error < 1e-15);
  CHECK(std::abs(sum - 1) < 1e-12);
}

}  // namespace

TEST_CASE("the trunk is drawn from its rows, and the spares are the likeliest other tokens of them") {
  for (const Index trunk : {0, 1, 2, 3})
    for (const Counts& spares : {Counts{}, Counts{0}, Counts{1}, Counts{2, 1}, Counts{0, 3, 1}, Counts{9}})
      check_law<TableModel<>>(trunk, spares);
  check_law<support::StableModel>(3, {2, 1});
}

TEST_CASE("limits take the deepest level first, and of a level the unlikeliest spares") {
  for (Index nodes = -1; nodes <= 9; ++nodes)
    for (const Index depth : {Index{-1}, Index{0}, Index{1}, Index{2}, unlimited})
      check_law<TableModel<>>(3, {2, 1}, {nodes, depth});
}

namespace {

KeptTree drafted(SparesDrafter<CountingModel&>& drafter, const Tokens& context, std::uint64_t seed,
                 const TreeLimits& limits = {}) {
  std::mt19937_64 rng{seed};
  return kept(drafter.draft(context, limits, rng), 4);
}

KeptTree fresh(const TableModel<>& table, const Tokens& context, std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  SparesDrafter drafter{TableModel<>(table), 3, {2, 1}};
  return kept(drafter.draft(context, {}, rng), 4);
}

}  // namespace

TEST_CASE("the model takes in the trunk, and only what it has not seen") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 2, rng);
  CountingModel model{table};
  SparesDrafter drafter{model, 3, {2, 1}};
  const auto fed_by = [&](const Tokens& context, const TreeLimits& limits = {}) {
    const Index before = model.fed;
    drafted(drafter, context, 1, limits);
    return model.fed - before;
  };
  CHECK(fed_by({1, 2, 3}) == 3 + 2);  // the context, then all drawn tokens but the last
  drafter.truncate(0);
  CHECK(fed_by({1, 2, 3}, {.depth = 2}) == 3 + 1);
  drafter.truncate(3);
  CHECK(fed_by({1, 2, 3, 0}, {.nodes = 1}) == 1);
  CHECK(fed_by({1, 2, 3, 0}, {.nodes = 0}) == 0);
}

TEST_CASE("where the context goes on with a spare, the model forgets the trunk") {
  std::mt19937_64 rng{2};
  int spares = 0, trunks = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const auto table = coarse_model(4, 3, rng);
    CountingModel model{table};
    SparesDrafter drafter{model, 3, {2, 1}};
    Tokens text{1, 2, 3};
    for (std::uint64_t step = 0; step < 6; ++step) {
      const KeptTree tree = drafted(drafter, text, step);
      REQUIRE(tree == fresh(table, text, step));
      const Index node = static_cast<Index>(rng() % (tree.tokens.size() + 1)) - 1;
      const Tokens trunk = trunk_of(tree);
      const auto before = text.size();
      text = text_before(text, tree.tokens, tree.parents, node);
      const bool on_trunk =
          std::equal(text.begin() + static_cast<std::ptrdiff_t>(before), text.end(), trunk.begin());
      ++(on_trunk ? trunks : spares);
      drafter.truncate(std::ssize(text));  // which a spare has in place of a token of the trunk
      text.push_back(static_cast<Token>(rng() % 4));
      model.fed = 0;
      const auto again = drafted(drafter, text, step + 10, {.depth = 1});
      const std::size_t known =
          on_trunk ? std::min<std::size_t>(text.size() - 1, before + 2) : text.size() - 2;
      CHECK(model.fed == std::ssize(text) - static_cast<Index>(known));
      drafter.truncate(std::ssize(text));
      text.push_back(static_cast<Token>(rng() % 4));
    }
  }
  CHECK(spares > 50);
  CHECK(trunks > 50);
}

TEST_CASE("the trunk is no longer than the model's context has room for") {
  std::mt19937_64 rng{4};
  SparesDrafter drafter{BoundedModel(coarse_model(4, 2, rng), 6), 5, {}};
  const auto proposed = [&](std::size_t size) {
    drafter.truncate(0);
    return std::ssize(drafter.draft(Tokens(size, 1), {}, rng).tokens);
  };
  CHECK(proposed(2) == 5);
  CHECK(proposed(3) == 4);  // the last of them is not fed
  CHECK(proposed(6) == 1);
  CHECK(proposed(7) == 0);
}

TEST_CASE(
    "tokens of the context that the model does not know are token 0 to it; its own may be more than the "
    "target's") {
  std::mt19937_64 rng{5};
  SparesDrafter drafter{coarse_model(4, 2, rng), 2, {1}};
  const auto tree = [&](const Tokens& context) {
    drafter.truncate(0);
    std::mt19937_64 draws{1};
    return kept(drafter.draft(context, {}, draws), 4);
  };
  CHECK(tree({1, 0}) == tree({1, 70}));
  CHECK(drafter.draft(Tokens{1}, {}, rng).rows.vocab_size() == 4);
}

TEST_CASE("after a failure of the model, at any call, a drafter drafts what a new one does") {
  std::mt19937_64 rng{6};
  const auto table = coarse_model(4, 2, rng);
  for (Index fails_at = 0; fails_at < 6; ++fails_at) {
    WatchedTreeModel model(table);
    SparesDrafter drafter{model, 3, {2, 1}};
    model.fails_at = fails_at;
    int failures = 0;
    Tokens text{1, 2};
    for (std::uint64_t n = 0; n < 3; ++n) {
      KeptTree tree;
      while (tree.tokens.empty()) {
        std::mt19937_64 draws{n};
        try {
          tree = kept(drafter.draft(text, {}, draws), 4);
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

TEST_CASE("drafters of one model take turns, and copies have models of their own") {
  std::mt19937_64 rng{8};
  const auto table = coarse_model(4, 3, rng);
  CountingModel model{table};
  SparesDrafter drafter{model, 3, {2, 1}};
  ModelDrafter other{model};
  const Tokens text{0, 1, 2};
  CHECK(drafted(drafter, text, 1) == fresh(table, text, 1));
  other.draft(Tokens{3, 3, 3, 2}, 2, rng);
  drafter.truncate(3);
  CHECK(drafted(drafter, text, 2) == fresh(table, text, 2));
  std::vector<const void*> refers_to;
  drafter.each_identity([&](const void* shared, specdec::detail::Role) { refers_to.push_back(shared); });
  CHECK(refers_to == std::vector<const void*>{&model});
  SparesDrafter own{TableModel<>(table), 3, {2, 1}};
  own.draft(text, {}, rng);
  auto copy = own;
  std::mt19937_64 draws{3};
  CHECK(kept(copy.draft(text, {}, draws), 4) == fresh(table, text, 3));
  const auto moved = std::move(own);
  CHECK(message_of<std::logic_error>([&] { own.draft(text, {}, rng); }).find("was moved away") !=  // NOLINT
        std::string::npos);
}

TEST_CASE("what cannot be drafted is named") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 1, rng);
  const auto complaint = [&](Index trunk, const Counts& spares) {
    return message_of([&] { SparesDrafter(TableModel<>(table), trunk, spares); });
  };
  CHECK(complaint(4, {2, 1}).empty());
  CHECK(complaint(-1, {}) == "specdec: trunk = -1 is negative");
  CHECK(complaint(unlimited, {}).find("trunk = ") != std::string::npos);
  CHECK(complaint(4, {2, -1}) == "specdec: spares[1] = -1 is outside 0..1048576, the longest draft");
  CHECK(complaint(4, {unlimited}).find("spares[0] = ") != std::string::npos);
  CHECK(complaint(1 << 19, {1}).empty());
  CHECK(complaint(1 << 19, {2, 1}) ==
        "specdec: trunk = 524288 and its spares make more than 1048576 tokens, the longest draft");
  SparesDrafter drafter{TableModel<>(table), 2, {1}};
  CHECK(message_of([&] { drafter.draft(Tokens{}, {}, rng); }) ==
        "specdec: context is empty: there is nothing to continue");
  Eigen::RowVectorXd row(2000);
  row.setZero();
  row[0] = 1;
  row[1999] = std::numeric_limits<double>::quiet_NaN();  // not in the stretch that the draw reads
  SparesDrafter unread{TableModel<>::context_free(row), 2, {1}};
  CHECK(message_of([&] { unread.draft(Tokens{0}, {}, rng); }) ==
        "specdec: draft row 0: the probability of token 1999 is nan");
}

}  // namespace test_draft_spares_drafter
