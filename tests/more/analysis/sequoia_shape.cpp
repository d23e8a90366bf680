// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_analysis_sequoia_shape {

using namespace specdec;
using support::message_of;

namespace {

using Chances = std::vector<double>;

// Σ over the nodes of the probability that the whole path to the node is accepted; −1 if the tree is too deep.
double accepted(std::span<const Index> parents, const Chances& chances, Index depth) {
  std::vector<double> reached;
  std::vector<Index> depths, ranks(parents.size() + 1, 0);
  double sum = 0;
  for (const Index parent : parents) {
    const auto p = static_cast<std::size_t>(parent);
    const auto rank = static_cast<std::size_t>(ranks[static_cast<std::size_t>(parent + 1)]++);
    depths.push_back(parent < 0 ? 1 : depths[p] + 1);
    if (depths.back() > depth) return -1;
    reached.push_back((parent < 0 ? 1.0 : reached[p]) * (rank < chances.size() ? chances[rank] : 0.0));
    sum += reached.back();
  }
  return sum;
}

// The best of all trees of `nodes` nodes, over every list of parents.
double best(std::vector<Index>& parents, Index nodes, const Chances& chances, Index depth) {
  if (std::ssize(parents) == nodes) return accepted(parents, chances, depth);
  double most = 0;
  for (Index parent = -1; parent < std::ssize(parents); ++parent) {
    parents.push_back(parent);
    most = std::max(most, best(parents, nodes, chances, depth));
    parents.pop_back();
  }
  return most;
}
double best_up_to(Index nodes, const Chances& chances, Index depth) {
  double most = 0;
  for (Index n = 0; n <= nodes; ++n) {
    std::vector<Index> parents;
    most = std::max(most, best(parents, n, chances, depth));
  }
  return most;
}

Chances random_chances(std::size_t ranks, std::mt19937_64& rng) {
  Chances chances;
  double left = 1;
  for (std::size_t k = 0; k < ranks; ++k) {
    chances.push_back(rng() % 4 == 0 ? 0.0 : left * uniform01(rng));
    left -= chances.back();
  }
  if (rng() % 2 == 0) std::ranges::shuffle(chances, rng);
  return chances;
}

}  // namespace

TEST_CASE("no tree with as many nodes has more accepted tokens") {
  std::mt19937_64 rng{1};
  const int most = support::bound(6, 7);
  for (int n = 0; n < 60; ++n) {
    const Chances chances = random_chances(static_cast<std::size_t>(n % 5), rng);
    for (Index nodes = 0; nodes <= most; nodes += 1 + n % 3)
      for (const Index depth : {Index{0}, Index{1}, Index{2}, Index{3}, unlimited}) {
        const SequoiaShape found = sequoia_shape(chances, nodes, depth);
        INFO("nodes " << nodes << ", depth " << depth << ", case " << n);
        CHECK(std::ranges::is_sorted(found.parents));  // breadth first
        CHECK(std::ssize(found.parents) <= nodes);
        CHECK(TreeShape(found.parents).depth() <= depth);
        CHECK(std::abs(accepted(found.parents, chances, depth) - found.expected_accepted) < 1e-12);
        CHECK(std::abs(best_up_to(nodes, chances, depth) - found.expected_accepted) < 1e-12);
      }
  }
}

TEST_CASE("known trees come out") {
  const auto shape = [](const Chances& chances, Index nodes, Index depth = unlimited) {
    return TreeShape(sequoia_shape(chances, nodes, depth).parents);
  };
  CHECK(shape({1}, 30) == TreeShape::linear(30));
  CHECK(shape({1, 0, 0}, 30) == TreeShape::linear(30));
  CHECK(shape({0.8}, 12, 5) == TreeShape::linear(5));  // there is no chance for a second child
  CHECK(sequoia_shape(Chances{0.5}, 3).expected_accepted == 0.5 + 0.25 + 0.125);
  CHECK(shape({0.4, 0.3, 0.2}, 3, 1) == TreeShape::of_widths({3}));
  CHECK(shape({0.4, 0.3, 0.2}, 2, 1) == TreeShape::of_widths({2}));
  CHECK(shape({0.5, 0.5}, 6, 2) == TreeShape::of_widths({2, 2}));
  CHECK(sequoia_shape(Chances{0.5, 0.5}, 6, 2).expected_accepted == 2);
  CHECK(shape({0.5, 0.1}, 3) == TreeShape::linear(3));
  // A child of the first node adds 0.25, a child of that node 0.125.
  CHECK(shape({0.5, 0.4}, 3) == TreeShape{-1, -1, 0});
  CHECK(shape({0, 1}, 4) ==
        TreeShape{-1, -1, 1, 1});  // a child that is never accepted makes a place for one that is
  CHECK(shape({0.5, 0}, 5, 2) == TreeShape::linear(2));  // a child that is never accepted adds nothing
  CHECK(shape({}, 4).size() == 0);
  CHECK(shape({0, 0}, 4).size() == 0);
  CHECK(shape({0.5}, 0).size() == 0);
  CHECK(shape({0.5}, 4, 0).size() == 0);
}

TEST_CASE("more nodes, deeper trees and better drafts never lose") {
  const auto value = [](const Chances& chances, Index nodes, Index depth = unlimited) {
    return sequoia_shape(chances, nodes, depth).expected_accepted;
  };
  const Chances chances{0.6, 0.15, 0.08, 0.04, 0.02};
  for (Index n = 1; n < 120; n += 7) {
    CHECK(value(chances, n + 7) > value(chances, n));
    CHECK(value(chances, n, 4) >= value(chances, n, 3));
    CHECK(value({0.61, 0.15, 0.08, 0.04, 0.02}, n) > value(chances, n));
    CHECK(value(chances, n) <= 0.89 / (1 - 0.89) + 1e-12);  // the value of a full infinite tree
  }
}

TEST_CASE("impossible chances are refused") {
  const auto complaint = [](const Chances& chances, Index nodes, Index depth) {
    return message_of([&] { sequoia_shape(chances, nodes, depth); });
  };
  CHECK(complaint({0.5, 1.5}, 4, 2) == "specdec: acceptance_by_rank[1] = 1.5 is outside [0, 1]");
  CHECK(complaint({-0.5}, 4, 2) == "specdec: acceptance_by_rank[0] = -0.5 is outside [0, 1]");
  CHECK(complaint({std::numeric_limits<double>::quiet_NaN()}, 4, 2).find("[0] = nan") != std::string::npos);
  CHECK(complaint({0.75, 0.5}, 4, 2) ==
        "specdec: acceptance_by_rank sums to 1.25, but one child is accepted at most");
  CHECK(complaint({0.1, 0.2, 0.7}, 4, 2).empty());
  CHECK(complaint({0.5}, -1, 2) == "specdec: nodes = -1 is outside 0..4096");
  CHECK(complaint({0.5}, 4097, 2) == "specdec: nodes = 4097 is outside 0..4096");
  CHECK(complaint({0.5}, 4, -1) == "specdec: depth = -1 is negative");
}

}  // namespace test_more_analysis_sequoia_shape
