// Keyed chance: random numbers that depend on the position in the text only. Target and drafter share them.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/first_arrival.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// False. It depends on a template argument, so a static_assert on it fails only where the template is used.
template <class>
inline constexpr bool never = false;

}  // namespace detail

/// A source of chance that has random numbers of its own for each position of a text. Target and drafter draw the token at a
/// position with equal numbers. From equal rows they draw the same token; from similar rows they nearly always do.
///
///   specdec::Keyed keyed{seed};
///   decoder.generate(prompt, options, keyed);          // SpecDec of a KeyedVerifier
///
/// The draw from a row at position n is the token y with the least e(seed, n, y)/row(y); among equals, the lowest id. The e
/// are independent exponential numbers of mean 1. So y is drawn with probability row(y), and draws at different positions
/// are independent. The loop sets the position. By hand, call stand_at(number of context tokens). Then draw(row, i) draws for the
/// position i tokens further, in any order of calls. draw(row) draws for the current position and moves on by one token.
///
/// Use one seed for one text. Equal seeds and equal prompts give equal texts: that is the purpose. Texts of one seed and
/// different prompts share random numbers, so they are not independent. coin() and race() do not compile, on purpose: a rule that
/// accepts by ratios needs random numbers that are independent of the draft, which was drawn with these: it would bias the text.
/// Source: Gumbel-max coupling: Daliri, Musco, Suresh, arXiv:2408.07978; as a race of exponentials there and in arXiv:2506.05632.
/// Throws: InvalidDistribution if a probability is negative or not finite, or if no token has a positive probability. The
/// position has not moved then.
/// Random: e(seed, n, y) = −log(1 − (b + ½)/2^64). b is number y, counted from 0, of SplitMix64(k). k is the first number of
/// SplitMix64(n + s), with n + s modulo 2^64. s is the first number of SplitMix64(seed).
/// Cost: one pass over the row, or over its list if it has one; a hash for each token, and a logarithm for few tokens. If
/// the row is spread over ranks, each rank reads its own columns, and two numbers are exchanged once. No allocation.
/// Numeric: the relative error of e is at most 2^−50, so a token's probability is off by at most 1e-15 (beside the rounding
/// of the row's own numbers). The result is equal to the bit on all processors.
class Keyed {
 public:
  explicit Keyed(std::uint64_t seed, Index position = 0) : seed_(seed), position_(position) {}

  /// Sets the position of the next draw: the number of tokens before it, prompt included.
  void stand_at(Index position) { position_ = position; }
  Index position() const { return position_; }

  /// Draws for the current position, then moves on by one token.
  template <Distribution R>
  Token draw(const R& row) {
    const Token token = draw(row, 0);
    ++position_;
    return token;
  }
  /// Draws for the position `place` tokens further. Does not move.
  template <Distribution R>
  Token draw(const R& row, Index place) const {
    return detail::in_name_of(row, [&] { return detail::first_to_arrive(row, key(place)); });
  }

  template <class W>
  bool coin(W) {
    refuse<W>();
    return false;
  }
  template <class W, class... Rows>
  std::optional<Token> race(W, const Rows&...) {
    refuse<W>();
    return {};
  }

 private:
  template <class T>
  static void refuse() {
    static_assert(detail::never<T>,
                  "the numbers of a specdec::Keyed are those that the draft was drawn by: a rule of ratios "
                  "would bias the text with them: use KeyedVerifier");
  }

  std::uint64_t key(Index place) const {
    return SplitMix64(SplitMix64(seed_)() + static_cast<std::uint64_t>(position_ + place))();
  }

  std::uint64_t seed_;
  Index position_;
};

}  // namespace specdec
