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

namespace test_draft_suffix_match_tree_drafter {

using namespace specdec;
using namespace support;

static_assert(TreeDrafter<SuffixMatchTreeDrafter>);

namespace {

using Tokens = std::vector<Token>;

// Now and then a stretch of what was said before, so that matches are long.
void grow(Tokens& text, std::mt19937_64& rng, Index tokens) {
  if (text.size() > 20 && uniform01(rng) < 0.2) {
    const auto from = static_cast<std::size_t>(uniform01(rng) * static_cast<double>(text.size() - 10));
    for (std::size_t i = 0; i < 8; ++i) text.push_back(text[from + i]);
  }
  text.push_back(static_cast<Token>(uniform01(rng) * static_cast<double>(tokens)));
}

}  // namespace

TEST_CASE("what followed the longest match comes first, then what followed shorter ones") {
  SuffixMatchTreeDrafter drafter;
  drafter.learn(Tokens{1, 2, 3, 4, 9, 2, 3, 5, 0, 2, 3, 5, 7, 3, 6});
  // Behind "1 2 3" came 4, behind "2 3" also 5, twice, and behind the 3 also 6.
  CHECK(draft_chosen(drafter, Tokens{1, 2, 3}, {.nodes = 3, .depth = 1}) ==
        ChosenTree{{4, 5, 6}, {-1, -1, -1}});
  CHECK(draft_chosen(drafter, Tokens{1, 2, 3}, {.nodes = 3, .depth = 2, .trunk = 2}) ==
        ChosenTree{{4, 9, 5}, {-1, 0, -1}});
  CHECK(draft_chosen(drafter, Tokens{1, 2, 3}, {.nodes = 3, .depth = 0}) == ChosenTree{});
  CHECK(draft_chosen(drafter, Tokens{8}, {.nodes = 3, .depth = 1}) == ChosenTree{});
}

TEST_CASE("trees of suffixes are those of all n-grams, however texts grow, are cut and resumed") {
  std::mt19937_64 rng{3};
  for (const SuffixMatchTreeDrafter::Options& options : {SuffixMatchTreeDrafter::Options{},
                                                         {.max_match = 3},
                                                         {.max_match = 1},
                                                         {.max_match = 9, .min_match = 3}}) {
    SuffixMatchTreeDrafter suffixes{options};
    NgramTreeDrafter ngrams{{.max_ngram = options.max_match, .min_ngram = options.min_match}};
    SuffixDrafter line{{.max_match = options.max_match, .min_match = options.min_match}};
    const Tokens taught{0, 1, 2, 3, 0, 1, 2, 0};
    suffixes.learn(taught);
    ngrams.learn(taught);
    line.learn(taught);
    Tokens context;
    std::size_t branches = 0;
    for (int n = 0; n < 250; ++n) {
      if (n % 41 == 40) {
        context.resize(n % 2 == 0 ? context.size() / 2 : 0);
        suffixes.truncate(std::ssize(context));
        ngrams.truncate(std::ssize(context));
        line.truncate(std::ssize(context));
      }
      for (int more = 1 + n % 3; more > 0; --more) grow(context, rng, 4);
      const TreeLimits limits{.nodes = n % 20, .depth = n % 9, .trunk = n % 4};
      const ChosenTree tree = draft_chosen(suffixes, context, limits);
      REQUIRE(tree == draft_chosen(ngrams, context, limits));
      SplitMix64 none{0};
      const auto proposed = line.draft(context, limits.depth, none).tokens;
      const Tokens path = eldest_path(tree);
      REQUIRE(path.size() <= proposed.size());
      CHECK(std::equal(path.begin(), path.end(), proposed.begin()));
      CHECK(path.size() >= std::min({proposed.size(), static_cast<std::size_t>(limits.trunk),
                                     static_cast<std::size_t>(limits.nodes)}));
      branches += tree.tokens.size() - path.size();
    }
    CHECK(branches > 100);
    CHECK(suffixes.states() == line.states());
    suffixes.clear();
    CHECK(suffixes.occurrences(Tokens{0, 1}) == 0);
    CHECK(draft_chosen(suffixes, Tokens{0, 1}, {.nodes = 9, .depth = 3}) == ChosenTree{});
  }
}

TEST_CASE("a loop over trees of suffixes writes what the target writes") {
  std::mt19937_64 rng{6};
  for (int n = 0; n < 12; ++n) {
    auto target = testing::TableModel<>::random(3, 2, rng);
    const Tokens prompt{0, 1, 2, 0, 2, 1, 0, 1};
    const Options options{.max_new_tokens = 5, .gamma = 6};
    SuffixMatchTreeDrafter drafter;
    SpecDec decoder{target, drafter, TrunkAndSpares<SampleMatchVerifier>{}};
    const auto written = testing::enumerate_generate(decoder, prompt, options);
    CHECK(testing::largest_difference(written.law, testing::target_law(target, prompt, options)).size <
          1e-12);
    CHECK(written.accepted > 0);
  }
}

TEST_CASE("what trees of suffixes cannot do is named") {
  const auto said = [](const SuffixMatchTreeDrafter::Options& options) {
    return message_of([&] { SuffixMatchTreeDrafter{options}; });
  };
  CHECK(said({.max_match = 1, .min_match = 2}) ==
        "specdec: suffix drafter needs 1 <= min_match <= max_match, not min_match = 2, max_match = 1");
  CHECK(said({.min_match = 0}).find("min_match = 0") != std::string::npos);
}

}  // namespace test_draft_suffix_match_tree_drafter
