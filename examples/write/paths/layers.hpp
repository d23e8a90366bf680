// A rule for trees from a rule for one step: layer by layer down, to find how often each node may be accepted, and up again, to
// decide where the text ends. On a line with either rule for one step it is block verification.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "paths/one_step.hpp"
#include "paths/several_lines.hpp"

namespace paths {

// Where drafted tokens with the same text meet.
struct Meeting {
  std::vector<Index> nodes;  // of the draft
  double w;                  // the probability that the accepted path runs through here, given the draft
  Row rest = {};             // after the loop over layers: what the token that is added here must fill up
};

// Verifies a tree whose siblings are independent draws. `OneStep` judges the children of a node. Lossless.
//
// Down: the root has w = 1. The nodes of a layer share a room of 1: node v has b = w/(the sum of all w of the layer). The rule for one
// step judges its children for the target (w/b)·p, and child x, which it accepts with probability s(x), gets w = b·s(x). What is
// left at v is rest = w·p − E[w of the children], given what is above them.
// Up: from the deepest layer on, the text ends at node v with probability S/(1 − Σ(w − S)), S = Σ rest, the outer sum over the layer.
// Then it goes on with Y ∝ rest. Else the layer above decides. So the path runs through v with probability w.
// A derivation of our own. Its parts are known: block verification does this on a line.
//
// Equal tokens at a node meet, and have their children in common. How many children a node has must not depend on what was drawn,
// but for a token that ends the text.
// Throws: InvalidArgument if siblings were not drawn independently.
// Cost: whole rows are copied, at each node. For laboratories.
template <class OneStep>
struct Layers {
  using Layer = std::vector<Meeting>;

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    std::vector<Layer> layers{Layer{Meeting{.nodes = {0}, .w = 1}}};
    while (!layers.back().empty()) layers.push_back(next_layer(drafted, layers.back()));
    for (layers.pop_back();; layers.pop_back())
      if (const Meeting* const end = end_in(layers.back(), layers.size() == 1, chance)) {
        const Index node = end->nodes[0];
        // Where only rounding leads here, nothing need be left.
        return {node, end->rest.sum() > 0 ? draw(chance, end->rest) : drafted.draw(chance, node)};
      }
  }

 private:
  // Rounding may leave a little less than nothing. A number that is more negative is a mistake, and stays one.
  static double but_for_rounding(double x) { return x < 0 && x > -1e-12 ? 0 : x; }

  static Row copy(const auto& row, Index size) {
    Row out(size);
    for (Token x = 0; x < size; ++x) out[x] = specdec::probability(row, x);
    return out;
  }
  static Token draw(auto& chance, const Row& weights) {
    const Row row = weights / weights.sum();
    return chance.draw(specdec::distributions(row).row(0));
  }

  static Layer next_layer(const auto& drafted, Layer& layer) {
    double room = 0;
    for (const Meeting& v : layer) room += v.w;
    Layer next;
    for (Meeting& v : layer) {
      if (!(v.w > 0)) continue;  // the target rules it out: its row may be anything
      v.rest = v.w * copy(drafted.target(v.nodes[0]), drafted.vocab_size());
      std::vector<Index> below;
      for (const Index node : v.nodes)
        for (const Index k : children(drafted, node)) below.push_back(k);
      if (!below.empty()) judge_children(drafted, v, room, below, next);
    }
    return next;
  }

  static void judge_children(const auto& drafted, Meeting& v, double room, const std::vector<Index>& below,
                             Layer& next) {
    refuse_unless_independent(drafted, below);
    const auto draft = drafted.draft(below[0]);
    drafted.refuse_unless(draft.vocab_size() == drafted.vocab_size(),
                          "layers judge rows of one vocabulary; the draft has ", draft.vocab_size(),
                          " tokens, the target ", drafted.vocab_size());
    std::vector<Token> candidates;
    for (const Index k : below) candidates.push_back(drafted.token(k));
    const double b = v.w / room;
    const Shares shares = OneStep{}(v.rest / b, copy(draft, v.rest.size()), candidates);
    v.rest = (v.rest - b * shares.expected).unaryExpr(&but_for_rounding);
    const std::size_t first = next.size();
    for (std::size_t i = 0; i < below.size(); ++i) {
      std::size_t same = 0;
      while (candidates[same] != candidates[i]) ++same;
      if (same == i) next.push_back({.nodes = {below[i] + 1}, .w = b * shares.accepted[candidates[i]]});
      else meeting_of(drafted, next, first, candidates[i]).nodes.push_back(below[i] + 1);
    }
  }

  static Meeting& meeting_of(const auto& drafted, Layer& next, std::size_t first, Token x) {
    while (drafted.token(next[first].nodes[0] - 1) != x) ++first;
    return next[first];
  }

  // The node of the layer where the text ends; null if it ends above. At the root it ends.
  static const Meeting* end_in(const Layer& layer, bool root, auto& chance) {
    if (root) return &layer[0];
    Row ends(std::ssize(layer) + 1);  // the last one: above
    double w = 0;
    for (Index v = 0; v < std::ssize(layer); ++v) {
      const Meeting& here = layer[static_cast<std::size_t>(v)];
      ends[v] = here.w > 0 ? here.rest.sum() : 0;
      w += here.w;
    }
    ends[std::ssize(layer)] = but_for_rounding(1 - w);
    if (!(ends.sum() > 0)) return nullptr;
    const auto v = static_cast<std::size_t>(draw(chance, ends));
    return v < layer.size() ? &layer[v] : nullptr;
  }
};

}  // namespace paths
