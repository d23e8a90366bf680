// What an error says.
#pragma once

#include <stdexcept>
#include <string>

namespace support {

// The message of what f throws; empty when it throws nothing.
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
