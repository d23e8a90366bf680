// A row of logits in up to 1024 stretches: what a pass leaves of each, and which of them hold tokens that stay after a cut.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "specdec/kernels/machine_width.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The most stretches of a row, and the most logits that are taken at a time.
inline constexpr Index most_stretches = 1024, largest_piece = 2048;

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

/// Writes the largest of each lot of `count` numbers (whole lots). Returns whether one is NaN: the result then means nothing.
template <std::floating_point Scalar>
struct LotMaxima {
  static SPECDEC_KERNEL bool run(const Scalar* numbers, Index count, Scalar* largest) {
    unsigned nan = 0;
    for (Index start = 0; start < count; start += lot) {
      prefetch_ahead(numbers + start);
      const Scalar *a = numbers + start, *b = a + half;
      Scalar m[half];
      for (Index i = 0; i < half; ++i) nan |= static_cast<unsigned>(std::isunordered(a[i], b[i]));
      for (Index i = 0; i < half; ++i) m[i] = a[i] < b[i] ? b[i] : a[i];
      for (Index i = 0; i < 16; ++i) m[i] = m[i] < m[i + 16] ? m[i + 16] : m[i];
      for (Index i = 0; i < 8; ++i) m[i] = m[i] < m[i + 8] ? m[i + 8] : m[i];
      for (Index i = 0; i < 4; ++i) m[i] = m[i] < m[i + 4] ? m[i + 4] : m[i];
      for (Index i = 0; i < 2; ++i) m[i] = m[i] < m[i + 2] ? m[i + 2] : m[i];
      *largest++ = m[0] < m[1] ? m[1] : m[0];
    }
    return nan != 0;
  }

 private:
  static constexpr Index half = lot / 2;
};

/// The largest logit of each stretch, −inf where no token is live.
template <std::floating_point Scalar>
class Peaks {
 public:
  explicit Peaks(Index vocab_size)
      : vocab_size_(vocab_size),
        log2_(log2_of_stretch(vocab_size)),
        size_((vocab_size + (Index{1} << log2_) - 1) >> log2_) {
    std::fill_n(largest_.begin(), whole_lots(), -std::numeric_limits<Scalar>::infinity());
  }

  /// Takes whole lots of logits, at most `largest_piece`, from token x on, a multiple of a lot. Returns the largest, or a NaN.
  Scalar put_largest(const Scalar* logits, Index x, Index count) {
    std::array<Scalar, std::size_t{largest_piece / lot}> of_lots;
    if (run_wide<LotMaxima<Scalar>>(logits, count, of_lots.data()))
      return std::numeric_limits<Scalar>::quiet_NaN();
    for (Index i = 0; i < count / lot; ++i) {
      Scalar& peak = largest_[static_cast<std::size_t>((x + i * lot) >> log2_)];
      peak = std::max(peak, of_lots[static_cast<std::size_t>(i)]);
    }
    const Scalar largest = *std::max_element(of_lots.begin(), of_lots.begin() + count / lot);
    top_ = std::max(top_, largest);
    return largest;
  }

  Index size() const { return size_; }
  Scalar operator[](Index s) const { return largest_[static_cast<std::size_t>(s)]; }
  /// The largest logits, filled up with −inf to whole lots.
  const Scalar* data() const { return largest_.data(); }
  Index whole_lots() const { return (size_ + lot - 1) / lot * lot; }
  /// The largest of all; −inf if there is none.
  Scalar top() const { return top_; }
  /// How many are not −inf.
  Index count() const {
    return std::count_if(data(), data() + size_, [](Scalar l) { return l >= lowest; });
  }
  /// The n-th largest; −inf if there are fewer. Pre: n >= 1.
  Scalar of_rank(Index n) const {
    if (n > size_) return -std::numeric_limits<Scalar>::infinity();
    auto peaks = largest_;
    std::nth_element(peaks.begin(), peaks.begin() + (n - 1), peaks.begin() + size_, std::greater<>());
    return peaks[static_cast<std::size_t>(n - 1)];
  }
  /// The stretches that hold a logit of at least `cut`.
  LiveStretches from(Scalar cut) const {
    return {vocab_size_, [&](Index s) { return (*this)[s] >= cut; }};
  }

 private:
  static constexpr Scalar lowest = std::numeric_limits<Scalar>::lowest();

  Index vocab_size_;
  int log2_;
  Index size_;
  Scalar top_ = -std::numeric_limits<Scalar>::infinity();
  std::array<Scalar, std::size_t{most_stretches}> largest_;
};

}  // namespace specdec::detail
