// Exceptions of a hook or a processor about single rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <exception>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Rethrows the exception about row i, if there is one. `errors` may be empty.
inline void rethrow_error_of(std::span<const std::exception_ptr> errors, Index i) {
  if (i < std::ssize(errors) && at(errors, i)) std::rethrow_exception(at(errors, i));
}

/// Exceptions about rows. For many texts, and over ranks, they are `kept`, and thrown when the row is asked for: so only the row's
/// sequence fails, on all ranks. For rows of one text an exception is thrown at once.
template <bool kept>
class RowErrors {
 public:
  /// Call this before each call of the model that returns `rows` rows.
  void begin(Index rows) {
    if constexpr (kept) detail::assign(errors_, rows, nullptr);
  }
  /// Calls f(), which changes `count` rows from number `first` on. Keeps an exception of f() for these rows.
  template <class F>
  void about(Index first, Index count, F&& f) {
    if constexpr (!kept) f();
    else if (const std::exception_ptr error = error_of(f)) std::fill_n(errors_.begin() + first, count, error);
  }
  /// The exception about each row, or null. They live until the next call.
  std::span<const std::exception_ptr> all() const { return view_of(errors_); }

 private:
  std::vector<std::exception_ptr> errors_;
};

}  // namespace specdec::detail
