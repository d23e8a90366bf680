// Keyed exponential numbers of tokens, and the token of a row that arrives first.
//
// A key gives each token y an exponential number e(y) of mean 1. The token arrives at the time e(y)/p(y). Token y arrives
// first with probability p(y)/Σp.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "specdec/kernels/machine_width.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The step of the state of SplitMix64 from number to number.
inline constexpr std::uint64_t splitmix_step = 0x9e3779b97f4a7c15u;

/// The number that SplitMix64 computes from its state, before its last step.
SPECDEC_KERNEL std::uint64_t splitmix_before_last(std::uint64_t state) {
  const std::uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  return (z ^ (z >> 27)) * 0x94d049bb133111ebu;
}

/// The number that SplitMix64 computes from its state. Its last step changes all bits but the first 31.
SPECDEC_KERNEL std::uint64_t splitmix_of(std::uint64_t state) {
  const std::uint64_t z = splitmix_before_last(state);
  return z ^ (z >> 31);
}

/// An integer as a double, rounded once. It is converted in two halves: each half fits into the fraction of a double, so no
/// conversion instruction is needed.
SPECDEC_KERNEL double number_of(std::uint64_t n) {
  const double low = std::bit_cast<double>((n & 0xffffffffu) | 0x4330000000000000u) - 0x1p52;
  const double high = std::bit_cast<double>((n >> 32) | 0x4530000000000000u) - 0x1p84;
  return high + low;
}

