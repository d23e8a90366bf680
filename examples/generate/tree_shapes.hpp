// Shapes of trees, by how many children their nodes have.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/draft/tree_shape.hpp>
#include <string>
#include <vector>

namespace generate {

using specdec::Index;
using Widths = std::vector<Index>;

/// Every node of depth d has widths[d] children.
inline specdec::TreeShape full_shape(const Widths& widths) { return specdec::TreeShape::of_widths(widths); }

/// The first node of depth d, of the trunk, has widths[d] children; the others have none.
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

/// How many spares stand beside each token of the trunk of such a shape.
inline std::vector<Index> spares_of(const specdec::TreeShape& shape) {
  std::vector<Index> spares;
  Index trunk = -1;
  for (Index d = 0; d < shape.depth(); ++d) {
    spares.push_back(shape.children(trunk) - 1);
    trunk = shape.first_child(trunk);
  }
  return spares;
}

inline std::string text_of(const Widths& widths) {
  std::string text;
  for (const Index width : widths) text += (text.empty() ? "" : ",") + std::to_string(width);
  return text;
}

}  // namespace generate
