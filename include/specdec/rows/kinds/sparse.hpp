// Sparse rows: a list of tokens and their probabilities, as top-k leaves it.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <iterator>
#include <span>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/given_list.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/token_ids.hpp"

namespace specdec::inline v0_2_0 {
/// A row of probabilities for some tokens only, by ascending id; all other tokens have probability 0.
/// Pre: the probabilities sum to 1. The ids ascend and lie in the vocabulary. A full check would cost O(k), where a look-up
/// costs O(log k), so it is left to validate(). Where a draw reads the whole list (lists of up to 256 tokens), it checks that
/// the sum is right within 1 %, or within the rounding of halves: so a list that was cut and not renormalised is found, unless it
/// is only looked up. If a drafted token is not found in the list, the error names an id that is out of order, if there is
/// one. Ids may be of any integral type. Ids and probabilities must outlive the row; temporary containers are refused.
/// Throws: InvalidArgument if there are not as many ids as probabilities, if the vocabulary is negative, or if it has
/// fewer tokens than the list. InvalidDistribution at a draw from a list whose sum is wrong or 0 (a dead end).
/// Cost: log k steps for a look-up in a list of k tokens, at most k steps for a draw, for any size of the vocabulary.
template <Real S, std::integral Id = Token>
class SparseRow {
 public:
  SparseRow(std::span<const Id> ids, std::span<const S> probabilities, Index vocab_size)
      : ids_(ids), probabilities_(probabilities), vocab_size_(vocab_size) {
    if (ids.size() != probabilities.size())
      detail::invalid_argument("a sparse row has ", ids.size(), " ids, but ", probabilities.size(),
                               " probabilities");
    detail::check_list_size(support_size(), vocab_size);
  }
  template <detail::OwningTemporary Temporary>
  SparseRow(Temporary&& ids, std::span<const S> probabilities, Index vocab_size) = delete;
  template <detail::OwningTemporary Temporary>
  SparseRow(std::span<const Id> ids, Temporary&& probabilities, Index vocab_size) = delete;

  static constexpr bool constant_time_probability = true;  // nearly: it is a binary search
  static constexpr double rounding_of_small = rounding_at_zero<S>;
  static constexpr double rounding = rounding_of_itself<S>;

  Index vocab_size() const { return vocab_size_; }
  Index support_size() const { return std::ssize(ids_); }
  /// An id that does not fit into a Token is returned as the largest Token, which no vocabulary has.
  Token support(Index k) const { return detail::as_token(detail::at(ids_, k)); }
  double listed(Index k) const {
    return static_cast<double>(static_cast<Arithmetic<S>>(detail::at(probabilities_, k)));
  }

  double probability(Token x) const {
    const Index k = detail::lower_bound(*this, x);
    return k < support_size() && support(k) == x ? listed(k) : 0.0;
  }

  double sum(Index start, Index count) const {
    double sum = 0;
    for (Index k = detail::lower_bound(*this, start); k < support_size() && support(k) < start + count; ++k)
      sum += listed(k);
    return sum;
  }

  auto sampler() const { return detail::ListSampler<SparseRow, true>(*this); }

  /// The most probable token, the lowest id among equals.
  /// Throws: InvalidDistribution on NaN, and if no token has positive probability.
  Token argmax() const { return detail::likeliest_of(*this); }

 private:
  std::span<const Id> ids_;
  std::span<const S> probabilities_;
  Index vocab_size_;
};

}  // namespace specdec
