// The texts that a beam search looks at, as a tree, and its best continuations.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// All texts that a search has looked at. Node 0 is the last token of the prompt; every other node is a token after the token
/// of its parent. Nodes are never removed, so a node has one number for the whole search.
class SearchedTexts {
 public:
  explicit SearchedTexts(std::vector<Token> prompt) : prompt_(std::move(prompt)) {
    nodes_.push_back({.token = prompt_.back()});
    prompt_.pop_back();
  }

  /// The tokens before node 0.
  std::span<const Token> prompt() const { return view_of(prompt_); }

  Index size() const { return std::ssize(nodes_); }
  Token token(Index node) const { return at(node).token; }
  Index parent(Index node) const { return at(node).parent; }

  /// The child of the node with this token. Makes it, if there is none.
  Index child(Index node, Token token) {
    Index k = at(node).first_child;
    while (k >= 0 && at(k).token != token) k = at(k).next_sibling;
    if (k >= 0) return k;
    k = size();
    nodes_.push_back({.token = token, .parent = node, .next_sibling = at(node).first_child});
    detail::at(nodes_, node).first_child = k;
    return k;
  }

  /// The last node that two ways have in common.
  Index common(Index a, Index b) const {
    while (a != b) (a > b ? a : b) = parent(std::max(a, b));  // a parent has a lower number
    return a;
  }

  /// The tokens after the prompt on the way to the node.
  std::vector<Token> text(Index node) const {
    std::vector<Token> tokens;
    const auto add = [&](Index k) { tokens.push_back(token(k)); };
    each_back(*this, node, add, 0);
    std::reverse(tokens.begin(), tokens.end());
    return tokens;
  }

 private:
  struct Node {
    Token token;
    Index parent = -1, first_child = -1, next_sibling = -1;
  };
  const Node& at(Index node) const { return detail::at(nodes_, node); }

  std::vector<Token> prompt_;
  std::vector<Node> nodes_;
};

/// A text of a search: the node of its last token, and the logarithm of its probability.
struct SearchedBeam {
  Index node = 0;
  double log_probability = 0;
  bool stopped = false;  // it ends with a stop token, and is not continued
};

struct LikelyToken {
  Token token;
  double log_probability;
};

/// Replaces the beams by the `width` most probable ones among all their continuations by one token and the beams that have
/// stopped. Among equals the continuation of the earlier beam comes first, then the lower id. `likeliest(node)` has at
/// least the `width` most probable tokens after a node.
template <class LikeliestOf, class Stops>
void replace_by_best(std::vector<SearchedBeam>& beams, Index width, SearchedTexts& texts,
                     const LikeliestOf& likeliest, const Stops& stops) {
  struct Continuation {
    Index beam;
    Token token;  // −1: none, as the beam has stopped
    double log_probability;

    bool operator<(const Continuation& other) const {
      if (log_probability != other.log_probability) return log_probability > other.log_probability;
      return beam != other.beam ? beam < other.beam : token < other.token;
    }
  };
  std::vector<Continuation> found;
  for (Index b = 0; b < std::ssize(beams); ++b) {
    const SearchedBeam& beam = detail::at(beams, b);
    if (beam.stopped) {
      found.push_back({b, -1, beam.log_probability});
    } else {
      for (const LikelyToken& next : likeliest(beam.node))
        found.push_back({b, next.token, beam.log_probability + next.log_probability});
    }
  }
  std::sort(found.begin(), found.end());
  if (std::ssize(found) > width) resize(found, width);
  const std::vector<SearchedBeam> before = std::exchange(beams, {});
  for (const Continuation& next : found) {
    const SearchedBeam& beam = detail::at(before, next.beam);
    if (next.token < 0) beams.push_back(beam);
    else beams.push_back({texts.child(beam.node, next.token), next.log_probability, stops(next.token)});
  }
}

}  // namespace specdec::detail
