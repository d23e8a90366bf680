// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/company.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/spares.hpp"
#include "support/tree_models.hpp"

namespace test_draft_strategies_spares {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(drafts_trees<ModelDrafter<TableModel<>, Spares>>);
static_assert(drafts_trees<ModelDrafter<support::StableModel, Spares>>);
static_assert(!takes_trees<support::StableModel>, "the model need not take in trees");

using Tokens = std::vector<Token>;
using Counts = std::vector<Index>;
using Request = DraftRequest<SplitMix64>;

// Its rows last as long as their positions are kept, and change after that.
class ForgetfulModel {
 public:
  static constexpr bool stable_rows = true;
  explicit ForgetfulModel(TableModel<> table) : table_(std::move(table)) {}
  Index vocab_size() const { return table_.vocab_size(); }
  RowSpan<DenseRow<double>> forward(std::span<const Token> tokens, Index rows) {
    const auto& output = table_.forward(tokens, rows);
    views_.clear();
    held_.resize(table_.context().size());
    const std::size_t first = held_.size() - static_cast<std::size_t>(rows);
    for (std::size_t i = first; i < held_.size(); ++i) {
      const Eigen::RowVectorXd row = output.row(static_cast<Index>(i - first));
      held_[i].assign(row.begin(), row.end());
      views_.emplace_back(held_[i].data(), vocab_size());
    }
    return {views_, vocab_size()};
  }
  void truncate(Index length) {
    table_.truncate(length);
    for (std::size_t i = static_cast<std::size_t>(std::max<Index>(length, 0)); i < held_.size(); ++i)
      std::ranges::fill(held_[i], -1);
  }

 private:
  TableModel<> table_;
  std::deque<std::vector<double>> held_;  // by position
  std::vector<DenseRow<double>> views_;
};

// The tokens of a row with positive probability, from the likeliest to the least likely.
Tokens by_likelihood(const auto& q) {
  Tokens tokens;
  for (Token x = 0; x < q.vocab_size(); ++x)
    if (q.probability(x) > 0) tokens.push_back(x);
  std::ranges::stable_sort(tokens, [&](Token a, Token b) { return q.probability(a) > q.probability(b); });
  return tokens;
}

struct Wanted {
  Index trunk;
  Counts spares = {};
  Index second = 0;
  DraftLimits limits = {};
  Index spares_at(Index d) const {
    return spares.empty() ? 0 : spares[std::min(static_cast<std::size_t>(d), spares.size() - 1)];
  }
};

// How much of the second trunk is among the first nodes, if no row is short of tokens. Nodes are ordered by level, and
// within a level: the trunk, its spares, the second trunk.
Index second_length(const Wanted& wanted) {
  std::vector<bool> is_second;
  for (Index d = 0; d < std::min(std::max(wanted.trunk, wanted.second + 1), wanted.limits.depth); ++d) {
    if (d < wanted.trunk)
      is_second.insert(is_second.end(), static_cast<std::size_t>(1 + wanted.spares_at(d)), false);
    if (d > 0 && d <= wanted.second) is_second.push_back(true);
  }
  const Index most = std::clamp<Index>(wanted.limits.nodes, 0, std::ssize(is_second));
  return std::count(is_second.begin(), is_second.begin() + most, true);
}

// The expected draft, if these tokens were drawn in this order.
KeptTree expected(const TableModel<>& model, const Tokens& context, const Tokens& drawn,
                  const Wanted& wanted) {
  ExpectedTree tree(model, context, drawn);
  const auto full = [&] { return tree.size() >= wanted.limits.nodes; };
  Index last = -1;
  for (Index d = 0; d < std::min(wanted.trunk, wanted.limits.depth) && !full(); ++d) {
    const Index parent = last;
    last = tree.draw(parent);
    Index left = wanted.spares_at(d), spare = -1;
    for (const Token x : by_likelihood(tree.row_behind(parent))) {
      if (x == tree.token(last) || left-- <= 0 || full()) continue;
      const Index chosen = tree.choose(x, parent);
      if (spare < 0) spare = chosen;
    }
    if (d > 0 || spare < 0) continue;
    for (Index n = second_length(wanted); n > 0; --n) spare = tree.draw(spare);
  }
  return tree.tree();
}

// The trunk of a tree: the eldest child, its eldest child, and so on.
Tokens trunk_of(const KeptTree& tree) {
  Tokens trunk;
  for (Index last = -1;;) {
    const auto found = std::ranges::find(tree.parents, last);
    if (found == tree.parents.end()) return trunk;
    last = found - tree.parents.begin();
    trunk.push_back(tree.tokens[static_cast<std::size_t>(last)]);
  }
}

template <class Model>
void check_law(const Wanted& wanted) {
  std::mt19937_64 seed{static_cast<std::uint64_t>(wanted.trunk + 7)};
  const auto table = TableModel<>::random(4, 2, seed);
  const Tokens context{2, 0, 3};
  INFO("trunk " << wanted.trunk << ", second " << wanted.second << ", limits " << wanted.limits.nodes
                << " and " << wanted.limits.depth);
  check_trees(ModelDrafter{Model{table}, Spares{wanted.trunk, wanted.spares, wanted.second}}, context,
              wanted.limits, 4, [&](const Tokens& drawn) { return expected(table, context, drawn, wanted); });
}

}  // namespace

