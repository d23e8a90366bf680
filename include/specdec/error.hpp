// How the library reports bad input: the exceptions and the messages.
#pragma once

#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace specdec {

namespace detail {

/// What a message tells of a part of it. A NaN is told without its sign, which differs between machines.
template <class Part>
const Part& told(const Part& part) {
  if constexpr (std::is_floating_point_v<Part>) {
    static constexpr Part nan = std::numeric_limits<Part>::quiet_NaN();
    return std::isnan(part) ? nan : part;
  } else {
    return part;
  }
}

template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream text;
  text.precision(9);
  (text << ... << told(parts));
  return text.str();
}

template <class... Parts>
[[noreturn]] void invalid_argument(const Parts&... parts) {
  throw std::invalid_argument(message("specdec: ", parts...));
}

/// What f() throws; null where it throws nothing.
template <class F>
std::exception_ptr error_of(F&& f) {
  try {
    f();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace detail

/// Thrown when a row of numbers turns out not to be a distribution: NaN, infinite or negative entries, or no mass
/// at all. Found only where a decision needs the numbers; validate() looks at all of them.
///
/// A row that complains does not know where it stands; whoever does catches the complaint and throws
/// error.in(matrix, row) instead.
class InvalidDistribution : public std::invalid_argument {
 public:
  explicit InvalidDistribution(const std::string& complaint) : std::invalid_argument(complaint) {}

  /// "target", "draft" or what else the matrix is called that holds the row; empty where it is not known.
  const std::string& matrix() const& { return matrix_; }
  std::string matrix() && { return std::move(matrix_); }
  /// The number of the row in its matrix; -1 where it is not known.
  std::ptrdiff_t row() const { return row_; }

  /// The complaint with its origin, which the message begins with; one that has an origin keeps it.
  InvalidDistribution in(std::string_view matrix, std::ptrdiff_t row) const {
    if (row_ >= 0) return *this;
    InvalidDistribution named(detail::message("specdec: ", matrix, " row ", row, ": ", complaint()));
    named.matrix_ = matrix;
    named.row_ = row;
    return named;
  }

  /// The complaint, told as that of `inner`, a loop within the caller's: its matrix "target" is "cascade's target" where
  /// `inner` is "cascade".
  InvalidDistribution of(std::string_view inner) const {
    const bool named = row_ >= 0;
    InvalidDistribution told(detail::message("specdec: ", inner, named ? "'s " : ": ", complaint()));
    if (named) told.matrix_ = detail::message(inner, "'s ", matrix_);
    told.row_ = row_;
    return told;
  }

  /// The message without the name of the library.
  std::string_view complaint() const& {
    const std::string_view text = what();
    return text.starts_with(library) ? text.substr(library.size()) : text;
  }
  std::string_view complaint() const&& = delete;

 private:
  static constexpr std::string_view library = "specdec: ";
  std::string matrix_;
  std::ptrdiff_t row_ = -1;
};

}  // namespace specdec
