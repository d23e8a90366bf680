// Draws from a row by its prefix sums, and reads no more of the row than the draw needs.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The largest sum of `size` probabilities that rounding explains: see PrefixSampler.
template <class Row>
constexpr double most_mass(Index size) {
  if constexpr (rounding_of_small<Row> == 0) return 1.01;
  else return 1.01 + static_cast<double>(size) * rounding_of_small<Row>;
}

}  // namespace detail

/// The inverse distribution function of a row, computed from sums of segments. Tokens of probability 0 are never returned.
/// Throws: InvalidDistribution if the row has no mass, if a segment that the draw reads holds a NaN, or if the mass is above
/// 1 by more than rounding explains. InvalidArgument if u is below 0, NaN, or at least 1 and past the row's mass.
/// Cost: segments are summed only up to the largest u so far, and only once. If tokens are ordered by frequency, a draw reads
/// only the small head of the row. A draw then takes a binary search, and reads one segment. No allocation.
/// Numeric: sums in double across segments. If a row sums to less than 1 (by rounding), draws are as if it were normalised.
/// Mass above 1 is never drawn. Rounding explains a sum of up to 1.01 + V·r: a number with eight or more bits of precision
/// (bfloat16) is off by at most 1/256 of its value, or near 0 by r = rounding_of_small (2^−25 for halves, else 0).
template <class Row>  // a SummableRow; the type may be incomplete until a draw
class PrefixSampler {
 public:
  /// `segment` is the number of tokens per sum, for rows that know such sums already.
  explicit PrefixSampler(const Row& row, Index segment = 0)
      : row_(row),
        size_(row.vocab_size()),
        segment_size_(std::max({segment, min_segment, (size_ + max_segments - 1) / max_segments})) {}

  /// Copies only the sums so far, not the unused part of the array.
  PrefixSampler(const PrefixSampler& other)
      : row_(other.row_),
        size_(other.size_),
        segment_size_(other.segment_size_),
        read_(other.read_),
        segments_(other.segments_) {
    std::copy_n(other.sums_.begin(), segments_, sums_.begin());
  }
  PrefixSampler& operator=(const PrefixSampler&) = delete;

  Token operator()(double u) {
    static_assert(SummableRow<Row>);
    while (read_ < size_ && (segments_ == 0 || !(u < total()))) extend();
    if (segments_ == 0 || !(u < total())) u = wrap(u);
    const auto last = sums_.begin() + segments_;
    const auto found = std::upper_bound(sums_.begin(), last, u);
    const Index segment = std::min<Index>(found - sums_.begin(), segments_ - 1);
    return search(segment, u - (segment == 0 ? 0.0 : detail::at(sums_, segment - 1)));
  }

  /// Whether draws have summed the whole row, and its sum.
  bool knows_sum() const { return read_ == size_; }
  double sum() const { return total(); }

 private:
  static constexpr Index min_segment = 256;
  static constexpr Index max_segments = 512;
  static constexpr Index stretch = 64;  // tokens per step of the search in a segment

  double most() const { return detail::most_mass<Row>(size_); }

  double total() const { return segments_ == 0 ? 0.0 : detail::at(sums_, segments_ - 1); }

  void extend() {
    const Index count = std::min(segment_size_, size_ - read_);
    prefetch_page(count);
    const double sum = static_cast<double>(row_.sum(read_, count));
    if (!(sum >= 0) || !std::isfinite(sum))
      detail::invalid_distribution("probabilities of tokens ", read_, "..", read_ + count - 1, " sum to ",
                                   sum);
    if (total() + sum > most())
      detail::invalid_distribution("probabilities of tokens 0..", read_ + count - 1, " sum to ",
                                   total() + sum, ", which is more than 1");
    detail::at(sums_, segments_) = total() + sum;
    read_ += count;
    ++segments_;
  }

  // The translation of addresses, once per memory page, slows down a long pass over a row. So whenever the pass enters a new
  // page (of 4 KiB, if the row holds floats), it prefetches one entry of a later page.
  void prefetch_page(Index count) const {
    constexpr Index page = 1024, ahead = 8 * page;
    if (read_ / page != (read_ + count) / page) specdec::prefetch(row_, static_cast<Token>(read_ + ahead));
  }

  // A u outside [0, 1) always ends up in one of the rare paths that call this. The usual paths do not pay for the check.
  static void check_number(double u) {
    if (!(u >= 0 && u < 1)) detail::invalid_argument("u = ", u, " is outside [0, 1)");
  }

  // The row sums to less than u < 1. So (u − total)/(1 − total) is uniform on [0, 1): the draw has the normalised row's law.
  double wrap(double u) const {
    check_number(u);
    if (!(total() > 0)) {
      if constexpr (detail::RefusesDraws<Row>)
        if (row_.is_dead_end()) row_.refuse_draw();
      detail::invalid_distribution("the probabilities sum to 0");
    }
    const double v = (u - total()) / (1 - total()) * total();
    return v < total() ? v : 0.0;
  }

  // The token of `segment` at which the running sum passes u: searched by four stretches, by stretches, then by tokens. If the
  // running sum stays below u (by rounding), the last token with mass.
  Token search(Index segment, double u) const {
    const Index first = segment * segment_size_, end = std::min(first + segment_size_, size_);
    Index start = first;
    for (const Index step : {4 * stretch, stretch})
      for (; start + step < end; start += step) {
        const double mass = static_cast<double>(row_.sum(start, step));
        if (mass > u) break;
        u -= mass;
      }
    Index chosen = scan(start, end, u);
    if (chosen < 0) check_number(u);
    if (chosen < 0) chosen = scan(first, end, most());
    if (chosen < 0) detail::invalid_distribution("tokens ", first, "..", end - 1, " have no positive mass");
    return static_cast<Token>(chosen);
  }

  // The token from `start` on at which the running sum passes u; else the last token with mass; else -1.
  Index scan(Index start, Index end, double u) const {
    Index chosen = -1;
    double sum = 0;
    for (Index x = start; x < end && sum <= u; ++x) {
      const double mass = static_cast<double>(row_.probability(static_cast<Token>(x)));
      if (!(mass > 0)) continue;
      chosen = x;
      sum += mass;
    }
    return chosen;
  }

  Row row_;
  Index size_, segment_size_;
  Index read_ = 0, segments_ = 0;
  std::array<double, max_segments> sums_;
};

}  // namespace specdec
