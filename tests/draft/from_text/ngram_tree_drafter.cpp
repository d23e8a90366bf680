#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/likely_trees.hpp"
#include "support/message_of.hpp"

namespace test_draft_ngram_tree_drafter {

using namespace specdec;
using namespace support;

static_assert(TreeDrafter<NgramTreeDrafter>);

namespace {

using Tokens = std::vector<Token>;

Tokens line(NgramTableDrafter& drafter, const Tokens& context, Index gamma) {
  SplitMix64 none{0};
  const auto draft = drafter.draft(context, gamma, none);
  return {draft.tokens.begin(), draft.tokens.end()};
}

// The path of eldest children is the beginning of the line.
bool begins(const Tokens& line, const ChosenTree& tree) {
  const Tokens path = eldest_path(tree);
  return path.size() <= line.size() && std::equal(path.begin(), path.end(), line.begin());
}

Token random_token(std::mt19937_64& rng, Index tokens) {
  return static_cast<Token>(uniform01(rng) * static_cast<double>(tokens));
}

}  // namespace

TEST_CASE("what followed an n-gram most often comes first, then what followed less often or less of it") {
  NgramTreeDrafter drafter{{.max_ngram = 2, .online = false}};
  drafter.learn(Tokens{1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 6, 0, 2, 7});
  const Tokens context{8, 1, 2};
  CHECK(draft_chosen(drafter, context, {.nodes = 2, .depth = 1}) == ChosenTree{{3, 6}, {-1, -1}});
  CHECK(draft_chosen(drafter, context, {.nodes = 4, .depth = 2}) ==
        ChosenTree{{3, 6, 7, 5}, {-1, -1, -1, 0}});
  CHECK(draft_chosen(drafter, context, {.nodes = 4, .depth = 2, .trunk = 2}) ==
        ChosenTree{{3, 5, 6, 7}, {-1, 0, -1, -1}});
  CHECK(draft_chosen(drafter, Tokens{8}, {.nodes = 4, .depth = 2}) == ChosenTree{});
  CHECK(draft_chosen(drafter, Tokens{}, {.nodes = 4, .depth = 2}) == ChosenTree{});
  SplitMix64 none{0};
  CHECK(drafter.draft(context, {.nodes = 4, .depth = 2}, none).rows.rows() == 4);
}

TEST_CASE("trees of n-grams are those of the definition") {
  std::mt19937_64 rng{1};
  for (const NgramTreeDrafter::Options& options : {NgramTreeDrafter::Options{},
                                                   {.max_ngram = 4, .min_ngram = 2},
                                                   {.max_ngram = 1},
                                                   {.max_ngram = 5, .min_count = 2}}) {
    NgramTreeDrafter drafter{options};
    Tokens context;
    for (int n = 0; n < 60; ++n) {
      for (int more = 1 + n % 3; more > 0; --more) context.push_back(random_token(rng, 4));
      const TreeLimits limits{.nodes = n % 20, .depth = n % 7, .trunk = n % 5};
      const ScannedTexts counted({context}, options.min_ngram, options.max_ngram, options.min_count);
      CHECK(draft_chosen(drafter, context, limits) ==
            LikelyTreeByDefinition(counted, context, limits).tree());
    }
  }
}

TEST_CASE("a tree of n-grams learns what the line learns, however texts grow, are cut and resumed") {
  std::mt19937_64 rng{2};
  NgramTreeDrafter tree;
  NgramTableDrafter table;
  Tokens context;
  Index branches = 0;
  for (int n = 0; n < 400; ++n) {
    if (n % 29 == 28) {
      context.resize(context.size() / 2);
      tree.truncate(std::ssize(context));
      table.truncate(std::ssize(context));
    }
    if (n % 97 == 96) {
      context.assign(3, 1);
      tree.truncate(0);
      table.truncate(0);
    }
    if (n == 200) {
      tree.clear();
      table.clear();
    }
    for (int more = 1 + n % 3; more > 0; --more) context.push_back(random_token(rng, 5));
    const Tokens proposed = line(table, context, 8);
    const ChosenTree drafted = draft_chosen(tree, context, {.nodes = 9, .depth = 8});
    CHECK(begins(proposed, drafted));
    CHECK(eldest_path(draft_chosen(tree, context, {.nodes = 9, .depth = 8, .trunk = 8})) == proposed);
    CHECK(tree.size() == table.size());
    branches += std::ssize(drafted.tokens) - std::ssize(eldest_path(drafted));
  }
  CHECK(branches > 400);
  CHECK(tree.occurrences(Tokens{1, 1}) == table.occurrences(Tokens{1, 1}));
}

TEST_CASE("a loop over trees of n-grams writes what the target writes") {
  std::mt19937_64 rng{5};
  for (int n = 0; n < 12; ++n) {
    auto target = testing::TableModel<>::random(3, 2, rng);
    const Tokens prompt{0, 1, 2, 0, 2, 1, 0, 1};
    const Options options{.max_new_tokens = 5, .gamma = 6};
    NgramTreeDrafter drafter{{.max_ngram = 2}};
    SpecDec decoder{target, drafter, TrunkAndSpares<SampleMatchVerifier>{}};
    const auto written = testing::enumerate_generate(decoder, prompt, options);
    CHECK(testing::largest_difference(written.law, testing::target_law(target, prompt, options)).size <
          1e-12);
    CHECK(written.accepted > 0);
  }
}

TEST_CASE("what trees of n-grams cannot do is named") {
  const auto said = [](const NgramTreeDrafter::Options& options) {
    return message_of([&] { NgramTreeDrafter{options}; });
  };
  CHECK(said({.max_ngram = 1, .min_ngram = 2}) ==
        "specdec: n-gram table needs 1 <= min_ngram <= max_ngram <= 512, not min_ngram = 2, max_ngram = 1");
  CHECK(said({.min_count = 0}) == "specdec: n-gram table needs min_count >= 1, not min_count = 0");
}

}  // namespace test_draft_ngram_tree_drafter
