// The bytes of an input, read as decisions and numbers. Any bytes have a meaning, and after their end all bytes are 0.
// So every input is valid, and a fuzzer that changes a byte changes one decision.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <source_location>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>

namespace fuzz {

using specdec::Index;
using specdec::Token;

// A check of sums now and then would be an error in one of two runs of an input.
inline const Index sum_checks = specdec::check_every(0);

class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> data) : data_(data) {}

  bool empty() const { return data_.empty(); }

  std::uint8_t byte() {
    if (data_.empty()) return 0;
    const std::uint8_t first = data_.front();
    data_ = data_.subspan(1);
    return first;
  }

  // A number of two bytes.
  Index wide() {
    const Index high = byte();
    return 256 * high + byte();
  }

  bool flag() { return (byte() & 1) != 0; }

  // 0..most.
  Index up_to(Index most) { return byte() % (most + 1); }

  // Mostly small numbers of both signs, but also the ends of their range.
  Index size() {
    constexpr Index largest = std::numeric_limits<Index>::max();
    const std::uint8_t b = byte();
    switch (b) {
      case 255:
        return largest;
      case 254:
        return -largest - 1;
      case 253:
        return Index{1} << 32;
      case 252:
        return (Index{1} << 31) - 1;
      case 251:
        return largest - 1;
      default:
        return b < 200 ? b % 10 : b - 220;
    }
  }

  // In [0, 1] for three bytes of four. Otherwise a number that is no probability, or that is hard to compute with.
  double probability() {
    const std::uint8_t b = byte();
    return b < 192 ? static_cast<double>(b) / 191 : odd(b);
  }

  // Small numbers of both signs for three bytes of four.
  double number() {
    const std::uint8_t b = byte();
    return b < 192 ? (static_cast<double>(b) - 96) / 8 : odd(b);
  }

 private:
  static double odd(std::uint8_t b) {
    using Limits = std::numeric_limits<double>;
    constexpr double infinity = Limits::infinity();
    constexpr double numbers[] = {Limits::quiet_NaN(),
                                  infinity,
                                  -infinity,
                                  -0.0,
                                  -1,
                                  -1e-30,
                                  Limits::denorm_min(),
                                  Limits::min(),
                                  1e-300,
                                  1e-45,
                                  1e-38,
                                  1e-8,
                                  1 + 1e-7,
                                  2,
                                  1e30,
                                  3.4e38,
                                  1e300,
                                  Limits::max(),
                                  -Limits::max(),
                                  Limits::lowest(),
                                  65504,
                                  1e-5,
                                  1e5,
                                  0};
    return numbers[b % (sizeof numbers / sizeof *numbers)];
  }

  std::span<const std::uint8_t> data_;
};

// An error that the bytes ask for.
struct Failure : std::runtime_error {
  Failure() : std::runtime_error("as the bytes say") {}
};

// What must hold after every call. The fuzzer takes the end of the program as a finding.
inline void require(bool holds, const std::source_location& where = std::source_location::current()) {
  if (holds) return;
  std::cerr << where.file_name() << ":" << where.line() << ": this does not hold\n";
  std::abort();
}

}  // namespace fuzz
