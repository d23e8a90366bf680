#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_prompt_lookup_tree {

using namespace specdec;
using support::message_of;

static_assert(TreeDrafter<PromptLookupTreeDrafter>);

namespace {

struct Tree {
  std::vector<Token> tokens;
  std::vector<Index> parents;
  friend bool operator==(const Tree&, const Tree&) = default;
};

Tree propose(PromptLookupTreeDrafter& drafter, std::span<const Token> context, const TreeLimits& limits) {
  std::mt19937_64 rng;
  const auto draft = drafter.draft(context, limits, rng);
  CHECK(draft.rows.rows() == std::ssize(draft.tokens));
  return {{draft.tokens.begin(), draft.tokens.end()}, {draft.parents.begin(), draft.parents.end()}};
}

// The definition, by scanning: the paths, then a token of each in turn.
Tree by_scanning(const std::vector<Token>& c, const PromptLookupTreeDrafter::Options& options,
                 const TreeLimits& limits) {
  const Index size = std::ssize(c);
  const auto at = [&](Index i) { return c[static_cast<std::size_t>(i)]; };
  std::vector<std::pair<Index, Index>> found;  // match, end
  for (Index end = size - 1; end >= options.min_ngram && std::ssize(found) < options.occurrences; --end) {
    Index match = 0;
    while (match < std::min(options.max_ngram, end) && at(end - 1 - match) == at(size - 1 - match)) ++match;
    if (match >= options.min_ngram) found.emplace_back(match, end);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (std::ssize(found) > options.paths) found.resize(static_cast<std::size_t>(options.paths));
  Tree tree;
  std::vector<Index> nodes(found.size(), -1);
  std::vector<bool> ended(found.size(), false);
  for (Index depth = 0; depth < limits.depth; ++depth)
    for (std::size_t i = 0; i < found.size(); ++i) {
      ended[i] = ended[i] || found[i].second + depth >= size;
      if (ended[i]) continue;
      const Token x = at(found[i].second + depth);
      Index node = -1;
      for (std::size_t k = 0; k < tree.tokens.size(); ++k)
        if (tree.parents[k] == nodes[i] && tree.tokens[k] == x) node = static_cast<Index>(k);
      if (node < 0 && std::ssize(tree.tokens) < limits.nodes) {
        node = std::ssize(tree.tokens);
        tree.tokens.push_back(x);
        tree.parents.push_back(nodes[i]);
      }
      ended[i] = node < 0;
      nodes[i] = node;
    }
  return tree;
}

}  // namespace

TEST_CASE("prompt lookup proposes what followed several occurrences, as one tree") {
  PromptLookupTreeDrafter lookup{{.max_ngram = 3, .min_ngram = 1, .paths = 3}};
  // "1 2" was followed by 3 4, by 3 5 and by 6 7; the 2 alone by 8.
  const std::vector<Token> context{1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 6, 7, 9, 2, 8, 1, 2};
  CHECK(propose(lookup, context, {.nodes = 16, .depth = 2}) == Tree{{6, 3, 7, 5, 4}, {-1, -1, 0, 1, 1}});
  CHECK(propose(lookup, context, {.nodes = 3, .depth = 2}) == Tree{{6, 3, 7}, {-1, -1, 0}});
  CHECK(propose(lookup, context, {.nodes = 16, .depth = 0}) == Tree{});
  CHECK(propose(lookup, std::vector<Token>{1, 2, 3}, {.nodes = 16, .depth = 2}) == Tree{});
}

TEST_CASE("trees of prompt lookup are those of its definition, however the text grows and is cut") {
  std::mt19937_64 rng{3};
  for (const PromptLookupTreeDrafter::Options& options :
       {PromptLookupTreeDrafter::Options{},
        {.max_ngram = 3, .min_ngram = 2, .paths = 2, .occurrences = 5},
        {.max_ngram = 1, .min_ngram = 1, .paths = 9, .occurrences = 3}}) {
    PromptLookupTreeDrafter lookup{options};
    std::vector<Token> context;
    for (int n = 0; n < 400; ++n) {
      if (n % 37 == 36) {
        context.resize(context.size() / 2);
        lookup.truncate(std::ssize(context));
      }
      for (int more = 1 + n % 3; more > 0; --more) context.push_back(static_cast<Token>(uniform01(rng) * 4));
      const TreeLimits limits{.nodes = n % 20, .depth = n % 7};
      CHECK(propose(lookup, context, limits) == by_scanning(context, options, limits));
    }
  }
}

TEST_CASE("a loop over trees of prompt lookup writes what the target writes") {
  std::mt19937_64 rng{5};
  for (int n = 0; n < 20; ++n) {
    auto target = testing::TableModel<>::random(3, 2, rng);
    SpecDec decoder{target, PromptLookupTreeDrafter{{.paths = 3}}, TrunkAndSpares<SampleMatchVerifier>{}};
    const std::vector<Token> prompt{0, 1, 2, 0, 2, 1, 0, 1};
    const Options options{.max_new_tokens = 5, .gamma = 6};
    const auto written = testing::enumerate_generate(decoder, prompt, options);
    CHECK(testing::largest_difference(written.law, testing::target_law(target, prompt, options)).size <
          1e-12);
    CHECK(written.accepted > 0);
  }
}

TEST_CASE("what lookups of trees cannot do is named") {
  const auto said = [](const PromptLookupTreeDrafter::Options& options) {
    return message_of([&] { PromptLookupTreeDrafter{options}; });
  };
  CHECK(said({.max_ngram = 1, .min_ngram = 2}) ==
        "specdec: prompt lookup needs 1 <= min_ngram <= max_ngram <= 512, not min_ngram = 2, max_ngram = 1");
  CHECK(said({.max_ngram = 513}).find("max_ngram = 513") != std::string::npos);
  CHECK(said({.min_ngram = 0}).find("min_ngram = 0, max_ngram = 4") != std::string::npos);
  CHECK(said({.paths = 0}) == "specdec: paths = 0 is outside 1..1024");
  CHECK(said({.occurrences = 1025}) == "specdec: occurrences = 1025 is outside 1..1024");
}

}  // namespace test_draft_prompt_lookup_tree
