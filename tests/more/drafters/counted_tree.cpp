// SPDX-License-Identifier: MIT
#include "specdec/more/drafters/counted_tree.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/counted_trees.hpp"

namespace test_draft_counted_tree {

using namespace specdec;
using namespace support;

namespace {

ChosenTree grown(ScannedTexts& counted, std::span<const Token> context, const DraftLimits& limits) {
  detail::CountedTree<ScannedTexts> tree;
  counted.begin(context);
  return chosen_tree(tree.grow(counted, limits));
}

std::vector<Token> random_text(std::size_t size, Index tokens, std::mt19937_64& rng) {
  std::vector<Token> text;
  while (text.size() < size) {
    // Often repeats the token three places before, so that there are matches of many lengths.
    const bool again = text.size() > 3 && uniform01(rng) < 0.6;
    text.push_back(again ? text[text.size() - 3]
                         : static_cast<Token>(uniform01(rng) * static_cast<double>(tokens)));
  }
  return text;
}

}  // namespace

TEST_CASE("continuations share a match, and shorter matches share what is left") {
  // After "1 2" came 3 twice and 4 once: 1.5/3 and 0.5/3. After the 2 alone also came 5: 1 of 1, so it gets half of
  // the third that is left.
  ScannedTexts counted({{1, 2, 3, 9, 1, 2, 4, 8, 1, 2, 3, 7, 0, 2, 5}}, 1, 2);
  const std::vector<Token> context{1, 2};
  CHECK(grown(counted, context, {.nodes = 3, .depth = 1}) == ChosenTree{{3, 4, 5}, {-1, -1, -1}});
  CHECK(grown(counted, context, {.nodes = 2, .depth = 1}) == ChosenTree{{3, 4}, {-1, -1}});
  // After "2 3" both 7 and 9 came once: each gets a quarter of a half. That is more than the sixth of 5.
  CHECK(grown(counted, context, {.nodes = 5, .depth = 2}) == ChosenTree{{3, 4, 5, 7, 9}, {-1, -1, -1, 0, 0}});
  CHECK(grown(counted, context, {.nodes = 5, .depth = 0}) == ChosenTree{});
  CHECK(grown(counted, context, {.nodes = -1, .depth = 3}) == ChosenTree{});
  CHECK(grown(counted, std::vector<Token>{6}, {.nodes = 5, .depth = 3}) == ChosenTree{});
}

TEST_CASE("an eldest child is the token with which a line goes on, even if its siblings are more probable") {
  // After "1 2" came four tokens once, the last of them 6. After 2 alone 9 came five times more.
  ScannedTexts counted({{1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 2, 6, 2, 9, 2, 9, 2, 9, 2, 9, 2, 9, 0}}, 1, 2);
  CHECK(grown(counted, std::vector<Token>{1, 2}, {.nodes = 3, .depth = 1}) ==
        ChosenTree{{6, 9, 3}, {-1, -1, -1}});
}

TEST_CASE("trees of the likeliest continuations follow the definition, within all limits") {
  std::mt19937_64 rng{1};
  std::size_t branches = 0;
  for (int n = 0; n < bound(120); ++n) {
    const Index tokens = 2 + n % 6;
    const auto text = random_text(80, tokens, rng), context = random_text(6, tokens, rng);
    ScannedTexts counted({text, random_text(9, tokens, rng)}, 1 + n % 2, 1 + n % 5 + n % 2, 1 + n % 3 / 2);
    for (const Index nodes : {1, 2, 5, 13, 40}) {
      const DraftLimits limits{.nodes = nodes, .depth = n % 4 == 0 ? unlimited : 1 + n % 5};
      const ChosenTree tree = grown(counted, context, limits);
      CAPTURE(n, nodes);
      REQUIRE(tree == CountedTreeByDefinition(counted, context, limits).tree());
      for (const Index parent : tree.parents) branches += std::ranges::count(tree.parents, parent) > 1;
    }
  }
  CHECK(branches > static_cast<std::size_t>(bound(300)));
}

namespace {

// Counts how many tokens are read.
struct Watched : ScannedTexts {
  using ScannedTexts::ScannedTexts;
  Index read = 0;
  void each_continuation(Index match, const auto& visit) {
    ScannedTexts::each_continuation(match, [&](Token token, Index count) {
      ++read;
      visit(token, count);
    });
  }
};

}  // namespace

TEST_CASE("continuations that can no longer count are not read") {
  // After "1 2" came 3 and 4 about equally often, and there is room for two nodes. So the fifty tokens that came once
  // each after 4 alone do not matter.
  std::vector<Token> text;
  for (int n = 0; n < 10; ++n)
    for (const Token y : {1, 2, 3, 5, 1, 2, 4, 5}) text.push_back(y);
  for (Token x = 10; x < 60; ++x)
    for (const Token y : {4, x}) text.push_back(y);
  Watched counted({text}, 1, 3);
  detail::CountedTree<Watched> tree;
  counted.begin(std::vector<Token>{5, 1, 2});
  CHECK(chosen_tree(tree.grow(counted, {.nodes = 2, .depth = 3})) == ChosenTree{{4, 5}, {-1, 0}});
  CHECK(counted.read < 20);
  counted.begin(std::vector<Token>{0, 4});
  tree.grow(counted, {.nodes = 2, .depth = 3});
  CHECK(counted.read > 50);
}

}  // namespace test_draft_counted_tree
