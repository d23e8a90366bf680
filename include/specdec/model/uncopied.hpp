// Members that are not copied with their holder.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <memory>
#include <utility>

namespace specdec::inline v0_2_0::detail {

/// A value that moves with its holder but is not copied with it: a copy of the holder has none, which is T{}.
template <class T>
struct Uncopied {
  T value = {};
  Uncopied() = default;
  Uncopied(const Uncopied&) {}
  Uncopied(Uncopied&& other) noexcept : value(std::move(other.value)) { other.replace_by(); }
  Uncopied& operator=(const Uncopied&) {
    replace_by();
    return *this;
  }
  Uncopied& operator=(Uncopied&& other) noexcept {
    if (this == &other) return *this;
    replace_by(std::move(other.value));
    other.replace_by();
    return *this;
  }
  ~Uncopied() = default;

 private:
  // A draft cannot be assigned.
  void replace_by(auto&&... by) {
    std::destroy_at(&value);
    std::construct_at(&value, std::forward<decltype(by)>(by)...);
  }
};

}  // namespace specdec::detail
