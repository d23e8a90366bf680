// Portable randomness: one seed gives one text under libstdc++, libc++ and MSVC. std::uniform_real_distribution and
// std::discrete_distribution differ between standard libraries, so they are not used.
//
// <random> is not included: the templates do not need it, and it takes long to compile.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace specdec::inline v0_2_0 {

/// Equal to std::uniform_random_bit_generator: all generators of <random> qualify.
template <class G>
concept RandomBitGenerator =
    std::invocable<G&> && std::unsigned_integral<std::invoke_result_t<G&>> && requires {
      { G::min() } -> std::same_as<std::invoke_result_t<G&>>;
      { G::max() } -> std::same_as<std::invoke_result_t<G&>>;
      requires std::bool_constant<(G::min() < G::max())>::value;
    };

namespace detail {
/// Stands where a caller has passed no generator: a compile error says so.
struct MissingGenerator {};
}  // namespace detail

/// A generator with 64 bits of state: for the random models of the proofs, and as an example in concepts, not for text.
/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
class SplitMix64 {
 public:
  using result_type = std::uint64_t;

  explicit SplitMix64(std::uint64_t seed = 0) : state_(seed) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  result_type operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  friend bool operator==(const SplitMix64&, const SplitMix64&) = default;

 private:
  std::uint64_t state_;
};

/// 64 independent fair bits from any generator.
/// Random: one call of a 64-bit generator, two calls of a 32-bit one (the first gives the high half). If the number of
/// values is no power of two, the values from the largest power of two on are rejected.
template <RandomBitGenerator Generator>
std::uint64_t random_bits64(Generator& generator) {
  constexpr auto range = static_cast<std::uint64_t>(Generator::max() - Generator::min());
  const auto word = [&] { return static_cast<std::uint64_t>(generator() - Generator::min()); };
  if constexpr (range == std::numeric_limits<std::uint64_t>::max()) {
    return word();
  } else {
    constexpr int width = std::bit_width(range + 1) - 1;
    std::uint64_t bits = 0;
    for (int filled = 0; filled < 64; filled += width) {
      std::uint64_t fresh = word();
      while ((fresh >> width) != 0) fresh = word();
      bits = (bits << width) | fresh;
    }
    return bits;
  }
}

/// Uniform on [0, 1): a multiple of 2^-53, never 1.
/// Random: one random_bits64.
template <RandomBitGenerator Generator>
double uniform01(Generator& generator) {
  return static_cast<double>(random_bits64(generator) >> 11) * 0x1p-53;
}

}  // namespace specdec
