// What is asked of lists.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// A view of all of a vector. It is for lists of other things than numbers: a std::span that is made of the vector itself asks
/// whether that is a range, which takes a compiler three times as long for each type.
template <class T>
std::span<const T> view_of(const std::vector<T>& list) {
  return {list.data(), list.size()};
}

/// How many elements two lists begin with in common.
template <class A, class B>
Index common_length(const A& a, const B& b) {
  std::size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
  return static_cast<Index>(length);
}

}  // namespace specdec::detail
