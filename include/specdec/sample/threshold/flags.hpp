// Picks the few numbers out of many that meet a condition, without a branch for each number.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "specdec/kernels/machine_width.hpp"

namespace specdec::inline v0_2_0::detail {

/// 1 if both are true, else 0; without a branch.
SPECDEC_KERNEL constexpr std::uint8_t both(bool a, bool b) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// A byte for each of 512 numbers: 1 if the number is to be picked. A loop that compilers vectorise fills them in.
class Flags {
 public:
  static constexpr std::size_t size = 512;
  /// How many numbers pick() may put beyond the flagged ones.
  static constexpr std::size_t excess = 4;

  std::uint8_t& operator[](std::size_t i) { return bytes_[i]; }
  std::uint8_t* data() { return bytes_.data(); }

  /// Calls put(k, i) for each flagged number i, with k = first, first + 1, ... Returns one past the last k. Also puts a few
  /// meaningless numbers after the last one. A branch that avoids them could not be predicted, and would cost more.
  template <class Put>
  std::size_t pick(std::size_t first, Put&& put) const {
    const std::array<std::uint8_t, row_size> folded = fold();
    for (std::size_t byte = 0; byte < row_size; byte += sizeof(std::uint64_t)) {
      std::uint64_t bits = eight_bytes(folded, byte);
      const std::size_t last = first + static_cast<std::size_t>(std::popcount(bits));
      for (std::size_t k = first; k < first + excess; ++k) put(k, byte + take_first(bits));
      for (std::size_t k = first + excess; k < last; ++k) put(k, byte + take_first(bits));
      first = last;
    }
    return first;
  }

 private:
  static constexpr std::size_t rows = 8, row_size = size / rows;

  // Bit `row` of byte k is flag row·64 + k. (Doubles instead of shifting: there is no instruction that shifts bytes.)
  std::array<std::uint8_t, row_size> fold() const {
    std::array<std::uint8_t, row_size> folded{};
    for (std::size_t row = rows; row-- > 0;)
      for (std::size_t k = 0; k < row_size; ++k)
        folded[k] = static_cast<std::uint8_t>(folded[k] + folded[k] + bytes_[row * row_size + k]);
    return folded;
  }

  static std::uint64_t eight_bytes(const std::array<std::uint8_t, row_size>& bytes, std::size_t start) {
    std::uint64_t word = 0;
    if constexpr (std::endian::native == std::endian::little)
      std::memcpy(&word, bytes.data() + start, sizeof(word));
    else
      for (std::size_t k = 0; k < sizeof(word); ++k) word |= std::uint64_t{bytes[start + k]} << (8 * k);
    return word;
  }

  // Flag row·64 + k is bit 8·k + row.
  static std::size_t take_first(std::uint64_t& bits) {
    const auto bit = static_cast<std::size_t>(std::countr_zero(bits)) % 64;
    bits &= bits - 1;
    return bit % rows * row_size + bit / rows;
  }

  std::array<std::uint8_t, size> bytes_;
};

}  // namespace specdec::detail
