// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <specdec/more/drafters/datastore_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_trees.hpp"
#include "support/message_of.hpp"
#include "support/propose.hpp"

namespace test_draft_datastore_drafter {

using namespace specdec;
using support::draft_chosen;
using support::message_of;
using support::propose;
using Tokens = std::vector<Token>;

static_assert(OneTextDrafter<DatastoreDrafter<>> && !drafts_trees<DatastoreDrafter<>>);
static_assert(OneTextDrafter<DatastoreDrafter<Branching>> && drafts_trees<DatastoreDrafter<Branching>>);

namespace {

// Documents, and a store of them.
struct Library {
  std::vector<Tokens> documents;
  Tokens text = {};
  std::vector<std::uint32_t> order = {};

  explicit Library(std::vector<Tokens> all) : documents(std::move(all)) {
    for (const Tokens& document : documents) {
      text.insert(text.end(), document.begin(), document.end());
      text.push_back(Datastore::separator);
    }
    order = Datastore::sorted(text);
  }
  Datastore store() const { return {text, order}; }
};

Library random_library(std::mt19937_64& rng) {
  std::vector<Tokens> documents(1 + rng() % 3);
  for (Tokens& document : documents)
    for (std::size_t k = 0; k < 40; ++k) document.push_back(static_cast<Token>(rng() % 3));
  return Library(documents);
}

}  // namespace

TEST_CASE("a datastore drafter proposes what followed the longest match most often") {
  const Library library({{7, 1, 2, 3, 4}, {8, 1, 2, 5, 6}, {9, 1, 2, 5, 0}});
  DatastoreDrafter drafter{library.store(), {.min_match = 1}};
  CHECK(propose(drafter, Tokens{7, 1, 2}, 2) == Tokens{3, 4});
  CHECK(propose(drafter, Tokens{0, 1, 2}, 1) == Tokens{5});        // two of three times
  CHECK(propose(drafter, Tokens{8, 1, 2}, 9) == Tokens{5, 6});     // nothing followed 6
  CHECK(propose(drafter, Tokens{4, 8}, 9) == Tokens{1, 2, 5, 6});  // no match reaches into another document
  CHECK(propose(drafter, Tokens{3}, 0).empty());
  CHECK(propose(drafter, Tokens{}, 3).empty());
  DatastoreDrafter strict{library.store(), {.min_match = 2, .min_share = 0.7}};
  CHECK(propose(strict, Tokens{3, 8}, 3).empty());
  CHECK(propose(strict, Tokens{1, 2}, 3).empty());  // 5 has two thirds
  CHECK(propose(strict, Tokens{8, 1}, 9) == Tokens{2, 5, 6});
  DatastoreDrafter unanimous{library.store(), {.min_match = 2, .min_share = 1}};
  CHECK(propose(unanimous, Tokens{3, 8, 1}, 9) == Tokens{2, 5, 6});
  CHECK(propose(unanimous, Tokens{1, 2}, 9).empty());
}

TEST_CASE("lines and trees of a datastore are those of a scan of its documents") {
  std::mt19937_64 rng{1};
  for (int k = 0; k < 40; ++k) {
    const Library library = random_library(rng);
    const Index min_match = 1 + k % 2, max_match = min_match + k % 4;
    support::ScannedTexts counted(library.documents, min_match, max_match);
    counted.lowest_first();
    DatastoreDrafter<Branching> drafter{library.store(), {.max_match = max_match, .min_match = min_match}};
    DatastoreDrafter<> line{library.store(), {.max_match = max_match, .min_match = min_match}};
    for (int n = 0; n < 4; ++n) {
      Tokens context;
      for (int i = 0; i < n + 2; ++i) context.push_back(static_cast<Token>(rng() % 3));
      const DraftLimits limits{.nodes = 1 + 3 * n, .depth = 1 + n};
      const auto tree = draft_chosen(drafter, context, limits);
      CHECK(tree == support::CountedTreeByDefinition(counted, context, limits).tree());
      const Tokens path = support::eldest_path(tree), proposed = propose(line, context, 5);
      CHECK(path.size() <= proposed.size());
      CHECK(std::equal(path.begin(), path.end(), proposed.begin()));
    }
  }
}

TEST_CASE("with drafts from a datastore the text keeps the target's law, in lines and in trees") {
  std::mt19937_64 rng{2};
  const auto target = testing::TableModel<>::random(3, 2, rng);
  const Library library = random_library(rng);
  const Tokens prompt{0, 1};
  const Options options{.max_new_tokens = 4, .gamma = 3};
  const testing::Law expected = testing::target_law(target, prompt, options);
  SpecDec line{testing::TableModel<>(target), DatastoreDrafter{library.store(), {.min_match = 1}}};
  CHECK(testing::largest_difference(testing::exact_generate(line, prompt, options).law, expected).size <
        1e-12);
  SpecDec tree{testing::TableModel<>(target),
               DatastoreDrafter{library.store(), {.min_match = 1}, Branching{}},
               TrunkAndSpares<SampleMatchVerifier>{}};
  CHECK(testing::largest_difference(testing::exact_generate(tree, prompt, options).law, expected).size <
        1e-12);
}

TEST_CASE("with a wrong order drafts are useless, and drafts nevertheless") {
  std::mt19937_64 rng{3};
  for (int k = 0; k < 200; ++k) {
    Library library = random_library(rng);
    for (int swaps = 1 + k % 40; swaps > 0; --swaps)
      std::swap(library.order[rng() % library.order.size()], library.order[rng() % library.order.size()]);
    DatastoreDrafter<Branching> tree{library.store(), {.max_match = 4, .min_match = 1}};
    DatastoreDrafter<> line{library.store(), {.max_match = 4, .min_match = 1}};
    for (int n = 0; n < 8; ++n) {
      Tokens context;
      for (int i = 0; i < n; ++i) context.push_back(static_cast<Token>(rng() % 3));
      const DraftLimits limits{.nodes = 12, .depth = 4};
      const auto [tokens, parents] = draft_chosen(tree, context, limits);
      CHECK(tokens.size() <= 12);
      std::set<std::pair<Index, Token>> children;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        CHECK((tokens[i] >= 0 && tokens[i] < 3));
        CHECK(children.emplace(parents[i], tokens[i]).second);
      }
      for (const Token x : propose(line, context, 6)) CHECK((x >= 0 && x < 3));
    }
  }
}

TEST_CASE("options of a datastore drafter are checked") {
  const Datastore store;
  const auto error = [&](const DatastoreDrafter<>::Options& options) {
    return message_of([&] { DatastoreDrafter<>{store, options}; });
  };
  CHECK(error({}).empty());
  CHECK(
      error({.min_match = 0}) ==
      "specdec: datastore drafter needs 1 <= min_match <= max_match < 64, not min_match = 0, max_match = 16");
  CHECK(
      error({.max_match = 1}) ==
      "specdec: datastore drafter needs 1 <= min_match <= max_match < 64, not min_match = 2, max_match = 1");
  CHECK(
      error({.max_match = 64}) ==
      "specdec: datastore drafter needs 1 <= min_match <= max_match < 64, not min_match = 2, max_match = 64");
  CHECK(error({.min_share = 1.5}) ==
        "specdec: datastore drafter needs 0 <= min_share <= 1, not min_share = 1.5");
}

}  // namespace test_draft_datastore_drafter
