#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/company.hpp"
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

template <class Siblings>
void check(const TreeShape& shape, const Siblings& siblings, bool calls_fail, Index most = unlimited) {
  check_company(
      [&]<class M>(M& model) {
        return BatchModelTreeDrafter<M&, Siblings>{model, shape, siblings};
      },
      [&]<class M>(M& model) {
        return ModelTreeDrafter<M&, Siblings>{model, shape, siblings};
      },
      calls_fail, most);
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
      check(shape, WithoutReplacement{}, calls_fail);
    check(bushy, Independent{}, calls_fail);
    check(uneven, Likeliest{}, calls_fail);
  }
  check(bushy, WithoutReplacement{}, false, 12);
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

TEST_CASE("a tree that has failed does not grow any more") {
  Bookkeeper model(TableModel<>::context_free(Eigen::RowVector4d::Constant(0.25)));
  model.spoils_behind = 2;
  BatchModelTreeDrafter drafter{model, TreeShape::of_widths({4, 1, 1}), Likeliest{}};
  const Tokens context{1};
  SplitMix64 source{1};
  std::vector<Request> requests(1, {.context = context, .source = &source});
  drafter.draft(std::span<Request>(requests));
  CHECK(requests[0].error);
  CHECK(model.calls == 2);
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
