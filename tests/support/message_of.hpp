// The message of an error.
// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

namespace support {

// The message of the E that f throws; empty if f throws nothing.
template <class E = std::invalid_argument, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace support
