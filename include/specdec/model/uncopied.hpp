// Members that are not copied, or not even moved, with their holder.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace specdec::inline v0_2_0::detail {

/// A value that moves with its holder but is not copied with it: a copy of the holder has no value.
template <class T>
struct Uncopied {
  std::optional<T> value = {};
  Uncopied() = default;
  Uncopied(const Uncopied&) {}
  Uncopied(Uncopied&& other) noexcept : value(std::move(other.value)) { other.value.reset(); }
  Uncopied& operator=(const Uncopied&) {
    value.reset();
    return *this;
  }
  Uncopied& operator=(Uncopied&& other) noexcept {
    value.reset();
    if (other.value) value.emplace(*std::move(other.value));
    other.value.reset();
    return *this;
  }
  ~Uncopied() = default;
};

/// A value that is neither copied nor moved with its holder: a copy, and what was moved into, have none.
template <class T>
struct Unmoved {
  std::optional<T> value = {};
  Unmoved() = default;
  Unmoved(const Unmoved&) noexcept {}
  Unmoved& operator=(const Unmoved&) noexcept {
    value.reset();
    return *this;
  }
  ~Unmoved() = default;
};

/// A number that moves but is not copied; 0 means none. Cheaper to compile than Uncopied.
struct UncopiedNumber {
  std::uint64_t value = 0;
  UncopiedNumber() = default;
  UncopiedNumber(const UncopiedNumber&) {}
  UncopiedNumber(UncopiedNumber&& other) noexcept : value(std::exchange(other.value, 0)) {}
  UncopiedNumber& operator=(const UncopiedNumber&) {
    value = 0;
    return *this;
  }
  UncopiedNumber& operator=(UncopiedNumber&& other) noexcept {
    value = std::exchange(other.value, 0);
    return *this;
  }
  ~UncopiedNumber() = default;
};

}  // namespace specdec::detail
