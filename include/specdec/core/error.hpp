// How the library reports bad input: the exceptions, the messages, and the check that every caller's tokens
// pass.
#pragma once

#include <cstddef>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "specdec/types.hpp"

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

/// Throws unless every token is an id of the vocabulary. `name` is what the message calls the argument.
inline void check_tokens(std::string_view name, std::span<const Token> tokens, Index vocab_size) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab_size)
      invalid_argument(name, "[", i, "] = ", tokens[i], " is outside the vocabulary 0..", vocab_size - 1);
}

}  // namespace detail
}  // namespace specdec
