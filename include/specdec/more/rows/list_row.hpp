// Rows as engines keep them: lists of structs, each with an id and a probability or a logit, in any order.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>  // and std::ranges::contiguous_range: <ranges> takes a while to compile
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/given_list.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/token_ids.hpp"

namespace specdec::inline v0_2_0 {

/// Says that a list holds logits: the member, and the temperature that they are divided by.
///
///   ListRows{candidates, &Candidate::id, ListedLogits{&Candidate::logit, 0.8}, vocab_size}
template <class T, Real S>
struct ListedLogits {
  S T::*logit;
  double temperature = 1;
};

template <class T, Real S>
ListedLogits(S T::*) -> ListedLogits<T, S>;
template <class T, Real S>
ListedLogits(S T::*, double) -> ListedLogits<T, S>;

/// One row as a list of structs, in any order: the tokens that are left after top-k and top-p, or the whole vocabulary. All
/// other tokens have probability 0. The list is read where it lies; it must outlive the row.
///
///   struct Candidate { std::int32_t id; float logit, p; };                         // as in llama.cpp
///   ListRow row{std::span<const Candidate>(candidates), &Candidate::id, &Candidate::p, vocab_size};
///
/// Logits are normalised over the list: p(x) = exp(l(x)/T) / Σ exp(l/T). At temperature 0 the largest logit has probability
/// 1; among equals, the lowest id.
/// Pre: no id is listed twice. The ids of drawn tokens are checked, the others are taken on trust: see validate().
/// Throws: InvalidArgument on a negative vocabulary or temperature, and if the list has more tokens than the
/// vocabulary. InvalidDistribution if a list of up to `checked_size` probabilities sums neither to 1 within 1e-3 nor to 0, as
/// after a cut without renormalisation, or if one of them is NaN or negative; on a logit that is NaN or +inf. A list without
/// a positive probability, or without a finite logit, is a dead end (rows/read/dead_end.hpp): a draw from it throws.
/// Cost: two passes over the list when the row is made of logits; one for up to `checked_size` probabilities. A look-up takes
/// up to k steps in a list of k tokens, or one step if token x stands at place x. A draw takes up to k steps. What reads a
/// whole row (entropy, a sum of a residual) takes k steps for each 1024 tokens of the vocabulary: for a list of the whole
/// vocabulary, pass rows of plain numbers. A copy of a row copies the list.
/// Example: examples/engine/verify_candidates.cpp
template <class T, std::integral Id, Real S>
class ListRow {
 public:
  /// Probabilities of longer lists are not summed.
  static constexpr std::size_t checked_size = 256;

  ListRow(std::span<const T> list, Id T::*id, S T::*probability, Index vocab_size)
      : ListRow(list, id, probability, vocab_size, false) {
    if (list.size() > checked_size) return;
    detail::check_sum(InPlace{*this}, "renormalise them after a cut, or pass logits");
  }

  ListRow(std::span<const T> list, Id T::*id, ListedLogits<T, S> logits, Index vocab_size)
      : ListRow(list, id, logits.logit, vocab_size, true) {
    if (!(logits.temperature >= 0))
      detail::invalid_argument("temperature = ", logits.temperature, " is not a number >= 0");
    normalise(1 / logits.temperature);
  }

  static constexpr double rounding_of_small = rounding_at_zero<S>;
  static constexpr double rounding = rounding_of_itself<S>;

  Index vocab_size() const { return vocab_size_; }

  /// The list that the row reads.
  std::span<const T> list() const { return list_; }
  /// The row over a copy of its list.
  ListRow over(std::span<const T> copy) const {
    ListRow row = *this;
    row.list_ = copy;
    return row;
  }

  double probability(Token x) const {
    const Index k = place_of(x);
    return k < size() ? listed(k) : 0.0;
  }

  double sum(Index start, Index count) const {
    double sum = 0;
    for (Index k = 0; k < size(); ++k)
      if (start <= id_at(k) && id_at(k) - start < count) sum += listed(k);
    return sum;
  }

  /// The probabilities of `count` <= max_segment_size tokens from `start` on.
  auto segment(Index start, Index count) const {
    using Segment = detail::GatheredSegment<ListRow>;
    Segment out = Segment::Zero(count);
    for (Index k = 0; k < size(); ++k)
      if (start <= id_at(k) && id_at(k) - start < count) out[id_at(k) - start] = listed(k);
    return out;
  }

  auto sampler() const { return detail::ListSampler<InPlace>(InPlace{*this}); }

  /// The most probable token, the lowest id among equals.
  /// Throws: InvalidDistribution on NaN, and if no token has positive probability.
  Token argmax() const { return detail::likeliest_of(InPlace{*this}); }

