// A base for rows that are made of other rows: it passes on what these offer, as far as the adaptor keeps it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <type_traits>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/rows/read/largest_probability.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// What an adaptor leaves as it is in the row inside:
///   ids      which token is where, and which may have mass
///   numbers  which probabilities there are, in whatever order
///   all      the probability of each token
enum class Keeps { ids, numbers, all };

/// The members that an adaptor has from the row inside. Self has ask(f), which returns f(row inside); of rows of several
/// types each must offer what is passed on. What is not kept is not passed on: a member that an adaptor forgets is missing,
/// and is not wrong. A member of Self hides the one here; a deleted one is missing.
/// Cost: a call of ask().
template <class Self, Keeps kept, class... R>
class RowAdaptor {
  static constexpr bool ids = kept != Keeps::numbers, numbers = kept != Keeps::ids, all = kept == Keeps::all;
  static constexpr bool listed_rows = (ListedRow<R> && ...);

 public:
  static constexpr bool constant_time_probability = (specdec::constant_time_probability<R> && ...);
  static constexpr double rounding_of_small = std::max({detail::rounding_of_small<R>...});
  static constexpr double rounding = std::max({relative_rounding<R>...});

  // ---- Which tokens there are

  Index vocab_size() const
    requires ids
  {
    return of([](const auto& row) -> Index { return row.vocab_size(); });
  }
  bool possible(Token x) const
    requires ids
  {
    return of([x](const auto& row) { return specdec::possible(row, x); });
  }
  void prefetch(Token x) const
    requires(ids && (Prefetches<R> || ...))
  {
    of([x](const auto& row) { specdec::prefetch(row, x); });
  }
  Index support_size() const
    requires(ids && listed_rows)
  {
    return of([](const auto& row) -> Index { return row.support_size(); });
  }
  Token support(Index k) const
    requires(ids && listed_rows)
  {
    return of([k](const auto& row) -> Token { return row.support(k); });
  }

  // ---- Which probabilities

  bool is_dead_end() const
    requires numbers
  {
    return of([](const auto& row) { return detail::is_dead_end(row); });
  }
  double largest_probability() const
    requires numbers
  {
    return of([](const auto& row) { return detail::largest_probability(row); });
  }

  // ---- The probability of which token

  double probability(Token x) const
    requires all
  {
    return of([x](const auto& row) { return static_cast<double>(row.probability(x)); });
  }
  double log_probability(Token x) const
    requires all
  {
    return of([x](const auto& row) { return specdec::log_probability(row, x); });
  }
  double listed(Index k) const
    requires(all && listed_rows)
  {
    return of([k](const auto& row) { return static_cast<double>(row.listed(k)); });
  }
  Token argmax() const
    requires(all && (ArgmaxRow<R> && ...))
  {
    return of([](const auto& row) { return row.argmax(); });
  }
  double sum(Index start, Index count) const
    requires(all && (SummableRow<R> && ...))
  {
    return of([=](const auto& row) { return static_cast<double>(row.sum(start, count)); });
  }
  Index known_stretch() const
    requires(all && (KnowsStretches<R> || ...))
  {
    return of([](const auto& row) -> Index {
      if constexpr (KnowsStretches<std::remove_cvref_t<decltype(row)>>) return row.known_stretch();
      else return 0;
    });
  }

 private:
  template <class F>
  decltype(auto) of(const F& f) const {
    return static_cast<const Self&>(*this).ask(f);
  }
};

}  // namespace specdec::detail