TEST_CASE("the trunk is drawn from its rows, and spares are the likeliest other tokens of these rows") {
  for (const Index trunk : {0, 1, 2, 3})
    for (const Counts& spares : {Counts{}, Counts{0}, Counts{1}, Counts{2, 1}, Counts{0, 3, 1}, Counts{9}})
      check_law<TableModel<>>({trunk, spares});
  check_law<support::StableModel>({3, {2, 1}});
}

TEST_CASE("a second trunk is drawn after the likeliest spare") {
  for (const Index second : {1, 2, 4})
    for (const Counts& spares : {Counts{}, Counts{1, 0}, Counts{2, 1}})
      check_law<TableModel<>>({2, spares, second});
  check_law<TableModel<>>({1, {1}, 3});
  check_law<TableModel<>>({0, {1}, 3});
  check_law<ForgetfulModel>({3, {2, 1}, 2});
}

TEST_CASE("limits first cut the deepest level, there the second trunk, then the unlikeliest spares") {
  for (Index nodes = -1; nodes <= 10; ++nodes)
    for (const Index depth : {Index{-1}, Index{0}, Index{1}, Index{2}, unlimited})
      for (const Index second : {0, 1, 3}) check_law<TableModel<>>({3, {2, 1}, second, {nodes, depth}});
}

namespace {

KeptTree drafted_by(auto& drafter, const Tokens& context, std::uint64_t seed,
                    const DraftLimits& limits = {}) {
  std::mt19937_64 rng{seed};
  return kept(drafter.draft(context, limits, rng), 4);
}

KeptTree fresh(const TableModel<>& table, const Tokens& context, std::uint64_t seed) {
  ModelDrafter drafter{TableModel<>(table), Spares{3, {2, 1}}};
  return drafted_by(drafter, context, seed);
}

}  // namespace

TEST_CASE("the model is fed only the trunks, and only what it has not seen") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 2, rng);
  CountingModel model{table};
  ModelDrafter drafter{model, Spares{3, {2, 1}}};
  const auto fed_by = [&](const Tokens& context, const DraftLimits& limits = {}) {
    const Index before = model.fed;
    drafted_by(drafter, context, 1, limits);
    return model.fed - before;
  };
  CHECK(fed_by({1, 2, 3}) == 3 + 2);  // the context, then all drawn tokens but the last
  drafter.truncate(0);
  CHECK(fed_by({1, 2, 3}, {.depth = 2}) == 3 + 1);
  drafter.truncate(3);
  CHECK(fed_by({1, 2, 3, 0}, {.nodes = 1}) == 1);
  CHECK(fed_by({1, 2, 3, 0}, {.nodes = 0}) == 0);
}

