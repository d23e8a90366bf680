// A generator whose state is a seed and a count.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <array>
#include <cstdint>
#include <limits>

namespace specdec::inline v0_2_0 {

/// A random bit generator whose number n depends on the seed, the stream and n alone. A request can be stopped, moved to
/// another machine and continued: Philox{seed, offset} gives the numbers from number `offset` on.
///
///   specdec::Philox rng{request.seed, request.offset};
///   ...                                   // any verifier, SpecDec or Batch draws from it
///   request.offset = rng.offset();        // all that has to be kept
///
/// Streams of one seed are independent: one seed serves a whole batch, with the request's number as the stream.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011: Philox4x32-10.
/// Units: `offset` counts numbers of 64 bits. Numbers 2n and 2n + 1 are the low and the high half of the block whose counter
/// is (n, stream) and whose key is the seed.
/// Cost: ten rounds of two multiplications for each number. No table, no warm-up.
/// Example: examples/engine/your_engine.md
class Philox {
 public:
  using result_type = std::uint64_t;
  /// The words of a block and of its counter.
  using Block = std::array<std::uint32_t, 4>;

  constexpr explicit Philox(std::uint64_t seed = 0, std::uint64_t offset = 0, std::uint64_t stream = 0)
      : seed_(seed), offset_(offset), stream_(stream) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  constexpr std::uint64_t seed() const { return seed_; }
  /// How many numbers come before the next one.
  constexpr std::uint64_t offset() const { return offset_; }
  constexpr std::uint64_t stream() const { return stream_; }

  constexpr result_type operator()() {
    const std::uint64_t n = offset_ / 2;
    const Block words = block({low(n), high(n), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
    const std::size_t first = offset_++ % 2 == 0 ? 0 : 2;
    return words[first] | std::uint64_t{words[first + 1]} << 32;
  }

  /// Leaves out `count` numbers.
  /// Cost: constant.
  constexpr void discard(std::uint64_t count) { offset_ += count; }

  friend constexpr bool operator==(const Philox&, const Philox&) = default;

  /// Philox4x32-10 as published: the block of a counter under a key.
  static constexpr Block block(Block counter, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
      const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
      counter = {high(odd) ^ counter[1] ^ key[0], low(odd), high(even) ^ counter[3] ^ key[1], low(even)};
      key[0] += 0x9E3779B9;  // the golden ratio
      key[1] += 0xBB67AE85;  // sqrt(3) - 1
    }
    return counter;
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t n) { return static_cast<std::uint32_t>(n); }
  static constexpr std::uint32_t high(std::uint64_t n) { return static_cast<std::uint32_t>(n >> 32); }

  std::uint64_t seed_, offset_, stream_;
};

}  // namespace specdec
