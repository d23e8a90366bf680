// How the library reports bad input: the exceptions and the messages.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace specdec {

namespace detail {

/// A part of a message: a text or a number. A message is a list of parts, so a program compiles one function for all
/// messages, not one for each mix of types.
class MessagePart {
 public:
  MessagePart(std::string_view text) : text_(text), kind_(Kind::text) {}
  MessagePart(const std::string& text) : MessagePart(std::string_view(text)) {}
  MessagePart(const char* text) : MessagePart(std::string_view(text)) {}
  template <class N>
    requires(std::is_arithmetic_v<N> && !std::is_same_v<N, char>)
  MessagePart(N number) {
    if constexpr (std::is_floating_point_v<N>) {
      number_.real = static_cast<double>(number);
      kind_ = Kind::real;
    } else if constexpr (std::is_signed_v<N>) {
      number_.integer = number;
    } else {
      number_.natural = number;
      kind_ = Kind::natural;
    }
  }

  void append_to(std::string& message) const {
    if (kind_ == Kind::text) message += text_;
    else if (kind_ == Kind::natural) message += std::to_string(number_.natural);
    else if (kind_ == Kind::integer) message += std::to_string(number_.integer);
    else append_real(message);
  }

 private:
  enum class Kind { text, integer, natural, real };
  union Number {
    long long integer = 0;
    unsigned long long natural;
    double real;
  };

  // A NaN is written without its sign: the sign differs between machines.
  void append_real(std::string& message) const {
    char digits[32];
    const double real = std::isnan(number_.real) ? std::abs(number_.real) : number_.real;
    std::snprintf(digits, sizeof digits, "%.9g", real);
    message += digits;
  }

  std::string_view text_ = {};
  Number number_ = {};
  Kind kind_ = Kind::integer;
};

inline std::string joined(std::initializer_list<MessagePart> parts) {
  std::string message;
  for (const MessagePart& part : parts) part.append_to(message);
  return message;
}

template <class... Parts>
std::string message(const Parts&... parts) {
  return joined({parts...});
}

[[noreturn]] inline void throw_invalid_argument(std::initializer_list<MessagePart> parts) {
  throw std::invalid_argument(joined(parts));
}

template <class... Parts>
[[noreturn]] void invalid_argument(const Parts&... parts) {
  throw_invalid_argument({"specdec: ", parts...});
}

/// The exception that f() throws; null if f() throws nothing.
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

/// Thrown when a row of numbers is not a distribution: NaN, infinite or negative entries, or no mass at all.
///
/// A verifier checks only the numbers that it needs for a decision; validate() checks all of them. A row does not know its
/// matrix and its number in the matrix. The calling code knows them: it catches the error and throws error.in(matrix, row).
class InvalidDistribution : public std::invalid_argument {
 public:
  explicit InvalidDistribution(const std::string& complaint) : std::invalid_argument(complaint) {}

  /// The name of the matrix that holds the row: "target", "draft" or another one; empty if it is not known.
  const std::string& matrix() const& { return matrix_; }
  std::string matrix() && { return std::move(matrix_); }
  /// The number of the row in its matrix; -1 if it is not known.
  std::ptrdiff_t row() const { return row_; }

  /// This error, with a message that begins with the matrix and the row. An error that has a row already stays unchanged.
  InvalidDistribution in(std::string_view matrix, std::ptrdiff_t row) const {
    if (row_ >= 0) return *this;
    InvalidDistribution named(detail::message("specdec: ", matrix, " row ", row, ": ", complaint()));
    named.matrix_ = matrix;
    named.row_ = row;
    return named;
  }

  /// This error, marked as an error of an inner loop with the name `inner`. For example, of("cascade") renames the matrix
  /// "target" to "cascade's target".
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
