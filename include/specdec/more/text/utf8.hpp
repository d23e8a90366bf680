// Where the characters of a text in UTF-8 begin and end.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string_view>

#include "specdec/platform.hpp"

namespace specdec::inline v0_2_0::detail {

/// The size of the text without an incomplete UTF-8 character at its end. Bytes that are no UTF-8 count as complete.
inline std::size_t whole_characters(std::string_view text) {
  for (std::size_t k = 1; k <= 3 && k <= text.size(); ++k) {
    const auto byte = static_cast<unsigned char>(text[text.size() - k]);
    if ((byte & 0xC0U) == 0x80U) continue;  // a continuation byte
    const std::size_t length = byte >= 0xF8U   ? 1
                               : byte >= 0xF0U ? 4
                               : byte >= 0xE0U ? 3
                               : byte >= 0xC2U ? 2
                                               : 1;
    return length > k ? text.size() - k : text.size();
  }
  return text.size();
}

/// Whether a character begins, or could begin, at this place of a text.
inline bool begins_character(std::string_view text, std::size_t at) {
  return at == 0 || at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
}

}  // namespace specdec::detail
