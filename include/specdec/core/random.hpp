// Portable randomness. std::uniform_real_distribution and std::discrete_distribution differ between standard
// libraries; these do not, so one seed gives one text under libstdc++, libc++ and MSVC.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <random>

namespace specdec {

/// 64 independent fair bits from any generator.
///
/// Random: one call for a 64-bit generator, two for a 32-bit one (the first gives the high half). A generator
/// whose range is no power of two is used through its largest power of two, by rejection.
template <std::uniform_random_bit_generator Generator>
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
///
/// Random: one random_bits64.
template <std::uniform_random_bit_generator Generator>
double uniform01(Generator& generator) {
  return static_cast<double>(random_bits64(generator) >> 11) * 0x1p-53;
}

}  // namespace specdec
