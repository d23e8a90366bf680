// Helpers for lists.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// A span over a whole vector. For each element type it compiles three times as fast as std::span(list), which checks that
/// the vector is a range.
template <class T>
std::span<const T> view_of(const std::vector<T>& list) {
  return {list.data(), list.size()};
}

/// Appends a vector or a span. Pointers serve as iterators, so that std::vector::insert is compiled once for each element
/// type, and not once more for each kind of list.
template <class T, class List>
void append(std::vector<T>& list, const List& more) {
  list.insert(list.end(), more.data(), more.data() + more.size());
}

/// The length of the common prefix of two lists.
template <class A, class B>
Index common_length(const A& a, const B& b) {
  std::size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
  return static_cast<Index>(length);
}

}  // namespace specdec::detail
