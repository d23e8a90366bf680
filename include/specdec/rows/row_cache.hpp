// The rows of a matrix, each made once.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"

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

/// The rows of a matrix. Each row is made at its first use, and kept. So its log-sum-exp or its cut is computed only once
/// per verification. No allocation for up to few_rows rows.
template <DistributionMatrix M>
class RowCache {
  using Row = RowOf<M>;
  static constexpr std::size_t words = (few_rows + 63) / 64;

 public:
  explicit RowCache(const M& matrix) : matrix_(matrix) {}
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;
  ~RowCache() {
    for (std::size_t word = 0; word < words; ++word)
      for (std::uint64_t rest = made_[word]; rest != 0; rest &= rest - 1)
        few_[64 * word + static_cast<std::size_t>(std::countr_zero(rest))].row.~Row();
  }

  const M& matrix() const { return matrix_; }

  const Row& operator[](Index i) const {
    if (i >= few_rows) {
      // Not before: a caller compares the number of rows with what it expects before it asks for one.
      if (more_.empty()) resize(more_, matrix_.rows() - few_rows);
      std::optional<Row>& slot = at(more_, i - few_rows);
      return slot ? *slot : slot.emplace(matrix_.row(i));
    }
    Slot& slot = few_[i];
    std::uint64_t& word = made_[static_cast<std::size_t>(i) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (i % 64);
    if ((word & bit) == 0) {
      ::new (static_cast<void*>(&slot.row)) Row(matrix_.row(i));
      word |= bit;
    }
    return slot.row;
  }

 private:
  union Slot {
    Slot() {}
    ~Slot() {}
    Row row;
  };

  M matrix_;
  mutable std::array<std::uint64_t, words> made_{};  // bit i: few_[i] holds a row
  mutable Slot few_[few_rows];
  mutable std::vector<std::optional<Row>> more_;
};

}  // namespace specdec::detail
