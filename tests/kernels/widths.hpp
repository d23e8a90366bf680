// The widths that this machine can run, and numbers that make trouble.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <specdec/kernels/machine_width.hpp>
#include <type_traits>
#include <vector>

namespace test_kernels {

using namespace specdec;
using namespace specdec::detail;

inline std::vector<VectorWidth> widths() {
  std::vector<VectorWidth> out;
  for (const VectorWidth width : {VectorWidth::portable, VectorWidth::avx2, VectorWidth::avx512})
    if (width <= machine_width()) out.push_back(width);
  return out;
}

/// Whole lots of numbers; some of them infinite, tiny, huge, zero of either sign, and NaN where that is wanted.
template <class Scalar>
std::vector<Scalar> numbers(Index lots, bool with_nan, std::mt19937_64& rng) {
  using Limits = std::numeric_limits<Scalar>;
  const Scalar odd[] = {
      -Limits::infinity(), 0,          -Scalar{0},        Limits::min(), Limits::denorm_min(),
      Limits::lowest(),    Scalar{30}, -Limits::epsilon()};
  std::normal_distribution<double> normal(0, 5);
  std::vector<Scalar> out(static_cast<std::size_t>(lots * lot));
  for (Scalar& x : out) x = rng() % 8 == 0 ? odd[rng() % std::size(odd)] : static_cast<Scalar>(normal(rng));
  if (with_nan) out[rng() % out.size()] = rng() % 2 == 0 ? Limits::quiet_NaN() : -Limits::quiet_NaN();
  return out;
}

/// Whether two numbers are the same to the last bit, or both NaN (whose sign is the processor's affair).
template <class Scalar>
bool same(Scalar a, Scalar b) {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
  return (a != a && b != b) || std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

/// Whether a call gives the same at every width of this machine as where a lot goes number by number.
template <class Call>
bool same_at_all_widths(Call&& call) {
  const auto expected = call(VectorWidth::portable);
  for (const VectorWidth width : widths())
    if (!same(call(width), expected)) return false;
  return true;
}

}  // namespace test_kernels
