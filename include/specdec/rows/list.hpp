// Searches, checks and draws for rows that list their tokens. Samplers for rows that are computed from other rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"

namespace specdec::inline v0_2_0::detail {

/// The first k with support(k) >= x; support_size() if there is none.
template <ListedRow R>
Index lower_bound(const R& row, Index x) {
  return partition_point(row.support_size(), [&](Index k) { return static_cast<Index>(row.support(k)) < x; });
}

/// Throws if x lies outside the vocabulary. Only the id of a drawn token is checked; other ids are trusted.
inline void check_id(Token x, Index vocab_size) {
  if (x < 0 || x >= vocab_size)
    invalid_distribution("id ", x, " is outside the vocabulary 0..", vocab_size - 1);
}

/// Throws if id k of a list is below `least`, at most the previous id plus 1: an id out of order would be read out of bounds.
template <ListedRow R>
void check_ascending(const R& row, Index k, Index least) {
  const Token x = row.support(k);
  if (x >= least) [[likely]]
    return;
  if (x < 0 || k == 0) check_id(x, row.vocab_size());
  invalid_distribution("the ids of a sparse row do not ascend: ids[", k, "] = ", x, ", after ids[", k - 1,
                       "] = ", row.support(k - 1));
}

/// Throws if the ids of a list do not ascend or lie outside the vocabulary. Rows without a list pass.
/// Cost: O(k) for a list of k ids.
template <class R>
void check_list(const R& row) {
  if constexpr (ListedRow<R>) {
    Index least = 0;
    for (Index k = 0; k < row.support_size(); ++k) {
      check_ascending(row, k, least);
      check_id(row.support(k), row.vocab_size());
      least = Index{row.support(k)} + 1;
    }
  }
}

/// The list as a row of its own: position k in place of token support(k).
template <ListedRow R>
class Positions {
 public:
  explicit Positions(const R& row) : row_(row) {}
  static constexpr double rounding_of_small = detail::rounding_of_small<R>;
  Index vocab_size() const { return row_.support_size(); }
  double probability(Token k) const { return row_.listed(k); }
  double sum(Index start, Index count) const {
    double sum = 0;
    for (Index k = start; k < start + count; ++k) sum += row_.listed(k);
    return sum;
  }

 private:
  R row_;
};

/// The inverse distribution function of a row that lists its tokens: it draws a position in the list. If `checks_sum`, a draw
/// throws where it has summed the whole list and the sum is below 0.99; PrefixSampler refuses a sum above 1.01.
template <class R, bool checks_sum = false>  // a ListedRow; the type may be incomplete until a draw
class ListSampler {
 public:
  explicit ListSampler(const R& row) : row_(row), draw_(Positions<R>(row)) {}

  Token operator()(double u) {
    const Token x = row_.support(draw_(u));
    check_id(x, row_.vocab_size());
    if constexpr (checks_sum)
      if (draw_.knows_sum() && !(draw_.sum() >= 0.99 - (most_mass<R>(row_.support_size()) - 1.01))) refuse();
    return x;
  }

 private:
  [[noreturn]] void refuse() const {
    invalid_distribution("the probabilities of a list of ", row_.support_size(), " tokens sum to ",
                         draw_.sum(), ": renormalise them after a cut");
  }

  R row_;
  PrefixSampler<Positions<R>> draw_;
};

/// Draws from a SpreadRow by the sums of its parts.
template <class Row>  // may be incomplete until a draw
class SpreadSampler {
 public:
  explicit SpreadSampler(const Row& row) : row_(row) {}

  Token operator()(double u) { return row_.spread().draw(u, row_); }

 private:
  Row row_;
};

/// Draws from a row in the way that reads least: by its parts, by its list, or by sums of its segments.
template <class Row>
using ComputedSampler =
    std::conditional_t<SpreadRow<Row>, SpreadSampler<Row>,
                       std::conditional_t<ListedRow<Row>, ListSampler<Row>, PrefixSampler<Row>>>;

}  // namespace specdec::detail
