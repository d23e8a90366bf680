// How the library reports errors. All that it throws is an Error, and of one of four classes: InvalidArgument,
// InvalidDistribution, InvalidCall, ExternalFailure. None of them derives from another, so a program tells them apart in any
// order of its handlers. Each is also the class of the standard library that fits: the first two are std::invalid_argument,
// then follow std::logic_error and std::runtime_error. Since std::invalid_argument derives from std::logic_error, a handler
// for std::logic_error catches the first three.
//
// What others throw passes through as it is: the errors of a user's model, and std::bad_alloc where memory runs out.
// A program without exceptions (-fno-exceptions) gets the errors by an error handler.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace specdec::inline v0_2_0 {

/// What all errors of the library are. It is no std::exception itself: an error has this class beside the standard's class.
class Error {
 public:
  /// The message.
  virtual const char* what() const noexcept = 0;

 protected:
  Error() = default;
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() = default;
};

namespace detail {

/// A part of a message: a text or a number. A program compiles one function for all lists of parts, not one for each mix of types.
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

/// An error of the library that is also of a class of the standard library.
template <class Standard>
struct StandardError : Standard, Error {
  explicit StandardError(const std::string& message) : Standard(message) {}
  const char* what() const noexcept override { return Standard::what(); }
};

}  // namespace detail

/// Thrown when an argument cannot be: a wrong shape, a token outside the vocabulary, an option out of its range.
/// The message names the argument, and its index and value where it has them.
struct InvalidArgument : detail::StandardError<std::invalid_argument> {
  using StandardError::StandardError;
};

/// Thrown when a call is out of place, whatever its arguments: at this time, on this object or with these other objects.
struct InvalidCall : detail::StandardError<std::logic_error> {
  using StandardError::StandardError;
};

/// Thrown when something outside the library fails: a stream cannot be written, or an MPI call fails.
struct ExternalFailure : detail::StandardError<std::runtime_error> {
  using StandardError::StandardError;
};

/// Thrown when a row of numbers is not a distribution: NaN, infinite or negative entries, or no mass at all. Mostly the fault of
/// a model. A row in which all tokens are forbidden may be read; an error is only a draw from it: see rows/read/dead_end.hpp.
///
/// A verifier checks only the numbers that it needs for a decision; validate() checks all of them. A row does not know its
/// matrix and its number in the matrix. The calling code knows them: it catches the error and throws error.in(matrix, row).
class InvalidDistribution : public detail::StandardError<std::invalid_argument> {
 public:
  using StandardError::StandardError;

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

  /// This error, marked as one of the inner loop `inner`: of("cascade") renames the matrix "target" to "cascade's target".
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

/// Is called with an error, in a program without exceptions. It may end the process in its own way. If it returns, the
/// program aborts. It must not leave by longjmp.
using ErrorHandler = void (*)(const Error& error);

namespace detail {
inline void print_error(const Error& error) { std::fprintf(stderr, "%s\n", error.what()); }
inline ErrorHandler error_handler = print_error;
}  // namespace detail

/// Sets the error handler, and returns the previous one. The default prints the message to stderr. A program with exceptions
/// never calls it. All files of a program that include specdec must be compiled with exceptions, or all without.
/// Pre: no other thread uses specdec.
inline ErrorHandler set_error_handler(ErrorHandler handler) {
  return std::exchange(detail::error_handler, handler == nullptr ? detail::print_error : handler);
}

namespace detail {

#ifdef __cpp_exceptions

/// Throws the error. Without exceptions: calls the error handler, then aborts.
template <std::derived_from<Error> E>
[[noreturn]] void raise(E error) {
  throw error;
}

/// Returns f(). In place of an InvalidDistribution `error` from f, changed(error) is thrown.
template <class F, class Change>
auto with_error(F&& f, const Change& changed) {
  try {
    return f();
  } catch (const InvalidDistribution& error) {
    throw changed(error);
  }
}

#else

/// A change of errors, waiting for one while a function runs: nothing can be added to a message after abort().
class PendingChange {
 public:
  using Change = InvalidDistribution (*)(const void* changed, const InvalidDistribution& error);

  PendingChange(const void* changed, Change call) : changed_(changed), call_(call), outer_(innermost) {
    innermost = this;
  }
  PendingChange(const PendingChange&) = delete;
  PendingChange& operator=(const PendingChange&) = delete;
  ~PendingChange() { innermost = outer_; }

  /// The error after all pending changes, the innermost first.
  static InvalidDistribution apply_all(InvalidDistribution error) {
    for (const PendingChange* at = innermost; at != nullptr; at = at->outer_)
      error = at->call_(at->changed_, error);
    return error;
  }

 private:
  inline static thread_local const PendingChange* innermost = nullptr;

  const void* changed_;
  Change call_;
  const PendingChange* outer_;
};

template <std::derived_from<Error> E>
[[noreturn]] void raise(const E& error) {
  if constexpr (std::is_same_v<E, InvalidDistribution>) error_handler(PendingChange::apply_all(error));
  else error_handler(error);
  std::abort();
}

template <class F, class Change>
auto with_error(F&& f, const Change& changed) {
  const PendingChange pending(&changed, [](const void* change, const InvalidDistribution& error) {
    return InvalidDistribution((*static_cast<const Change*>(change))(error));
  });
  return f();
}

#endif

/// The exception that f() throws; null if f() throws nothing. Without exceptions: f() returns, or the program ends.
template <class F>
std::exception_ptr error_of(F&& f) {
#ifdef __cpp_exceptions
  try {
    f();
  } catch (...) {
    return std::current_exception();
  }
#else
  f();
#endif
  return nullptr;
}

/// Returns f(). If f throws, undo() is called, and the exception goes on.
template <class F, class Undo>
decltype(auto) undo_on_error(F&& f, [[maybe_unused]] Undo&& undo) {
#ifdef __cpp_exceptions
  try {
    return f();
  } catch (...) {
    undo();
    throw;
  }
#else
  return f();
#endif
}

template <class E>
[[noreturn]] void raise_joined(std::initializer_list<MessagePart> parts) {
  raise(E(joined(parts)));
}

/// The four ways to report an error. A message begins with "specdec: ".
template <class... Parts>
[[noreturn]] void invalid_argument(const Parts&... parts) {
  raise_joined<InvalidArgument>({"specdec: ", parts...});
}
template <class... Parts>
[[noreturn]] void invalid_call(const Parts&... parts) {
  raise_joined<InvalidCall>({"specdec: ", parts...});
}
template <class... Parts>
[[noreturn]] void external_failure(const Parts&... parts) {
  raise_joined<ExternalFailure>({"specdec: ", parts...});
}
/// The calling code adds the name of the library, the matrix and the row.
template <class... Parts>
[[noreturn]] void invalid_distribution(const Parts&... parts) {
  raise_joined<InvalidDistribution>({parts...});
}

/// Throws: InvalidCall if an object was moved away (`here` is false) and is used all the same.
inline void check_here(bool here, const char* what) {
  if (!here) invalid_call("the ", what, " was moved away: ask what it was moved into");
}

}  // namespace detail
}  // namespace specdec
