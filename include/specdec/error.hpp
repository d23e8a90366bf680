// How the library reports bad input: the exceptions and the messages.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace specdec {

/// Thrown when a row of numbers turns out not to be a distribution: NaN, infinite or negative entries, or no
/// mass at all. Found only where a decision needs the numbers; validate() looks at all of them.
struct InvalidDistribution : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

namespace detail {

template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream text;
  text.precision(9);
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn]] void invalid_argument(const Parts&... parts) {
  throw std::invalid_argument(message("specdec: ", parts...));
}

}  // namespace detail
}  // namespace specdec
