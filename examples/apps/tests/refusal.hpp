// What is said of a broken file.
// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"

namespace support {

/// The message about a file of these bytes, without the name of the file. `read` takes its path.
template <class Read>
std::string refusal(const std::string& bytes, const Read& read) {
  const TemporaryFile file(bytes);
  const std::string message = message_of<std::runtime_error>([&] { read(file.path()); });
  REQUIRE(message.starts_with(file.path() + ": "));
  return message.substr(file.path().size() + 2);
}

}  // namespace support
