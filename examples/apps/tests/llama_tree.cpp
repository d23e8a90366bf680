// examples/apps/llama_cpp/llama_tree.hpp: which sequences the tokens of a tree get.
// SPDX-License-Identifier: MIT
#include "llama_cpp/llama_tree.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_examples_llama_tree {

using specdec::Index;
using Numbers = std::vector<Index>;
using Sequences = std::vector<llama_seq_id>;
using Shared = std::vector<std::array<Index, 3>>;

namespace {

// Grows the tree, and returns the calls of share().
Shared grow(LlamaTree& tree, const Numbers& parents) {
  Shared shared;
  tree.grow(parents, [&](Index owner, Index other, Index depth) { shared.push_back({owner, other, depth}); });
  return shared;
}

Sequences holders(LlamaTree& tree, Index token) {
  const auto holders = tree.holders(token);
  return {holders.begin(), holders.end()};
}

}  // namespace

TEST_CASE("every leaf has a sequence, which holds the way to it and nothing else of the tree") {
  LlamaTree tree(4);
  grow(tree, {-1, 0, 0, 1, -1});  // leaves 2, 3 and 4
  CHECK(holders(tree, 0) == Sequences{0, 1});
  CHECK(holders(tree, 1) == Sequences{1});
  CHECK(holders(tree, 2) == Sequences{0});
  CHECK(holders(tree, 3) == Sequences{1});
  CHECK(holders(tree, 4) == Sequences{2});
  CHECK(Numbers{tree.end(0), tree.end(1), tree.end(2), tree.end(3)} == Numbers{2, 3, 4, -1});
  CHECK(Numbers{tree.depth(-1), tree.depth(0), tree.depth(3), tree.depth(4)} == Numbers{0, 1, 3, 1});
}

TEST_CASE("a leaf that goes on keeps its sequence, and a branch beside it takes over what lies before") {
  LlamaTree tree(4);
  CHECK(grow(tree, {-1, 0, 0}).empty());  // all sequences hold the context
  CHECK(grow(tree, {2, 3, 2, 0}) == Shared{{1, 2, 2}, {0, 3, 1}});
  CHECK(Numbers{tree.end(0), tree.end(1), tree.end(2), tree.end(3)} == Numbers{1, 4, 5, 6});
  CHECK(holders(tree, 3) == Sequences{1});
  CHECK(holders(tree, 5) == Sequences{2});
  CHECK(holders(tree, 6) == Sequences{3});
  CHECK(tree.holder(2) == 1);
  CHECK(tree.holder(0) == 0);
}

TEST_CASE("what is refused or taken back leaves no trace") {
  LlamaTree tree(2);
  grow(tree, {-1, -1, 1});
  const auto unchanged = [&] {
    return tree.size() == 3 && tree.end(0) == 0 && tree.end(1) == 2 && tree.depth(2) == 2;
  };
  CHECK(support::message_of<std::length_error>([&] {
          grow(tree, {0, 0, 1});
        }).starts_with("a tree with 4 leaves"));
  CHECK(unchanged());
  CHECK(support::message_of([&] { grow(tree, {0, 4}); }) == "parents[1] = 4 is outside -1..3");
  CHECK(unchanged());
  grow(tree, {0, 3, 2});
  CHECK(tree.end(0) == 4);
  tree.shrink();
  CHECK(unchanged());
  CHECK(
      support::message_of<std::length_error>([&] { grow(tree, {-1}); }).starts_with("a tree with 3 leaves"));
  CHECK(grow(tree, {2, 3}).empty());
  CHECK(tree.end(1) == 4);
  tree.clear();
  CHECK(tree.empty());
  CHECK(tree.end(1) == -1);
  CHECK_THROWS_AS(LlamaTree(0), std::invalid_argument);
}

}  // namespace test_examples_llama_tree