TEST_CASE("if the context goes on with a spare, the model forgets the trunk") {
  std::mt19937_64 rng{2};
  int spares = 0, trunks = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const auto table = coarse_model(4, 3, rng);
    CountingModel model{table};
    ModelDrafter drafter{model, Spares{3, {2, 1}}};
    Tokens text{1, 2, 3};
    for (std::uint64_t step = 0; step < 6; ++step) {
      const KeptTree tree = drafted_by(drafter, text, step);
      REQUIRE(tree == fresh(table, text, step));
      const Index node = static_cast<Index>(rng() % (tree.tokens.size() + 1)) - 1;
      const Tokens trunk = trunk_of(tree);
      const auto before = text.size();
      text = text_before(text, tree.tokens, tree.parents, node);
      const bool on_trunk =
          std::equal(text.begin() + static_cast<std::ptrdiff_t>(before), text.end(), trunk.begin());
      ++(on_trunk ? trunks : spares);
      drafter.truncate(std::ssize(text));  // the text may end with a spare
      text.push_back(static_cast<Token>(rng() % 4));
      model.fed = 0;
      const auto again = drafted_by(drafter, text, step + 10, {.depth = 1});
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
  ModelDrafter drafter{BoundedModel(coarse_model(4, 2, rng), 6), Spares{5, {}}};
  const auto proposed = [&](std::size_t size) {
    drafter.truncate(0);
    return std::ssize(drafter.draft(Tokens(size, 1), {}, rng).tokens);
  };
  CHECK(proposed(2) == 5);
  CHECK(proposed(3) == 4);  // the last token is not fed
  CHECK(proposed(6) == 1);
  CHECK(proposed(7) == 0);
}

TEST_CASE("impossible trunks with spares are named in the error") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 1, rng);
  const auto complaint = [&](Index trunk, const Counts& spares, Index second = 0) {
    return message_of([&] { ModelDrafter(TableModel<>(table), Spares{trunk, spares, second}); });
  };
  CHECK(complaint(4, {2, 1}).empty());
  CHECK(complaint(-1, {}) == "specdec: trunk = -1 is negative");
  CHECK(complaint(unlimited, {}).find("trunk = ") != std::string::npos);
  CHECK(complaint(4, {2, -1}) == "specdec: spares[1] = -1 is outside 0..1048576, the longest draft");
  CHECK(complaint(4, {unlimited}).find("spares[0] = ") != std::string::npos);
  CHECK(complaint(1 << 19, {1}).empty());
  CHECK(complaint(1 << 19, {1}, 1).find("second_trunk = 1 and") != std::string::npos);
  CHECK(complaint(4, {1}, -1) == "specdec: second_trunk = -1 is negative");
  CHECK(complaint(1 << 19, {2, 1}) ==
        "specdec: trunk = 524288, second_trunk = 0 and the spares make more than 1048576 tokens, the longest "
        "draft");
  Eigen::RowVectorXd row(2000);
  row.setZero();
  row[0] = 1;
  row[1999] = std::numeric_limits<double>::quiet_NaN();  // not in the stretch that the draw reads
  ModelDrafter unread{TableModel<>::context_free(row), Spares{2, {1}}};
  CHECK(message_of([&] { unread.draft(Tokens{0}, {}, rng); }) ==
        "specdec: draft row 0: the probability of token 1999 is nan");
}

TEST_CASE("trunks and spares drafted together are those that each sequence gets alone") {
  for (const bool calls_fail : {false, true}) {
    check_company(Spares{3, {2, 1}}, calls_fail);
    check_company(Spares{4, {}}, calls_fail);
  }
  check_company(Spares{4, {1}, 2}, false, 12);
}

namespace {

Bookkeeper uniform_model() {
  return Bookkeeper(TableModel<>::context_free(Eigen::RowVector4d::Constant(0.25)));
}

}  // namespace

TEST_CASE("one token of all trunks is one call") {
  Bookkeeper model = uniform_model();
  ModelDrafter drafter{model, Spares{3, {2, 1}, 2}};
  const Tokens context{1, 2, 3};
  std::vector<SplitMix64> sources{SplitMix64{1}, SplitMix64{2}, SplitMix64{3}};
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 3; ++i)
    requests.push_back({.sequence = static_cast<Index>(i), .context = context, .source = &sources[i]});
  drafter.draft(std::span<Request>(requests));
  CHECK(model.calls == 3 + 2);
  for (Index i = 0; i < 3; ++i) CHECK(drafter.drafted(i).tokens.size() == 3 + 4 + 2);
}

}  // namespace test_draft_strategies_spares
