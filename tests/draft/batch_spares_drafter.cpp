#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/company.hpp"
#include "support/message_of.hpp"

namespace test_draft_batch_spares_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;
using Request = TreeDraftRequest<SplitMix64>;

static_assert(BatchTreeDrafter<BatchSparesDrafter<Bookkeeper&>>);
static_assert(!BatchDrafter<BatchSparesDrafter<Bookkeeper&>>, "it drafts trees, not lines");

void check(Index trunk, const std::vector<Index>& spares, Index second, bool calls_fail,
           Index most = unlimited) {
  check_company(
      [&]<class M>(M& model) {
        return BatchSparesDrafter<M&>{model, trunk, spares, second};
      },
      [&]<class M>(M& model) {
        return SparesDrafter<M&>{model, trunk, spares, second};
      },
      calls_fail, most);
}

Bookkeeper uniform_model() {
  return Bookkeeper(TableModel<>::context_free(Eigen::RowVector4d::Constant(0.25)));
}

}  // namespace

TEST_CASE("trunks and spares that are drafted together are those that each sequence would get alone") {
  for (const bool calls_fail : {false, true}) {
    check(3, {2, 1}, 0, calls_fail);
    check(3, {2, 1}, 2, calls_fail);
    check(4, {}, 0, calls_fail);
  }
  check(4, {1}, 2, false, 12);
}

TEST_CASE("a token of all trunks is one call") {
  Bookkeeper model = uniform_model();
  BatchSparesDrafter drafter{model, 3, {2, 1}, 2};
  const Tokens context{1, 2, 3};
  std::vector<SplitMix64> sources{SplitMix64{1}, SplitMix64{2}, SplitMix64{3}};
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 3; ++i)
    requests.push_back({.sequence = static_cast<Index>(i), .context = context, .source = &sources[i]});
  drafter.draft(std::span<Request>(requests));
  CHECK(model.calls == 3 + 2);
  for (Index i = 0; i < 3; ++i) CHECK(drafter.drafted(i).tokens.size() == 3 + 4 + 2);
}

TEST_CASE("a row that holds no distribution costs its own trunk, and so does an empty context") {
  Bookkeeper model = uniform_model();
  BatchSparesDrafter drafter{model, 2, {1}};
  const Tokens context{1, 2}, none;
  model.spoils = 1;
  for (int again = 0; again < 2; ++again) {
    std::vector<SplitMix64> sources(3, SplitMix64{7});
    std::vector<Request> requests;
    for (std::size_t i = 0; i < 3; ++i)
      requests.push_back(
          {.sequence = static_cast<Index>(i), .context = i == 2 ? none : context, .source = &sources[i]});
    drafter.draft(std::span<Request>(requests));
    CHECK_FALSE(requests[0].error);
    CHECK(drafter.drafted(0).tokens.size() == 4);
    const auto said = [](const std::exception_ptr& error) {
      return message_of<std::exception>([&] { std::rethrow_exception(error); });
    };
    REQUIRE(requests[1].error);
    CHECK(said(requests[1].error) == "specdec: draft row 0: probabilities of tokens 0..3 sum to nan");
    REQUIRE(requests[2].error);
    CHECK(said(requests[2].error) == "specdec: context is empty: there is nothing to continue");
  }
  CHECK(message_of([&] { BatchSparesDrafter(model, -1, {}); }) == "specdec: trunk = -1 is negative");
}

TEST_CASE("a policy chooses trunk and spares of all sequences") {
  struct Policy {
    const TreeShape& shape() const { return now; }
    TreeShape now;
  };
  Policy policy{TreeShape::linear(2)};
  Bookkeeper model = uniform_model();
  BatchSparesDrafter drafter{model, std::cref(policy)};
  const Tokens context{1};
  SplitMix64 source{1};
  std::vector<Request> requests(1, {.context = context, .source = &source});
  drafter.draft(std::span<Request>(requests));
  CHECK(drafter.drafted(0).tokens.size() == 2);
  policy.now = TreeShape{-1, -1, 0};
  drafter.draft(std::span<Request>(requests));
  CHECK(drafter.drafted(0).tokens.size() == 3);
}

}  // namespace test_draft_batch_spares_drafter
