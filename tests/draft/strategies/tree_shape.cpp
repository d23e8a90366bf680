// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_strategies_tree_shape {

using namespace specdec;
using support::message_of;

namespace {

using Parents = std::vector<Index>;

Parents parents(const TreeShape& shape) { return {shape.parents().begin(), shape.parents().end()}; }

// A tree given only by its parents.
struct Known {
  Parents parents;
  Index depth_of(Index k) const { return k < 0 ? 0 : 1 + depth_of(parents[static_cast<std::size_t>(k)]); }
  Index depth() const {
    Index most = 0;
    for (Index k = 0; k < std::ssize(parents); ++k) most = std::max(most, depth_of(k));
    return most;
  }
  Index children(Index k) const { return std::ranges::count(parents, k); }
  // For each node, the widths on the way to it, and its rank at each step. Renumbering must keep them.
  std::vector<std::vector<Index>> ways() const {
    std::vector<std::vector<Index>> ways;
    for (Index k = 0; k < std::ssize(parents); ++k) ways.push_back(way(k));
    std::ranges::sort(ways);
    return ways;
  }
  std::vector<Index> way(Index k) const {
    const Index parent = parents[static_cast<std::size_t>(k)];
    std::vector<Index> way = parent < 0 ? std::vector<Index>{} : this->way(parent);
    way.push_back(std::count(parents.begin(), parents.begin() + k, parent));
    return way;
  }
};

Parents random_tree(Index size, std::mt19937_64& rng) {
  Parents parents;
  for (Index k = 0; k < size; ++k)
    parents.push_back(static_cast<Index>(rng() % static_cast<std::size_t>(k + 1)) - 1);
  return parents;
}

}  // namespace

TEST_CASE("shapes are made from widths, from a length, and by hand") {
  CHECK(parents(TreeShape::of_widths({2, 2, 1})) == Parents{-1, -1, 0, 0, 1, 1, 2, 3, 4, 5});
  CHECK(parents(TreeShape::of_widths({3})) == Parents{-1, -1, -1});
  CHECK(parents(TreeShape::linear(4)) == Parents{-1, 0, 1, 2});
  CHECK(TreeShape::linear(4) == TreeShape::of_widths({1, 1, 1, 1}));
  CHECK(!(TreeShape::linear(4) == TreeShape::linear(3)));
  CHECK(TreeShape::of_widths({4, 2, 1}).size() == 4 + 8 + 8);
  CHECK(TreeShape::of_widths({4, 2, 1}).depth() == 3);
  CHECK(parents(TreeShape{-1, 0, -1, 0, 2}) == Parents{-1, -1, 0, 0, 1});  // breadth first
  for (const TreeShape& none : {TreeShape(), TreeShape::linear(0), TreeShape::of_widths({})}) {
    CHECK(none.size() == 0);
    CHECK(none.depth() == 0);
    CHECK(none.children(-1) == 0);
    CHECK(none.first_child(-1) == 0);
    CHECK(none.size_within({}) == 0);
  }
}

TEST_CASE("a shape is the given tree, numbered breadth first") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 200; ++n) {
    const Known given{random_tree(n % 20, rng)};
    const TreeShape shape(given.parents);
    const Known known{parents(shape)};
    REQUIRE(known.ways() == given.ways());
    CHECK(shape.size() == std::ssize(given.parents));
    CHECK(shape.depth() == given.depth());
    CHECK(std::ranges::is_sorted(known.parents));
    for (Index k = -1; k < shape.size(); ++k) {
      CHECK(shape.children(k) == known.children(k));
      for (Index c = 0; c < shape.children(k); ++c)
        CHECK(known.parents[static_cast<std::size_t>(shape.first_child(k) + c)] == k);
    }
  }
}

TEST_CASE("a shape within limits is its first nodes") {
  std::mt19937_64 rng{2};
  for (int n = 0; n < 50; ++n) {
    const TreeShape shape(random_tree(n % 13, rng));
    const Known known{parents(shape)};
    for (Index nodes = -1; nodes <= shape.size() + 1; ++nodes)
      for (Index depth = -1; depth <= shape.depth() + 1; ++depth) {
        Index within = 0;
        while (within < std::min(nodes, shape.size()) && known.depth_of(within) <= depth) ++within;
        CHECK(shape.size_within({nodes, depth}) == within);
      }
    CHECK(shape.size_within({}) == shape.size());
  }
}

TEST_CASE("parents that do not make a tree are refused") {
  CHECK(message_of([] {
          TreeShape{-1, 1};
        }) == "specdec: parents[1] = 1 is outside -1..0: a token follows the context or a token before it");
  CHECK(message_of([] { TreeShape{-2}; }).find("parents[0] = -2") != std::string::npos);
  CHECK(message_of([] { TreeShape::of_widths({2, 0}); }) == "specdec: widths[1] = 0 is not positive");
  CHECK(message_of([] {
          TreeShape::of_widths({1024, 1024});
        }) == "specdec: widths[1] = 1024 makes a tree of more than 1048576 tokens, the longest draft");
  CHECK(message_of([] { TreeShape::of_widths({2, unlimited}); }).find("widths[1]") != std::string::npos);
  CHECK(TreeShape::of_widths({1024, 1023}).size() == 1 << 20);
  CHECK(message_of([] { TreeShape::linear(-1); }) == "specdec: size = -1 is negative");
  CHECK(message_of([] { TreeShape::linear(unlimited); }).find("size = ") != std::string::npos);
}

}  // namespace test_draft_strategies_tree_shape