 private:
  // The list for a sampler: it draws a place, in whatever order the list has.
  struct InPlace {
    ListRow row;
    static constexpr double rounding_of_small = ListRow::rounding_of_small;
    static constexpr double rounding = ListRow::rounding;
    Index vocab_size() const { return row.vocab_size(); }
    Index support_size() const { return row.size(); }
    Token support(Index k) const { return row.id_at(k); }
    double listed(Index k) const { return row.listed(k); }
  };

  ListRow(std::span<const T> list, Id T::*id, S T::*value, Index vocab_size, bool logits)
      : list_(list), id_(id), value_(value), vocab_size_(vocab_size), logits_(logits) {
    detail::check_list_size(size(), vocab_size);
  }

  Index size() const { return std::ssize(list_); }
  const T& at(Index k) const { return detail::at(list_, k); }
  // An id that does not fit into a Token is the largest Token, which no vocabulary has.
  Token id_at(Index k) const { return detail::as_token(at(k).*id_); }
  double value(Index k) const { return static_cast<double>(static_cast<Arithmetic<S>>(at(k).*value_)); }
  double listed(Index k) const {
    if (!logits_) return value(k);
    if (scale_ == 0) return k == largest_ ? 1.0 : 0.0;  // temperature 0
    return scale_ * std::exp((value(k) - shift_) * inverse_temperature_);
  }

  // Where token x stands; size() if it is not in the list. A whole vocabulary stands in the order of its ids.
  Index place_of(Token x) const {
    if (x < size() && id_at(x) == x) return x;
    Index k = 0;
    while (k < size() && id_at(k) != x) ++k;
    return k;
  }

  void normalise(double inverse_temperature) {
    for (Index k = 0; k < size(); ++k) {
      const double l = value(k);
      if (!(l < std::numeric_limits<double>::infinity()))
        detail::invalid_distribution("the logit of token ", id_at(k), " is ", l);
      if (largest_ < 0 || l > value(largest_) || (l == value(largest_) && id_at(k) < id_at(largest_)))
        largest_ = k;
    }
    if (largest_ < 0 || std::isinf(value(largest_))) {
      largest_ = -1;  // a dead end: all probabilities are 0
      return;
    }
    if (!std::isfinite(inverse_temperature)) return;
    shift_ = value(largest_);
    inverse_temperature_ =
        std::max(inverse_temperature, std::numeric_limits<double>::min());  // 0·(−inf) is NaN
    double sum = 0;
    scale_ = 1;
    for (Index k = 0; k < size(); ++k) sum += listed(k);
    scale_ = 1 / sum;
  }

  std::span<const T> list_;
  Id T::*id_;
  S T::*value_;
  Index vocab_size_;
  bool logits_;
  // Of logits: p = scale·exp((l − shift)/T); a scale of 0 says that T is 0, or that no logit is finite.
  Index largest_ = -1;
  double shift_ = 0, inverse_temperature_ = 0, scale_ = 0;
};

/// Copies the list, not the vocabulary.
template <std::copyable T, std::integral Id, Real S>
class RowCopy<ListRow<T, Id, S>> {
 public:
  using View = ListRow<T, Id, S>;

  View assign(const View& row) & {
    copy_.assign(row.list().begin(), row.list().end());
    return row.over(copy_);
  }

 private:
  std::vector<T> copy_;
};

/// A matrix whose row i is lists[i], a list of structs as in ListRow. Lists may differ in length. They must outlive the
/// matrix; a temporary container of lists is refused.
///
///   std::vector<std::vector<Candidate>> target, draft;
///   verifier(ListRows{target, &Candidate::id, &Candidate::p, vocab_size}, ListRows{draft, ...}, tokens, rng)
///
/// Throws: as ListRow, when a row is read; the error names the matrix and the row.
template <std::ranges::contiguous_range List, class Id, class Value>
class ListRows {
  using T = std::ranges::range_value_t<List>;

 public:
  ListRows(std::span<const List> lists, Id T::*id, Value value, Index vocab_size)
      : lists_(lists), id_(id), value_(value), vocab_size_(vocab_size) {
    if (vocab_size < 0) detail::invalid_argument("lists have a vocabulary of ", vocab_size, " tokens");
  }
  template <detail::OwningTemporary Temporary>
  ListRows(Temporary&& lists, Id T::*id, Value value, Index vocab_size) = delete;

  Index rows() const { return std::ssize(lists_); }
  Index vocab_size() const { return vocab_size_; }
  auto row(Index i) const {
    const List& list = detail::at(lists_, i);
    return ListRow(std::span<const T>(std::ranges::data(list), std::ranges::size(list)), id_, value_,
                   vocab_size_);
  }

 private:
  std::span<const List> lists_;
  Id T::*id_;
  Value value_;
  Index vocab_size_;
};

template <class Lists, class T, class Id, class Value>
ListRows(const Lists&, Id T::*, Value, Index) -> ListRows<std::ranges::range_value_t<Lists>, Id, Value>;

}  // namespace specdec
