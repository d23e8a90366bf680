// Reads two rows together. A row lists the tokens that may have mass (ListedRow), or offers segments (SegmentedRow), or answers for
// one token at a time. Each mix is read in its own way, so a new type of row works with residuals and overlaps at full speed.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>

#include "specdec/kernels/machine_width.hpp"
#include "specdec/kernels/reductions.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"

namespace specdec::inline v0_2_0::detail {

/// Adds factor·row(x) to out[x − start] for each token x from `start` on, up to the end of `out` or of the row.
template <Distribution R>
void add_stretch(const R& row, double factor, Index start, GatheredSegment<R>& out) {
  const Index end = std::min<Index>(start + out.size(), row.vocab_size());
  if (start >= end) return;
  if constexpr (ListedRow<R>) {
    Index least = start;
    for (Index k = lower_bound(row, start); k < row.support_size() && row.support(k) < end; ++k) {
      check_ascending(row, k, least);
      least = Index{row.support(k)} + 1;
      out[row.support(k) - start] += factor * static_cast<double>(row.listed(k));
    }
  } else if constexpr (SegmentedRow<R>) {
    out.head(end - start) += factor * row.segment(start, end - start).template cast<double>().array();
  } else {
    for (Index x = start; x < end; ++x)
      out[x - start] += factor * static_cast<double>(row.probability(static_cast<Token>(x)));
  }
}

// Sums of f(p(x), q(x)) over the tokens start..end-1, which are in p's vocabulary. f must be 0 where p(x) is 0.
//
//   f(p, q)                 for one token; f(0, 0) = 0; SPECDEC_KERNEL, because a kernel calls it
//   f.alone(p, start, end)  Σ over a stretch of row p where q is 0
//   F::TokenByToken         if there is such a type, segments are not used

/// p has a list: only the tokens on it count. If q has a list, too, the two lists are merged.
template <class F, ListedRow P, Distribution Q>
double sum_over_list(const F& f, const P& p, const Q& q, Index start, Index end) {
  double sum = 0;
  [[maybe_unused]] Index j = 0;
  if constexpr (ListedRow<Q>) j = lower_bound(q, start);
  for (Index k = lower_bound(p, start); k < p.support_size() && p.support(k) < end; ++k) {
    const Token x = p.support(k);
    check_ascending(p, k, start);
    start = Index{x} + 1;
    double q_x = 0;
    if constexpr (ListedRow<Q>) {
      while (j < q.support_size() && q.support(j) < x) ++j;
      if (j < q.support_size() && q.support(j) == x) q_x = q.listed(j);
    } else {
      q_x = specdec::probability(q, x);
    }
    sum += f(p.listed(k), q_x);
  }
  return sum;
}

/// Only q has a list: between the tokens on it, f.alone sums p.
template <class F, Distribution P, ListedRow Q>
double sum_around_list(const F& f, const P& p, const Q& q, Index start, Index end) {
  double sum = 0;
  for (Index k = lower_bound(q, start); k < q.support_size() && q.support(k) < end; ++k) {
    const Token x = q.support(k);
    check_ascending(q, k, start);
    sum += f.alone(p, start, x) + f(p.probability(x), q.listed(k));
    start = Index{x} + 1;
  }
  return sum + f.alone(p, start, end);
}

/// Σ f(p[i], q[i]) over numbers in memory. The last lot is filled up with zeros.
template <class F, class P, class Q>
double sum_of_pairs(const F& f, const P* p, const Q* q, Index count) {
  using Sum = PairSum<F, P, Q>;
  const Index whole = count / lot * lot;
  const double sum = run_wide<Sum>(f, p, q, whole);
  if (whole == count) return sum;
  std::array<P, lot> p_rest{};
  std::array<Q, lot> q_rest{};
  std::copy(p + whole, p + count, p_rest.begin());
  std::copy(q + whole, q + count, q_rest.begin());
  return sum +
         run_wide<Sum>(f, static_cast<const P*>(p_rest.data()), static_cast<const Q*>(q_rest.data()), lot);
}

/// One pass over both rows.
template <class F, SegmentedRow P, SegmentedRow Q>
double sum_over_segments(const F& f, const P& p, const Q& q, Index start, Index end) {
  double sum = 0;
  for (; start < end; start += max_segment_size) {
    const Index count = std::min(max_segment_size, end - start);
    const auto& p_segment = p.segment(start, count);
    const auto& q_segment = q.segment(start, count);
    const auto& p_numbers = side_by_side(p_segment);
    const auto& q_numbers = side_by_side(q_segment);
    sum += sum_of_pairs(f, p_numbers.data(), q_numbers.data(), count);
  }
  return sum;
}

template <class F, Distribution P, Distribution Q>
double sum_over(const F& f, const P& p, const Q& q, Index start, Index end);

/// For rows that are spread over ranks: each rank sums over its own part of both rows.
template <class F, Distribution P, Distribution Q>
double sum_over_parts(const F& f, const P& p, const Q& q, Index start, Index end) {
  const auto sum = [&](const auto& spread) {
    return spread.sum(start, end, [&](const auto& part, Index from, Index to) {
      return sum_over(f, part(p), part(q), from, to);
    });
  };
  if constexpr (SpreadRow<P>) return sum(p.spread());
  else if (q.vocab_size() >= end) return sum(q.spread());
  else return sum(q.spread()) + f.alone(p, std::max<Index>(start, q.vocab_size()), end);
}

/// Σ f(p(x), q(x)), in the way that reads the fewest numbers.
template <class F, Distribution P, Distribution Q>
double sum_over(const F& f, const P& p, const Q& q, Index start, Index end) {
  constexpr bool p_may_stand_alone =
      requires { f.alone(p, start, end); } && !requires { typename F::TokenByToken; };
  if constexpr (SpreadRow<P> || SpreadRow<Q>) {
    return sum_over_parts(f, p, q, start, end);
  } else if constexpr (ListedRow<P>) {
    return sum_over_list(f, p, q, start, end);
  } else if constexpr (ListedRow<Q> && p_may_stand_alone) {
    return sum_around_list(f, p, q, start, end);
  } else if constexpr (SegmentedRow<P> && SegmentedRow<Q> && p_may_stand_alone) {
    const Index common = std::clamp<Index>(q.vocab_size(), start, end);
    return sum_over_segments(f, p, q, start, common) + f.alone(p, common, end);
  } else {
    double sum = 0;
    for (Index x = start; x < end; ++x) {
      const auto token = static_cast<Token>(x);
      sum += f(static_cast<double>(p.probability(token)), specdec::probability(q, token));
    }
    return sum;
  }
}

}  // namespace specdec::detail
