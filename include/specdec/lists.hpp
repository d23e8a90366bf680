// Helpers for lists.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A span over a whole vector. It compiles three times as fast as std::span(list), which checks that the vector is a range.
template <class T>
std::span<const T> view_of(const std::vector<T>& list) {
  return {list.data(), list.size()};
}

/// Element i of a vector, a span or an array. The standard library numbers elements with std::size_t, this library with Index.
template <class List, std::integral I>
constexpr decltype(auto) at(List&& list, I i) {
  return std::forward<List>(list)[static_cast<std::size_t>(i)];
}

/// A span over `count` elements of a vector or a span, from number `begin` on.
template <class List>
auto part(const List& list, Index begin, Index count) {
  using T = std::remove_pointer_t<decltype(list.data())>;
  return std::span<T>(list.data(), list.size())
      .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}
/// The first `count` elements.
template <class List>
auto first(const List& list, Index count) {
  return part(list, 0, count);
}
/// All elements after the first `count`.
template <class List>
auto after(const List& list, Index count) {
  return part(list, count, std::ssize(list) - count);
}

/// std::vector's functions, for sizes that are an Index. Most calls find the list as it should be, and are inlined here.
template <class T>
void resize(std::vector<T>& list, Index size) {
  if (std::ssize(list) != size) list.resize(static_cast<std::size_t>(size));
}
template <class T>
void reserve(std::vector<T>& list, Index size) {
  if (static_cast<Index>(list.capacity()) < size) list.reserve(static_cast<std::size_t>(size));
}
template <class T>
void assign(std::vector<T>& list, Index size, const std::type_identity_t<T>& value) {
  list.assign(static_cast<std::size_t>(size), value);
}

void clear(auto&... lists) { (lists.clear(), ...); }

/// Appends a vector or a span, by pointers: so std::vector::insert is compiled once for each element type, not for each list.
template <class T, class List>
void append(std::vector<T>& list, const List& more) {
  list.insert(list.end(), more.data(), more.data() + more.size());
}

/// How many of the numbers 0..count − 1 satisfy `holds`, by bisection.
/// Pre: where it holds for a number, it holds for all smaller ones.
template <class Holds>
Index partition_point(Index count, const Holds& holds) {
  Index first = 0;
  while (count > 0) {
    const Index half = count / 2;
    if (holds(first + half)) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

/// The length of the common prefix of two lists.
template <class A, class B>
Index common_length(const A& a, const B& b) {
  std::size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
  return static_cast<Index>(length);
}

}  // namespace specdec::detail
