// Fractions: finds the exact probability behind a number that was computed in double.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace vectors {

// A probability, in lowest terms.
struct Fraction {
  std::int64_t numerator = 0, denominator = 1;

  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  std::string text() const { return std::to_string(numerator) + "/" + std::to_string(denominator); }
};

inline constexpr std::int64_t largest_denominator = 1 << 20;
inline constexpr double largest_error = 1e-14;

// The fraction within `largest_error` of a number, whose denominator is at most `largest_denominator`; nothing if there is none.
// There is one at most, as two such fractions are at least 2^-40 apart. If there is one, it is a convergent of the number's
// continued fraction: all fractions a/b that are nearer to it than 1/(2b²) are.
inline std::optional<Fraction> fraction_of(double number) {
  Fraction before{1, 0}, last{0, 1};
  if (!(number >= 0 && number <= 1 + largest_error)) return std::nullopt;
  if (number >= 1) return Fraction{1, 1};
  for (double rest = number; std::abs(last.value() - number) > largest_error;) {
    // The first term of a number below 1 is 0, which `last` is. The next terms are those of 1/rest.
    rest = 1 / (rest - std::floor(rest));
    if (!(rest <= static_cast<double>(largest_denominator))) return std::nullopt;
    const auto term = static_cast<std::int64_t>(std::floor(rest));
    const Fraction next{term * last.numerator + before.numerator,
                        term * last.denominator + before.denominator};
    if (next.denominator > largest_denominator) return std::nullopt;
    before = last;
    last = next;
  }
  return last;
}

// Whether the fractions sum to exactly 1, in integers. Also false if they have no common denominator up to 2^42: the fractions of a
// law have a small one, and numbers that only look like fractions have not.
inline bool sum_to_one(const std::vector<Fraction>& parts) {
  constexpr std::int64_t largest_common = std::int64_t{1} << 42;
  std::int64_t common = 1, sum = 0;
  for (const Fraction& part : parts) {
    common = std::lcm(common, part.denominator);
    if (common > largest_common) return false;
  }
  for (const Fraction& part : parts) sum += part.numerator * (common / part.denominator);
  return sum == common;
}

}  // namespace vectors
