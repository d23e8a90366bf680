// Breaks a shown text into lines.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/shown_text.hpp"
#include "generate/utf8.hpp"

namespace generate {

using Line = std::vector<Piece>;

/// Breaks a text into lines of at most `columns` characters, between words if possible. Each character counts as one column.
class Wrapping {
 public:
  explicit Wrapping(std::size_t columns) : columns_(columns) {}

  /// Adds well-formed UTF-8.
  void add(Kind kind, std::string_view text) {
    while (!text.empty()) {
      const std::size_t size = first_character(text).size;
      add_character(kind, text.substr(0, size));
      text.remove_prefix(size);
    }
  }

  /// Returns the lines. Call it after the last add().
  std::vector<Line> lines() {
    end_word();
    if (!line_.pieces.empty()) end_line();
    return lines_;
  }

 private:
  struct Run {
    Line pieces;
    std::size_t characters = 0;

    void add(Kind kind, std::string_view text) {
      if (pieces.empty() || pieces.back().kind != kind) pieces.push_back({kind, ""});
      pieces.back().text += text;
    }
  };

  void add_character(Kind kind, std::string_view character) {
    if (character == "\n") {
      end_word();
      end_line();
    } else if (character == " " || character == "\t") {
      end_word();
      if (line_.characters == columns_) end_line();  // the end of the line stands for the space
      else if (line_.characters > 0 || lines_.empty()) append(line_, kind, " ");
    } else {
      append(word_, kind, character);
      if (word_.characters == columns_) end_word();
    }
  }

  static void append(Run& run, Kind kind, std::string_view character) {
    run.add(kind, character);
    ++run.characters;
  }

  void end_word() {
    if (line_.characters + word_.characters > columns_) end_line();
    for (const Piece& piece : word_.pieces) line_.add(piece.kind, piece.text);
    line_.characters += word_.characters;
    word_ = {};
  }

  void end_line() {
    lines_.push_back(line_.pieces);
    line_ = {};
  }

  std::size_t columns_;
  std::vector<Line> lines_;
  Run line_, word_;
};

/// The lines of a shown text, in well-formed UTF-8.
inline std::vector<Line> wrapped(std::span<const Piece> pieces, bool with_rejected, std::size_t columns) {
  Wrapping wrapping(columns);
  WholeCharacters characters;
  for (const Piece& piece : pieces) {
    if (piece.kind == Kind::rejected && !with_rejected) continue;
    const std::string text = piece.kind == Kind::rejected ? aside(piece.text) : characters.add(piece.text);
    const auto [space, words] = split_space(text);
    wrapping.add(Kind::prompt, space);
    wrapping.add(piece.kind, words);
  }
  wrapping.add(Kind::prompt, characters.end());
  return wrapping.lines();
}

}  // namespace generate
