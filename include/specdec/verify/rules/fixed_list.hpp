// A list inside an object, for rules that verify where there is no heap.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A list of at most `most` elements that lie inside the object. It has the functions of a std::vector that the rules use.
/// Pre: it never gets more than `most` elements.
template <class T, Index most>
class FixedList {
 public:
  constexpr std::size_t size() const { return size_; }
  constexpr T& operator[](std::size_t i) { return items_[i]; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  constexpr const T* begin() const { return items_; }
  constexpr const T* end() const { return items_ + size_; }

  constexpr void push_back(const T& item) { items_[size_++] = item; }
  constexpr void clear() { size_ = 0; }

  friend constexpr bool operator==(const FixedList& a, const FixedList& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.items_[i] == b.items_[i])) return false;
    return true;
  }

 private:
  T items_[static_cast<std::size_t>(most)] = {};
  std::size_t size_ = 0;
};

/// A list of at most `most` elements: inside the object if there is a limit, else on the heap.
template <class T, Index most>
using ListOfAtMost =
    std::conditional_t<most == unlimited, std::vector<T>, FixedList<T, most == unlimited ? 1 : most>>;

}  // namespace specdec::detail
