// Errors whose messages are put together from pieces.
#pragma once

#include <sstream>

namespace transformer {

/// Throws an Error whose message is the words, one after the other.
template <class Error, class... Words>
[[noreturn]] void fail(const Words&... words) {
  std::ostringstream message;
  (message << ... << words);
  throw Error(message.str());
}

}  // namespace transformer
