// The memory of greedy block verification, and the bytes as which C saves it.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/c/specdec.h"
#include "specdec/types.hpp"
#include "specdec/verify/rules/greedy_block.hpp"

struct specdec_greedy_block {  // NOLINT: a name in C
  specdec::GreedyBlockVerifier rule;
};

namespace specdec::inline v0_2_0::detail {

/// The memory of greedy block verification as bytes: for each modification the bits of its ratio, and the number of tokens
/// that it is still for, each as 8 bytes, the lowest first.
struct SavedMemory {
  static constexpr std::size_t size_of_one = 16;

  static std::size_t size(const GreedyBlockVerifier& rule) {
    return rule.modifications().size() * size_of_one;
  }

  static void write(const GreedyBlockVerifier& rule, unsigned char* bytes) {
    for (const GreedyBlockVerifier::Modification& m : rule.modifications()) {
      bytes = write_number(std::bit_cast<std::uint64_t>(m.ratio), bytes);
      bytes = write_number(static_cast<std::uint64_t>(m.left), bytes);
    }
  }

  static GreedyBlockVerifier read(const unsigned char* bytes, std::size_t size) {
    if (size % size_of_one != 0) invalid_argument("size = ", size, " is no multiple of ", size_of_one);
    std::vector<GreedyBlockVerifier::Modification> live;
    for (std::size_t k = 0; k < size; k += size_of_one)
      live.push_back({std::bit_cast<double>(read_number(bytes + k)),
                      static_cast<Index>(read_number(bytes + k + size_of_one / 2))});
    return GreedyBlockVerifier(std::move(live));
  }

 private:
  static unsigned char* write_number(std::uint64_t number, unsigned char* bytes) {
    for (int k = 0; k < 8; ++k) *bytes++ = static_cast<unsigned char>(number >> (8 * k) & 0xFF);
    return bytes;
  }
  static std::uint64_t read_number(const unsigned char* bytes) {
    std::uint64_t number = 0;
    for (int k = 0; k < 8; ++k) number |= std::uint64_t{bytes[k]} << (8 * k);
    return number;
  }
};

}  // namespace specdec::detail
