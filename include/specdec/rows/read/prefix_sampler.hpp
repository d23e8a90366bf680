// Draws from a row by its prefix sums, reading no further than the draw must.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// By how much a small probability of the row may be off, as the row type says with a static member of this name; 0
/// where it does not.
template <class Row>
inline constexpr double rounding_of_small = [] {
  if constexpr (requires { Row::rounding_of_small; }) return static_cast<double>(Row::rounding_of_small);
  else return 0.0;
}();

/// The largest sum of a row of so many probabilities that rounding explains: see PrefixSampler.
template <class Row>
constexpr double most_mass(Index size) {
  if constexpr (rounding_of_small<Row> == 0) return 1.01;
  else return 1.01 + static_cast<double>(size) * rounding_of_small<Row>;
}

}  // namespace detail

/// The inverse distribution function of a row, computed from segment sums that are extended only as far as the
/// largest u asked for: where tokens are ordered by frequency a draw reads a small head of the row.
///
/// Numeric: sums in double across segments. A row that sums to less than 1 (by rounding) is drawn from as if it
/// were normalised; mass beyond 1 is never drawn, and where it is more than rounding it is an error. Rounding may make
/// of 1 up to 1.01 + V·r: a number that is stored in eight bits or more (bfloat16) is off by 1/256 of itself at most,
/// or by r = rounding_of_small next to 0 (2^−25 where numbers are halves, else 0). Tokens of probability 0 are never
/// returned; a row without mass, or with a NaN in a segment that a draw has to read, throws InvalidDistribution; a u
/// that is no number of [0, 1), where it would be past the row's mass or below 0, std::invalid_argument.
/// Cost: amortised one pass over the part of the row that was needed, then a binary search and one segment. No
/// allocation: the segment sums lie inside the object.
template <class Row>  // a SummableRow, complete only by the time of a draw
class PrefixSampler {
 public:
  /// `segment` is the number of tokens summed at a time, for rows that know some sums already.
  explicit PrefixSampler(const Row& row, Index segment = 0)
      : row_(row),
        size_(row.vocab_size()),
        segment_size_(std::max({segment, min_segment, (size_ + max_segments - 1) / max_segments})) {}

  /// Copies what has been summed so far, and no more.
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
    return search(segment, u - (segment == 0 ? 0.0 : sums_[static_cast<std::size_t>(segment - 1)]));
  }

 private:
  static constexpr Index min_segment = 256;
  static constexpr Index max_segments = 512;
  static constexpr Index stretch = 64;  // of a segment, as it is searched

  double most() const { return detail::most_mass<Row>(size_); }

  double total() const { return segments_ == 0 ? 0.0 : sums_[static_cast<std::size_t>(segments_ - 1)]; }

  void extend() {
    const Index count = std::min(segment_size_, size_ - read_);
    prefetch_page(count);
    const double sum = static_cast<double>(row_.sum(read_, count));
    if (!(sum >= 0) || !std::isfinite(sum))
      throw InvalidDistribution(
          detail::message("probabilities of tokens ", read_, "..", read_ + count - 1, " sum to ", sum));
    if (total() + sum > most())
      throw InvalidDistribution(detail::message("probabilities of tokens 0..", read_ + count - 1, " sum to ",
                                                total() + sum, ", which is more than 1"));
    sums_[static_cast<std::size_t>(segments_)] = total() + sum;
    read_ += count;
    ++segments_;
  }

  // A long pass over a row is held up by the translation of addresses, a page at a time: whenever the pass
  // enters a new page (of 4 KiB, if the row holds floats), one entry of a page some way ahead is touched.
  void prefetch_page(Index count) const {
    constexpr Index page = 1024, ahead = 8 * page;
    if (read_ / page != (read_ + count) / page) specdec::prefetch(row_, static_cast<Token>(read_ + ahead));
  }

  // Called where a number that is none of [0, 1) ends up, which is on no way of the others.
  static void check(double u) {
    if (!(u >= 0 && u < 1)) detail::invalid_argument("u = ", u, " is outside [0, 1)");
  }

  // The whole row sums to less than u < 1. Given that, (u − total)/(1 − total) is uniform on [0, 1), so the
  // draw below has the law of the normalised row.
  double wrap(double u) const {
    check(u);
    if (!(total() > 0)) throw InvalidDistribution("the probabilities sum to 0");
    const double v = (u - total()) / (1 - total()) * total();
    return v < total() ? v : 0.0;
  }

  // The token of `segment` at which its running sum passes u: stretch by stretch, then token by token. Where
  // rounding ends the segment before that, its last token that has mass.
  Token search(Index segment, double u) const {
    const Index first = segment * segment_size_, end = std::min(first + segment_size_, size_);
    Index start = first;
    for (; start + stretch < end; start += stretch) {
      const double mass = static_cast<double>(row_.sum(start, stretch));
      if (mass > u) break;
      u -= mass;
    }
    Index chosen = scan(start, end, u);
    if (chosen < 0) check(u);
    if (chosen < 0) chosen = scan(first, end, most());
    if (chosen < 0)
      throw InvalidDistribution(detail::message("tokens ", first, "..", end - 1, " have no positive mass"));
    return static_cast<Token>(chosen);
  }

  // The token from `start` on at which the running sum passes u, else the last one that has mass, else -1.
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
