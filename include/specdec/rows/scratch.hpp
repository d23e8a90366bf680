// Memory for one number per row while a draft is verified.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The number of rows of a draft of 64 tokens. A verification of at most this many rows allocates nothing.
inline constexpr Index few_rows = 65;

/// One number per row, inside the object for up to few_rows rows. The numbers are not initialised.
template <class T>
class ScratchOf {
 public:
  explicit ScratchOf(Index size) : more_(size > few_rows ? static_cast<std::size_t>(size) : 0) {
    numbers_ = size > few_rows ? more_.data() : few_.data();
  }
  ScratchOf(const ScratchOf&) = delete;
  ScratchOf& operator=(const ScratchOf&) = delete;

  T& operator[](Index i) { return numbers_[i]; }
  T operator[](Index i) const { return numbers_[i]; }
  T* data() { return numbers_; }

 private:
  T* numbers_;
  std::array<T, few_rows> few_;
  std::vector<T> more_;
};

using Scratch = ScratchOf<double>;

}  // namespace specdec::detail