/// 2·atanh(s)/s = 2·(1 + s²/3 + s⁴/5 + ...), for s² up to 0.03: the next term is beyond the last bit.
SPECDEC_KERNEL double twice_atanh_ratio(double s) {
  SPECDEC_UNFUSED
  constexpr double c[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                          2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  const double x = s * s;
  double sum = c[10];
  sum = sum * x + c[9];
  sum = sum * x + c[8];
  sum = sum * x + c[7];
  sum = sum * x + c[6];
  sum = sum * x + c[5];
  sum = sum * x + c[4];
  sum = sum * x + c[3];
  sum = sum * x + c[2];
  sum = sum * x + c[1];
  return sum * x + c[0];
}

/// −log(1 − u) of u = (bits + ½)/2^64, an exponential number.
/// Numeric: the relative error is at most 2^−50. This holds for improbable tokens, too: they come first only by a small e,
/// and a small e has all bits of u. The least e is 2^−65.
///
/// With 1 − u = m·2^−n and m near 1, −log(1 − u) = n·log 2 − 2·atanh(t/(2 + t)), t = m − 1; −u, not rounded, if n = 0.
SPECDEC_KERNEL double exponential_of(std::uint64_t bits) {
  SPECDEC_UNFUSED
  constexpr std::uint64_t least = std::bit_cast<std::uint64_t>(0x1.6a09e667f3bcdp-1);  // √½
  constexpr std::uint64_t fraction_bits = 52;
  const double u = (number_of(bits) + 0.5) * 0x1p-64;
  const double rest = (number_of(~bits) + 0.5) * 0x1p-64;
  // If the difference is negative, its first 12 bits are all 1; plus 1 they give 0 halvings.
  const std::uint64_t halvings =
      (1 + ((least - 1 - std::bit_cast<std::uint64_t>(rest)) >> fraction_bits)) & 0xfffu;
  const double m = std::bit_cast<double>(std::bit_cast<std::uint64_t>(rest) + (halvings << fraction_bits));
  const double t = u < 0.29 ? -u : m - 1;
  const double s = t / (2 + t);
  return number_of(halvings) * std::numbers::ln2 - s * twice_atanh_ratio(s);
}

/// i·splitmix_step for each i of a lot: to compute it there would be a third multiplication for each token.
struct LotOfSteps {
  std::uint64_t of[lot] = {};
  constexpr LotOfSteps() {
    for (Index i = 1; i < lot; ++i) of[i] = of[i - 1] + splitmix_step;
  }
};
inline constexpr LotOfSteps splitmix_steps;

/// Tokens with consecutive ids.
struct ConsecutiveTokens {
  Index first;

  SPECDEC_KERNEL Token operator[](Index i) const { return static_cast<Token>(first + i); }
  /// The tokens from token i on.
  SPECDEC_KERNEL ConsecutiveTokens from(Index i) const { return {first + i}; }
  /// The state from which SplitMix64 computes the random bits of token i of a lot.
  SPECDEC_KERNEL std::uint64_t state(std::uint64_t key, Index i) const {
    return key + static_cast<std::uint64_t>(first + 1) * splitmix_step + splitmix_steps.of[i];
  }
};

/// Tokens of a list.
struct ListedTokens {
  const Token* ids;

  SPECDEC_KERNEL Token operator[](Index i) const { return ids[i]; }
  SPECDEC_KERNEL ListedTokens from(Index i) const { return {ids + i}; }
  SPECDEC_KERNEL std::uint64_t state(std::uint64_t key, Index i) const {
    return key + (static_cast<std::uint64_t>(ids[i]) + 1) * splitmix_step;
  }
};

/// A token, and when it arrives.
struct Arrival {
  double time = std::numeric_limits<double>::infinity();
  Token token = -1;          ///< none
  bool has_bad_row = false;  ///< whether a number was no probability
};

/// The first arrival among `count` tokens (whole lots) and `first`, an earlier result, which wins among equals. Token y has
/// number y of SplitMix64 seeded with the key. Tokens of probability 0 do not arrive.
///
/// Since e >= u, a token with u/p after the first arrival so far cannot be first. The first 31 bits of u show this for nearly
/// all tokens, so few logarithms are needed. Nothing bounds u before it is computed: every token with p > 0 costs the two
/// multiplications of 64 bits in SplitMix64.
template <std::floating_point Scalar, class Tokens>
struct FirstArrival {
  static SPECDEC_KERNEL Arrival run(const Scalar* p, Index count, Tokens tokens, std::uint64_t key,
                                    Arrival first) {
    for (Index start = 0; start < count; start += lot) {
      const Seen seen = look_over(p + start);
      first.has_bad_row |= seen.bad;
      if (first.has_bad_row) return first;
      if (!seen.mass) continue;  // nearly all lots of a row that was cut
      const Tokens those = tokens.from(start);
      if (one_may_be_before(first.time, p + start, those, key)) look_at(p + start, those, key, first);
    }
    return first;
  }

 private:
  static constexpr double more_than_rounding = 1 + 0x1p-20;

  struct Seen {
    bool mass, bad;
  };

  // Whether one of the numbers of a lot may be positive, and whether one is no probability. The bits of all numbers together
  // are those of numbers in [0, 2), unless there is a rounding error, or a number that is none.
  static SPECDEC_KERNEL Seen look_over(const Scalar* p) {
    if constexpr (sizeof(Scalar) <= sizeof(std::uint64_t)) {
      using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
      Bits bits = 0;
      for (Index i = 0; i < lot; ++i) bits |= std::bit_cast<Bits>(p[i]);
      if (bits < std::bit_cast<Bits>(Scalar{2})) return {bits != 0, false};
    }
    unsigned bad = 0;
    for (Index i = 0; i < lot; ++i)
      bad |= static_cast<unsigned>(!(p[i] >= 0)) |
             static_cast<unsigned>(!(p[i] <= std::numeric_limits<Scalar>::max()));
    return {true, bad != 0};
  }

  // Compares u·2^31, rounded down. If the product is too small for a Scalar, it is 0 at least, and so is what is compared.
  static SPECDEC_KERNEL bool one_may_be_before(double time, const Scalar* p, const Tokens& tokens,
                                               std::uint64_t key) {
    const double latest = time * more_than_rounding * 0x1p31;
    const Scalar most = latest <= static_cast<double>(std::numeric_limits<Scalar>::max())
                            ? static_cast<Scalar>(latest)
                            : std::numeric_limits<Scalar>::infinity();
    unsigned before = 0;
    for (Index i = 0; i < lot; ++i) {
      const auto u = static_cast<std::int32_t>(splitmix_before_last(tokens.state(key, i)) >> 33);
      before |= static_cast<unsigned>(static_cast<Scalar>(u) <= most * p[i]);
    }
    return before != 0;
  }

  static SPECDEC_KERNEL void look_at(const Scalar* p, const Tokens& tokens, std::uint64_t key,
                                     Arrival& first) {
    for (Index i = 0; i < lot; ++i) {
      const auto p_i = static_cast<double>(p[i]);
      const std::uint64_t bits = splitmix_of(tokens.state(key, i));
      if (!(p_i > 0) || number_of(bits) > first.time * more_than_rounding * 0x1p64 * p_i) continue;
      const double time = exponential_of(bits) / p_i;
      if (first.token >= 0 && !(time < first.time)) continue;
      first.time = time;
      first.token = tokens[i];
    }
  }
};

}  // namespace specdec::detail
