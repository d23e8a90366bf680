// What tokens are as text.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include "specdec/types.hpp"

namespace specdec {

/// What a tokenizer has to offer: bytes(token) are the bytes that the token stands for, as a std::string, a
/// std::string_view or what converts to one.
template <class B>
concept TokenBytes = requires(const B& bytes, Token token) {
  { bytes(token) } -> std::convertible_to<std::string_view>;
};

namespace detail {

/// How many bytes at the end of a text begin a character of UTF-8 and do not complete it. Bytes that are no UTF-8 are
/// complete.
inline std::size_t incomplete_utf8(std::string_view text) {
  for (std::size_t k = 1; k <= 3 && k <= text.size(); ++k) {
    const auto byte = static_cast<unsigned char>(text[text.size() - k]);
    if ((byte & 0xC0U) == 0x80U) continue;  // goes on with a character
    const std::size_t length = byte >= 0xF8U   ? 1
                               : byte >= 0xF0U ? 4
                               : byte >= 0xE0U ? 3
                               : byte >= 0xC2U ? 2
                                               : 1;
    return length > k ? k : 0;
  }
  return 0;
}

/// How much of the text is whole characters of UTF-8: all of it but for the beginning of a character at its end.
inline std::size_t whole_characters(std::string_view text) { return text.size() - incomplete_utf8(text); }

/// Whether a character begins at this place of a text, or could.
inline bool begins_character(std::string_view text, std::size_t at) {
  return at == 0 || at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
}

}  // namespace detail
}  // namespace specdec
