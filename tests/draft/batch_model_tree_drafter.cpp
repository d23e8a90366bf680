#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace test_draft_batch_model_tree_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;
using Request = TreeDraftRequest<SplitMix64>;
using Books = BatchModelTreeDrafter<Bookkeeper&, WithoutReplacement>;

static_assert(BatchTreeDrafter<Books> && !BatchDrafter<Books>, "it drafts trees, not lines");
static_assert(!BatchTreeDrafter<BatchModelDrafter<Bookkeeper>>);
static_assert(BatchTreeDrafter<BatchModelTreeDrafter<ModelPerSequence<TableModel<>>, Likeliest>>);

// A sequence, and the drafter that it would have alone.
template <class Siblings>
struct Alone {
  WatchedTreeModel model;
  ModelTreeDrafter<WatchedTreeModel&, Siblings> drafter;
  Tokens text;

  Alone(const TableModel<>& table, Index most, const TreeShape& shape, const Siblings& siblings,
        Tokens prompt)
      : model(table, most), drafter(model, shape, siblings), text(std::move(prompt)) {}
};

// Sequences come and go, and some of them ask for trees; calls fail, and are tried again with the luck they had. Each tree
// is what it is alone, and so is what the model is fed where no call fails.
template <class Siblings>
void check_company(const TreeShape& shape, const Siblings& siblings, bool calls_fail,
                   Index most = unlimited) {
  std::mt19937_64 rng{21};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); };
  const auto table = coarse_model(4, 3, rng);
  Bookkeeper model(table, most);
  BatchModelTreeDrafter drafter{model, shape, siblings};
  std::map<Index, std::unique_ptr<Alone<Siblings>>> sequences;
  Index next = 0, gone = 0, fed_to_gone = 0, trees = 0;
  for (int step = 0; step < 150; ++step) {
    if (sequences.size() < 5 && below(3) == 0)
      sequences[next++] = std::make_unique<Alone<Siblings>>(
          table, most, shape, siblings, Tokens(static_cast<std::size_t>(1 + below(5)), 2));
    if (!sequences.empty() && below(12) == 0) {
      const auto leaves = std::next(sequences.begin(), below(std::ssize(sequences)));
      fed_to_gone += leaves->second->model.fed;
      drafter.release(leaves->first);
      CHECK_FALSE(model.contexts.contains(leaves->first));
      sequences.erase(leaves);
      ++gone;
    }
    std::vector<Request> requests;
    std::vector<SplitMix64> sources;
    const std::uint64_t seed = rng();
    for (const auto& [number, sequence] : sequences)
      if (below(4) > 0)
        requests.push_back({.sequence = number,
                            .context = sequence->text,
                            .limits = {.nodes = below(12), .depth = 1 + below(4)}});
    bool drafted = false, again = true;
    while (!drafted && again) {
      sources.clear();
      for (const Request& request : requests)
        sources.emplace_back(seed + static_cast<std::uint64_t>(request.sequence));
      for (std::size_t i = 0; i < requests.size(); ++i) requests[i].source = &sources[i];
      if (calls_fail) {
        model.fails_at = model.calls + 1 + below(6);
        model.fails_behind = model.calls + 1 + below(6);
        model.one_row_short_at = model.calls + 1 + below(6);
      }
      try {
        drafter.draft(std::span<Request>(requests));
        drafted = true;
      } catch (const Bookkeeper::Failure&) {
      } catch (const std::invalid_argument&) {
      }
      again = below(3) > 0;  // or others are asked for
    }
    if (!drafted) continue;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      REQUIRE_FALSE(request.error);
      Alone<Siblings>& own = *sequences.at(request.sequence);
      SplitMix64 source(seed + static_cast<std::uint64_t>(request.sequence));
      const KeptTree tree = kept(drafter.drafted(request.sequence), 4);
      REQUIRE(tree == kept(own.drafter.draft(own.text, request.limits, source), 4));
      REQUIRE(source() == sources[i]());
      trees += tree.tokens.size() > 1;
      const Index node = below(std::ssize(tree.tokens) + 1) - 1;
      own.text = text_before(own.text, tree.tokens, tree.parents, node);
      own.drafter.truncate(std::ssize(own.text));
      drafter.keep(request.sequence, std::ssize(own.text));
      own.text.push_back(static_cast<Token>(below(5)));  // which may be a token that the model does not know
    }
  }
  CHECK(gone > 2);
  CHECK(trees > (most == unlimited ? 50 : 10));
  CHECK((model.failures > 20) == calls_fail);
  if (calls_fail) return;
  for (const auto& [number, sequence] : sequences) fed_to_gone += sequence->model.fed;
  CHECK(model.fed == fed_to_gone);
}

