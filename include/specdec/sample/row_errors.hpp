// What is thrown about a row, by what changes its logits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Throws what was thrown about row i, if anything was. Errors may be none at all.
inline void rethrow_error_of(std::span<const std::exception_ptr> errors, Index i) {
  const auto k = static_cast<std::size_t>(i);
  if (k < errors.size() && errors[k]) std::rethrow_exception(errors[k]);
}

/// Where all rows are of one text: it is thrown at once.
template <bool kept>
class RowErrors {
 public:
  void begin(Index) {}
  template <class F>
  void about(Index, Index, F&& f) {
    f();
  }
  template <class Rows>
  Rows in(const Rows& rows) const {
    return rows;
  }
};

/// Rows of many texts, each with what was thrown about it, if anything was. A view of both.
template <class Rows>
class RowsWithErrors {
 public:
  RowsWithErrors(const Rows& rows, std::span<const std::exception_ptr> errors)
      : rows_(rows), errors_(errors) {}

  Index rows() const { return rows_.rows(); }
  Index vocab_size() const { return rows_.vocab_size(); }
  auto row(Index i) const {
    rethrow_error_of(errors_, i);
    return rows_.row(i);
  }

 private:
  Rows rows_;
  std::span<const std::exception_ptr> errors_;
};

/// Of many texts, and over ranks: it is kept, and thrown where the row is asked for, so that it is the failure of the row's
/// sequence, and of all ranks.
template <>
class RowErrors<true> {
 public:
  /// Before a call that returns so many rows.
  void begin(Index rows) { errors_.assign(static_cast<std::size_t>(rows), nullptr); }
  /// Calls f(), which changes `count` rows from number `first` on.
  template <class F>
  void about(Index first, Index count, F&& f) {
    if (const std::exception_ptr error = error_of(f)) std::fill_n(errors_.begin() + first, count, error);
  }
  /// What was thrown about each row. It lives until the next call, and so do the rows with it.
  std::span<const std::exception_ptr> all() const { return view_of(errors_); }
  template <class Rows>
  RowsWithErrors<Rows> in(const Rows& rows) const {
    return {rows, view_of(errors_)};
  }

 private:
  std::vector<std::exception_ptr> errors_;
};

}  // namespace specdec::detail
