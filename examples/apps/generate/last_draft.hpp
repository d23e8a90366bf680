// The draft of the last step and its verdict, as a line, for showing it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/types.hpp>
#include <specdec/verify/verdict.hpp>
#include <vector>

namespace generate {

/// The last draft and the verdict on it.
struct LastDraft {
  std::vector<specdec::Token> drafted;
  specdec::Verdict verdict;

  void set(std::span<const specdec::Token> tokens, const specdec::Verdict& what) {
    drafted.assign(tokens.begin(), tokens.end());
    verdict = what;
  }

  /// Makes a line of a tree: the accepted path, then the eldest child of each node from where the rule stopped.
  void set(std::span<const specdec::Token> tokens, std::span<const specdec::Index> parents,
           const specdec::NodeVerdict& stop) {
    drafted.clear();
    specdec::Index node = stop.node - 1;
    for (auto k = node; k >= 0; k = parents[static_cast<std::size_t>(k)])
      drafted.push_back(tokens[static_cast<std::size_t>(k)]);
    std::ranges::reverse(drafted);
    verdict = {std::ssize(drafted), stop.token};
    for (auto child = std::ranges::find(parents, node); child != parents.end();
         child = std::ranges::find(parents, node)) {
      node = child - parents.begin();
      drafted.push_back(tokens[static_cast<std::size_t>(node)]);
    }
  }
};

}  // namespace generate
