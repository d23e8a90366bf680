// Shapes of trees, given by the number of children of their nodes.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/draft/strategies/tree_shape.hpp>
#include <specdec/more/analysis/sequoia_shape.hpp>
#include <string>
#include <vector>

namespace generate {

using specdec::Index;
using Widths = std::vector<Index>;

/// Every node of depth d has widths[d] children.
inline specdec::TreeShape full_shape(const Widths& widths) { return specdec::TreeShape::of_widths(widths); }

/// A trunk with spares. The trunk's node of depth d has widths[d] children; the first is on the trunk. Spares have none.
inline specdec::TreeShape trunk_shape(const Widths& widths) {
  std::vector<Index> parents;
  Index trunk = -1;
  for (const Index width : widths) {
    const Index first = std::ssize(parents);
    parents.insert(parents.end(), static_cast<std::size_t>(width), trunk);
    trunk = first;
  }
  return specdec::TreeShape(std::span<const Index>(parents));
}

/// The number of spares beside each token of the trunk, for a trunk_shape().
inline std::vector<Index> spares_of(const specdec::TreeShape& shape) {
  std::vector<Index> spares;
  Index trunk = -1;
  for (Index d = 0; d < shape.depth(); ++d) {
    spares.push_back(shape.children(trunk) - 1);
    trunk = shape.first_child(trunk);
  }
  return spares;
}

/// About how many tokens a tree has by default. The default shapes follow from the acceptance of the shipped transformers at
/// temperature 0.8. There, spares pay most beside the first token.
inline constexpr Index usual_nodes = 16;

inline specdec::TreeShape usual_trunk(Index depth) {
  Widths widths{8, 4, 2, 2};
  widths.resize(static_cast<std::size_t>(depth), 1);
  return trunk_shape(widths);
}

inline specdec::TreeShape usual_shape(Index depth, Index nodes = usual_nodes) {
  constexpr std::array<double, 6> acceptance_by_rank{0.63, 0.084, 0.053, 0.023, 0.02, 0.015};
  return specdec::TreeShape(specdec::sequoia_shape(acceptance_by_rank, nodes, depth).parents);
}

inline std::string text_of(const Widths& widths) {
  std::string text;
  for (const Index width : widths) text += (text.empty() ? "" : ",") + std::to_string(width);
  return text;
}

}  // namespace generate
