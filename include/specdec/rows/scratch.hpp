// Memory for what is known of each row of a draft while it is judged.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// The rows of a draft of 64 tokens: up to here a verification allocates nothing.
inline constexpr Index few_rows = 65;

/// Numbers, one a row: in place where they are few. They are not initialised.
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
