// A row of logits in up to 1024 stretches: the largest logit of each, and which of them hold tokens that stay after a cut.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "specdec/kernels/machine_width.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The most stretches of a row.
inline constexpr Index most_stretches = 1024;

/// 2^this is the length of the stretches of a row: as few lots as there is room for.
constexpr int log2_of_stretch(Index vocab_size) {
  int log2 = 6;
  while ((most_stretches << log2) < vocab_size) ++log2;
  return log2;
}
static_assert(1 << 6 == lot);

/// Which stretches of a row hold tokens with mass. All, until a cut says otherwise. 136 bytes for any vocabulary.
class LiveStretches {
 public:
  /// Those for which is_live(number of the stretch) holds.
  template <std::predicate<Index> F>
  LiveStretches(Index vocab_size, const F& is_live) : log2_(log2_of_stretch(vocab_size)) {
    for (Index s = 0; s << log2_ < vocab_size; ++s)
      words_[static_cast<std::size_t>(s / 64)] |= std::uint64_t{is_live(s)} << (s % 64);
  }
  LiveStretches() = default;

  bool are_all() const { return log2_ == 0; }

  /// Calls f(first, count) for each run of tokens in [start, end) whose stretches are live.
  template <class F>
  void each(Index start, Index end, const F& f) const {
    if (are_all()) {
      if (start < end) f(start, end - start);
      return;
    }
    while ((start = std::max(start, next(start, true))) < end) {
      const Index stop = std::min(end, next(start, false));
      f(start, stop - start);
      start = stop;
    }
  }

 private:
  // The first token of the first stretch, from that of token x on, that is live or is not; a huge number if there is none.
  Index next(Index x, bool live) const {
    Index s = x >> log2_;
    for (std::size_t word = static_cast<std::size_t>(s / 64); word < words_.size(); ++word, s = 0) {
      const std::uint64_t rest = (live ? words_[word] : ~words_[word]) >> (s % 64) << (s % 64);
      if (rest != 0) return (static_cast<Index>(64 * word) + std::countr_zero(rest)) << log2_;
    }
    return std::numeric_limits<Index>::max();
  }

  int log2_ = 0;  // 0: all are live
  std::array<std::uint64_t, most_stretches / 64> words_{};
};

/// The largest logit of each stretch; −inf where no token is live.
template <std::floating_point Scalar>
class Peaks {
 public:
  explicit Peaks(Index vocab_size)
      : vocab_size_(vocab_size),
        log2_(log2_of_stretch(vocab_size)),
        size_((vocab_size + (Index{1} << log2_) - 1) >> log2_) {
    std::fill_n(largest_.begin(), size_, -std::numeric_limits<Scalar>::infinity());
  }

  /// Takes the largest logit of the lot that begins at token x.
  void put(Index x, Scalar largest) {
    Scalar& peak = largest_[static_cast<std::size_t>(x >> log2_)];
    peak = peak < largest ? largest : peak;
  }

  Index size() const { return size_; }
  Scalar operator[](Index s) const { return largest_[static_cast<std::size_t>(s)]; }
  /// The stretches that hold a logit of at least `cut`.
  LiveStretches from(Scalar cut) const {
    return {vocab_size_, [&](Index s) { return (*this)[s] >= cut; }};
  }

 private:
  Index vocab_size_;
  int log2_;
  Index size_;
  std::array<Scalar, std::size_t{most_stretches}> largest_;
};

}  // namespace specdec::detail
