// The keyed draw from a row: the token with the first arrival (see kernels/arrivals.hpp).
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "specdec/error.hpp"
#include "specdec/kernels/arrivals.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/each_segment.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Finds the token of a row that arrives first.
class FirstOfRow {
 public:
  explicit FirstOfRow(std::uint64_t key) : key_(key) {}

  /// Reads a row, or a part of a row. Token 0 of the part is token `from` of the whole row.
  template <Distribution R>
  void look_at(const R& row, Index from = 0) {
    each_segment(row, [&](const auto& ids, const auto& segment) {
      const auto& p = side_by_side(segment);
      const Index count = p.size(), first = from + ids(0);
      const bool consecutive = ids(count - 1) - ids(0) == count - 1;
      if (consecutive) look_at_stretch(p.data(), count, first);
      else look_at_list(p.data(), count, [&](Index k) { return static_cast<Token>(from + ids(k)); });
      if (first_.has_bad_row) refuse(p, ids, from);
    });
  }

  const Arrival& first() const { return first_; }
  Token token() const {
    if (first_.token < 0) invalid_distribution("no token has positive probability");
    return first_.token;
  }

 private:
  template <class Scalar, class Tokens>
  void run(const Scalar* p, Index count, Tokens tokens) {
    first_ = run_wide<FirstArrival<Scalar, Tokens>>(p, count, tokens, key_, first_);
  }

  // The last, partial lot is filled up with tokens that do not arrive.
  template <class Scalar>
  void look_at_stretch(const Scalar* p, Index count, Index first) {
    const Index whole = count / lot * lot;
    if (whole > 0) run(p, whole, ConsecutiveTokens{first});
    if (whole == count) return;
    std::array<Scalar, lot> rest{};
    std::copy(p + whole, p + count, rest.begin());
    run(static_cast<const Scalar*>(rest.data()), lot, ConsecutiveTokens{first + whole});
  }

  template <class Scalar, class IdOf>
  void look_at_list(const Scalar* p, Index count, const IdOf& id_of) {
    std::array<Token, lot> ids;
    std::array<Scalar, lot> numbers;
    for (Index start = 0; start < count; start += lot) {
      const Index n = std::min(lot, count - start);
      ids.fill(0);
      numbers.fill(0);
      std::copy_n(p + start, n, numbers.begin());
      for (Index i = 0; i < n; ++i) at(ids, i) = id_of(start + i);
      run(static_cast<const Scalar*>(numbers.data()), lot, ListedTokens{ids.data()});
    }
  }

  template <class P, class IdOf>
  [[noreturn]] static void refuse(const P& p, const IdOf& ids, Index from) {
    Index k = 0;
    while (k + 1 < p.size() && is_probability(static_cast<double>(p[k]))) ++k;
    invalid_distribution("the probability of token ", from + ids(k), " is ", p[k]);
  }

  std::uint64_t key_;
  Arrival first_;
};

/// The token of a row that arrives first.
/// Throws: InvalidDistribution if a number is no probability, or if no token has a positive probability.
template <Distribution R>
Token first_to_arrive(const R& row, std::uint64_t key) {
  if constexpr (SpreadRow<R>) {
    return row.spread().first_to_arrive(row, [key](const auto& part, Index first) {
      FirstOfRow mine(key);
      mine.look_at(part, first);
      return mine.first();
    });
  } else {
    FirstOfRow all(key);
    all.look_at(row);
    check_id(all.token(), row.vocab_size());
    return all.token();
  }
}

}  // namespace specdec::detail
