// Throws errors with messages that are joined from pieces.
// SPDX-License-Identifier: MIT
#pragma once

#include <sstream>

namespace transformer {

/// Throws an Error. Its message is `words`, one after another.
template <class Error, class... Words>
[[noreturn]] void fail(const Words&... words) {
  std::ostringstream message;
  (message << ... << words);
  throw Error(message.str());
}

}  // namespace transformer