Tokens tokens_of(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

// A model of the row 1/4, 1/4, 1/4, 1/4 whose rows are too short for one of its sequences.
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

TEST_CASE("trees that are drafted together are those that each sequence would get alone") {
  const TreeShape bushy = TreeShape::of_widths({3, 2, 1}), uneven{-1, 0, 0, -1, 1, 2, 4};
  for (const bool calls_fail : {false, true}) {
    for (const TreeShape& shape : {bushy, uneven, TreeShape::linear(4)})
      check_company(shape, WithoutReplacement{}, calls_fail);
    check_company(bushy, Independent{}, calls_fail);
    check_company(uneven, Likeliest{}, calls_fail);
  }
  check_company(bushy, WithoutReplacement{}, false, 12);
}

TEST_CASE("a level of all trees is one call") {
  Bookkeeper model(TableModel<>::context_free(Eigen::RowVector4d::Constant(0.25)));
  Books drafter{model, TreeShape::of_widths({2, 2, 1}), WithoutReplacement{}};
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

TEST_CASE(
    "a row that holds no distribution, or is of another size, costs its own tree, and so does an empty "
    "context") {
  std::mt19937_64 rng{4};
  const auto table = coarse_model(4, 2, rng);
  Bookkeeper model(table);
  const TreeShape shape = TreeShape::of_widths({2, 1});
  Books drafter{model, shape, WithoutReplacement{}};
  const Tokens context{1, 2}, none;
  const auto drafted_by = [&](auto& many) {
    std::vector<SplitMix64> sources(3, SplitMix64{7});
    std::vector<Request> requests;
    for (std::size_t i = 0; i < 3; ++i)
      requests.push_back(
          {.sequence = static_cast<Index>(i), .context = i == 2 ? none : context, .source = &sources[i]});
    many.draft(std::span<Request>(requests));
    return requests;
  };
  const auto said = [](const std::exception_ptr& error) {
    return message_of<std::exception>([&] { std::rethrow_exception(error); });
  };
  model.spoils = 1;
  for (int again = 0; again < 2; ++again) {
    const auto requests = drafted_by(drafter);
    CHECK_FALSE(requests[0].error);
    SplitMix64 source{7};
    ModelTreeDrafter alone{TableModel<>(table), shape, WithoutReplacement{}};
    CHECK(kept(drafter.drafted(0), 4) == kept(alone.draft(context, {}, source), 4));
    REQUIRE(requests[1].error);
    CHECK(said(requests[1].error) == "specdec: draft row 0: probabilities of tokens 0..3 sum to nan");
    REQUIRE(requests[2].error);
    CHECK(said(requests[2].error) == "specdec: context is empty: there is nothing to continue");
  }
  model.spoils = -1;
  CHECK_FALSE(drafted_by(drafter)[1].error);
  BatchModelTreeDrafter short_rows{ShortOfTokens(), shape, Likeliest{}};
  const auto requests = drafted_by(short_rows);
  CHECK_FALSE(requests[0].error);
  CHECK(tokens_of(short_rows.drafted(0).tokens) == Tokens{0, 1, 0, 0});
  REQUIRE(requests[1].error);
  CHECK(said(requests[1].error) ==
        "specdec: the draft model returned 2 rows over 3 tokens, expected 2 rows over its vocabulary of 4");
}

TEST_CASE("a policy chooses the shape of all trees that are drafted together") {
  struct Policy {
    const TreeShape& shape() const { return now; }
    TreeShape now;
  };
  Policy policy{TreeShape::linear(2)};
  std::mt19937_64 rng{5};
  BatchModelTreeDrafter drafter{ModelPerSequence{coarse_model(4, 2, rng)}, std::cref(policy), Likeliest{}};
  const Tokens context{1};
  SplitMix64 source{1};
  std::vector<Request> requests(1, {.context = context, .source = &source});
  drafter.draft(std::span<Request>(requests));
  CHECK(drafter.drafted(0).tokens.size() == 2);
  policy.now = TreeShape::of_widths({2, 1});
  drafter.draft(std::span<Request>(requests));
  CHECK(drafter.drafted(0).tokens.size() == 4);
  CHECK(drafter.shape() == policy.now);
}

}  // namespace test_draft_batch_model_tree_drafter
