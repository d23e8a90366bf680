// A tree of tokens: growing, forgetting, and its walks against walks that are written out here.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <random>
#include <span>
#include <specdec/token_tree.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_token_tree {

using specdec::Index;
using specdec::Token;
using specdec::TokenTree;
using specdec::TokenTreeView;
using Numbers = std::vector<Index>;
using Tokens = std::vector<Token>;

// The context is the root; a node knows its path, so that no walk is needed.
struct Node {
  Token token;
  Index parent;
  Numbers path;
};

std::vector<Node> random_nodes(Index size, std::mt19937_64& rng) {
  std::vector<Node> nodes;
  for (Index k = 0; k < size; ++k) {
    const Index parent = std::uniform_int_distribution<Index>(-1, k - 1)(rng);
    Numbers path = parent < 0 ? Numbers{} : nodes[static_cast<std::size_t>(parent)].path;
    path.push_back(k);
    nodes.push_back({static_cast<Token>(rng() % 3), parent, path});
  }
  return nodes;
}

TokenTree tree_of(const std::vector<Node>& nodes) {
  TokenTree tree;
  for (Index k = 0; k < std::ssize(nodes); ++k) {
    const Node& node = nodes[static_cast<std::size_t>(k)];
    CHECK(tree.append(node.token, node.parent) == k);
  }
  return tree;
}

void check_walks(const TokenTreeView& tree, const std::vector<Node>& nodes) {
  REQUIRE(tree.size() == std::ssize(nodes));
  Numbers path{7}, depths{7};
  Index deepest = 0;
  const Index size = tree.depths(depths) >= 0 ? std::ssize(depths) : -1;
  REQUIRE(size == tree.size());
  for (Index k = -1; k < tree.size(); ++k) {
    const Numbers expected = k < 0 ? Numbers{} : nodes[static_cast<std::size_t>(k)].path;
    tree.path_to(k, path);
    CHECK(path == expected);
    CHECK(tree.depth(k) == std::ssize(expected));
    if (k >= 0) CHECK(depths[static_cast<std::size_t>(k)] == std::ssize(expected));
    deepest = std::max(deepest, std::ssize(expected));

    Numbers children, found;
    for (Index child = 0; child < tree.size(); ++child)
      if (nodes[static_cast<std::size_t>(child)].parent == k) children.push_back(child);
    for (Index child = tree.next_child(k, k); child >= 0; child = tree.next_child(k, child))
      found.push_back(child);
    CHECK(found == children);
    for (const Token x : {0, 1, 2}) {
      const auto first = std::find_if(children.begin(), children.end(), [&](Index child) {
        return nodes[static_cast<std::size_t>(child)].token == x;
      });
      CHECK(tree.child(k, x) == (first == children.end() ? -1 : *first));
    }
  }
  CHECK(tree.depths(depths) == deepest);
}

TEST_CASE("paths, depths and children of random trees are those that are written down as they grow") {
  std::mt19937_64 rng{3};
  for (Index size = 0; size < 12; ++size)
    for (int times = 0; times < 20; ++times) {
      const std::vector<Node> nodes = random_nodes(size, rng);
      const TokenTree tree = tree_of(nodes);
      check_walks(tree.view(), nodes);
    }
}

TEST_CASE("a line without parents is the tree without branches") {
  std::mt19937_64 rng{4};
  for (Index size = 0; size < 6; ++size) {
    std::vector<Node> nodes;
    Tokens tokens;
    Numbers path, parents;
    for (Index k = 0; k < size; ++k) {
      path.push_back(k);
      parents.push_back(k - 1);
      tokens.push_back(static_cast<Token>(rng() % 3));
      nodes.push_back({tokens.back(), k - 1, path});
    }
    check_walks(TokenTreeView(tokens, {}), nodes);
    check_walks(TokenTreeView(tokens, parents), nodes);
    CHECK(!specdec::detail::branches(parents));
    CHECK(TokenTreeView(parents).depth(size - 1) == size);
  }
  CHECK(specdec::detail::branches(Numbers{-1, -1}));
}

TEST_CASE("a tree takes lists of tokens, and a line goes on from its last token") {
  TokenTree tree;
  tree.append(Tokens{5, 6}, {});
  tree.append(Tokens{7, 8}, Numbers{0, -1});
  tree.append(Tokens{9, 4}, {});
  CHECK(std::ranges::equal(tree.tokens(), Tokens{5, 6, 7, 8, 9, 4}));
  CHECK(std::ranges::equal(tree.parents(), Numbers{-1, 0, 0, -1, 3, 4}));
  CHECK(tree.token(3) == 8);
  CHECK(tree.parent(4) == 3);
}

TEST_CASE("a tree forgets its last tokens, and grows within its memory") {
  TokenTree tree;
  tree.reserve(8);
  tree.append(Tokens{1, 2, 3, 4, 5, 6, 7, 8}, {});
  const Token* const memory = tree.tokens().data();
  tree.forget_from(3);
  CHECK(std::ranges::equal(tree.tokens(), Tokens{1, 2, 3}));
  CHECK(std::ranges::equal(tree.parents(), Numbers{-1, 0, 1}));
  tree.clear();
  CHECK(tree.empty());
  for (Token x = 0; x < 8; ++x) tree.append(x, -1);
  CHECK(tree.tokens().data() == memory);
}

TEST_CASE("a way back ends at the context, at the given token, or where it is stopped") {
  const Numbers parents{-1, 0, 0, 2, 3, 1};
  const TokenTreeView tree(parents);
  Numbers way;
  const auto add = [&](Index k) { way.push_back(k); };
  const auto back = [&](Index from, Index end) {
    way.clear();
    specdec::detail::each_back(tree, from, add, end);
    return way;
  };
  CHECK(back(4, -1) == Numbers{4, 3, 2, 0});
  CHECK(back(4, 2) == Numbers{4, 3});
  CHECK(back(4, 4).empty());
  CHECK(back(-1, -1).empty());
  const auto stop_at = [&](Index stop, Index end) {
    return specdec::detail::back_while(
        tree, 4, [=](Index k) { return k != stop; }, end);
  };
  CHECK(stop_at(2, -1) == 2);
  CHECK(stop_at(1, -1) == -1);
  CHECK(stop_at(2, 3) == 3);
  CHECK(stop_at(4, 0) == 4);
}

TEST_CASE("children are linked, the eldest first, without tokens that lead to nothing wanted") {
  //  context: 0, 1;  0: 2, 3;  3: 4;  1: 5
  const Numbers parents{-1, -1, 0, 0, 3, 1};
  Numbers first(7), next(6);
  const auto link = [&](auto wanted) {
    specdec::detail::link_children(TokenTreeView(parents), 6, first.data(), next.data(), wanted);
  };
  link([](Index) { return true; });
  CHECK(first == Numbers{0, 2, 5, -1, 4, -1, -1});
  CHECK(next == Numbers{1, -1, 3, -1, -1, -1});
  link([](Index k) { return k == 4; });  // leads over 3 and 0
  CHECK(first == Numbers{0, 3, -1, -1, 4, -1, -1});
  CHECK(next[0] == -1);
  CHECK(next[3] == -1);
}

}  // namespace test_token_tree
