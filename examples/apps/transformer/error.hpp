// Throws errors with messages that are joined from pieces.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace transformer {

/// Throws an Error. Its message is `words`, one after another. A program without exceptions prints it and ends.
template <class Error, class... Words>
[[noreturn]] void fail(const Words&... words) {
  std::ostringstream message;
  (message << ... << words);
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
  throw Error(message.str());
#else
  std::fprintf(stderr, "%s\n", message.str().c_str());
  std::abort();
#endif
}

}  // namespace transformer
