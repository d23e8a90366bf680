// Makes whole UTF-8 characters of bytes that come in pieces, because a token may hold a part of a character.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace generate {

/// The first character of a text: its number of bytes, and whether they form a character.
struct FirstCharacter {
  enum class State { whole, broken, cut };  ///< cut: the text ends inside it

  std::size_t size;
  State state;
};

/// Finds the first character. Broken are stray bytes, overlong forms, surrogates and code points beyond U+10FFFF.
/// Pre: the text is not empty.
/// Source: The Unicode Standard, table 3-7.
inline FirstCharacter first_character(std::string_view text) {
  using enum FirstCharacter::State;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, whole};
  if (lead < 0xC2 || lead > 0xF4) return {1, broken};
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {i, cut};
    if (byte(i) < low || byte(i) > high) return {i, broken};
    low = 0x80;
    high = 0xBF;
  }
  return {size, whole};
}

/// Takes bytes and returns whole characters: each character comes out with its last byte. Broken bytes become the
/// replacement character.
class WholeCharacters {
 public:
  std::string add(std::string_view bytes) {
    held_ += bytes;
    std::string text;
    std::size_t at = 0;
    while (at < held_.size()) {
      const FirstCharacter first = first_character(std::string_view(held_).substr(at));
      if (first.state == FirstCharacter::State::cut) break;
      text += first.state == FirstCharacter::State::whole ? held_.substr(at, first.size) : replacement;
      at += first.size;
    }
    held_.erase(0, at);
    return text;
  }

  /// Call after the last byte: returns the replacement character if a character was cut, else nothing.
  std::string end() {
    const std::string text = held_.empty() ? "" : replacement;
    held_.clear();
    return text;
  }

 private:
  static constexpr const char* replacement = "\xEF\xBF\xBD";  // U+FFFD

  std::string held_;  // the beginning of a character
};

/// The text with replacement characters for broken bytes, and for a character that the end cuts.
inline std::string whole_characters(std::string_view text) {
  WholeCharacters characters;
  std::string whole = characters.add(text);
  whole += characters.end();  // after add(): in one expression their order would be the compiler's choice
  return whole;
}

}  // namespace generate
