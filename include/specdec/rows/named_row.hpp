// A row that knows its matrix and its number, so that errors name them.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"

namespace specdec::inline v0_2_0::detail {

/// From 0 to 1, but for rounding: a sum of probabilities in bfloat16 may be off by 2^−8. False for NaN.
inline bool is_probability(double value) { return value >= 0 && value <= 1 + 0x1p-8; }

/// Calls f(). An InvalidDistribution from f is rethrown with the row's name, unless it names a row already.
template <class F>
auto in_row(const auto& matrix, Index i, F&& f) {
  return with_error(std::forward<F>(f),
                    [&](const InvalidDistribution& error) { return error.in(matrix, i); });
}

/// Calls f(). If the row, or the one that it is computed from, has a name, as the rows of a Drafted have, errors get it.
template <class R, class F>
auto in_name_of(const R& row, F&& f) {
  if constexpr (HasName<R>) return row.named(f);
  else return f();
}

/// Row i of the matrix called `matrix`. Row and name must outlive it. Each probability that is looked up must lie in [0, 1].
template <Distribution R>
class NamedRow {
 public:
  NamedRow(const R& row, const char* matrix, Index i) : row_(&row), matrix_(matrix), i_(i) {}

  Index vocab_size() const { return row_->vocab_size(); }

  void prefetch(Token x) const { specdec::prefetch(*row_, x); }

  bool possible(Token x) const {
    check_id(x);
    return named([&] { return specdec::possible(*row_, x); });
  }

  /// 0 for ids above the vocabulary.
  double probability(Token x) const {
    if (static_cast<std::size_t>(x) >= static_cast<std::size_t>(vocab_size())) [[unlikely]]
      return check_id(x), 0.0;
    return checked(x, named([&] { return static_cast<double>(row_->probability(x)); }));
  }
  static constexpr bool answers_any_id = true;

  Token argmax() const
    requires ArgmaxRow<R>
  {
    return named([&] { return row_->argmax(); });
  }

  auto sampler() const {
    return [row = *this, draw = named([&] { return row_->sampler(); })](double u) mutable {
      return row.named([&] { return draw(u); });
    };
  }

  auto segment(Index start, Index count) const
    requires SegmentedRow<R>
  {
    check_range(start, count, vocab_size());
    return named([&] { return row_->segment(start, count); });
  }

  double sum(Index start, Index count) const
    requires SummableRow<R>
  {
    check_range(start, count, vocab_size());
    return named([&] { return static_cast<double>(row_->sum(start, count)); });
  }

  Index support_size() const
    requires ListedRow<R>
  {
    return row_->support_size();
  }
  Token support(Index k) const
    requires ListedRow<R>
  {
    check_range(k, 1, support_size());
    return row_->support(k);
  }
  double listed(Index k) const
    requires ListedRow<R>
  {
    return checked(support(k), row_->listed(k));
  }

  auto spread() const
    requires SpreadRow<R>
  {
    return row_->spread();
  }
  template <class Part>
  auto made_of(const Part& part) const {
    return part(*row_);
  }

  /// The row itself.
  const R& unnamed() const { return *row_; }

  /// Calls f(); errors get the row's name: see in_row().
  template <class F>
  auto named(F&& f) const {
    return in_row(matrix_, i_, std::forward<F>(f));
  }

 private:
  void check_id(Token x) const {
    if (x < 0) [[unlikely]]
      invalid_argument("the ", matrix_, " row ", i_, " is asked about token ", x);
  }
  void check_range(Index start, Index count, Index size) const {
    if (start < 0 || count < 0 || count > size - start) [[unlikely]]
      refuse(start, count, size);
  }
  [[noreturn]] void refuse(Index start, Index count, Index size) const {
    invalid_argument("the ", matrix_, " row ", i_, " is asked for ", count, " numbers from ", start,
                     " on, of ", size);
  }

  double checked(Token x, double value) const {
    if (!is_probability(value))
      raise(InvalidDistribution(message("the probability of token ", x, " is ", value)).in(matrix_, i_));
    return value;
  }

  const R* row_;
  const char* matrix_;
  Index i_;
};

}  // namespace specdec::detail
