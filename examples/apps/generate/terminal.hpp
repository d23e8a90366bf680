// Prints a shown text on a terminal: each kind of token has a colour and one more mark.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

#include "generate/shown_text.hpp"

namespace generate {

inline bool standard_output_is_a_terminal() {
#ifdef _WIN32
  return _isatty(_fileno(stdout)) != 0;
#else
  return isatty(STDOUT_FILENO) != 0;
#endif
}

/// Whether to write colours. `when` is the value of --color: auto, always or never. `no_color` and `term` are the
/// environment variables, null if not set. An empty NO_COLOR counts as not set (https://no-color.org).
inline bool colors(std::string_view when, bool terminal, const char* no_color, const char* term) {
  if (when != "auto") return when == "always";
  const auto value = [](const char* variable) { return std::string_view(variable ? variable : ""); };
  return terminal && value(no_color).empty() && value(term) != "dumb";
}

inline bool colors(std::string_view when) {
  return colors(when, standard_output_is_a_terminal(), std::getenv("NO_COLOR"), std::getenv("TERM"));
}

/// The escape sequence that switches a kind's style on; empty if the kind looks like the prompt.
///
/// The colours are blue, orange and purple of the 256 colours that nearly all terminals have. They differ for normal sight,
/// protanopia, deuteranopia and tritanopia: the CIEDE2000 difference is at least 13, simulated after Machado et al.,
/// doi:10.1109/TVCG.2009.113. Their contrast on white, black and dark grey (#1e1e1e) is about 3 to 1 or more for each
/// sight. Readers who see no colours have the underline and the bold type.
inline std::string_view looks(Kind kind) {
  switch (kind) {
    case Kind::accepted:
      return "\x1b[38;5;33m";
    case Kind::corrected:
      return "\x1b[4;38;5;166m";
    case Kind::bonus:
      return "\x1b[1;38;5;133m";
    case Kind::rejected:
      return "\x1b[2;9m";  // faint and crossed out
    default:
      return "";
  }
}

/// Writes pieces one by one.
class Printer {
 public:
  Printer(std::ostream& out, bool colored, bool with_rejected)
      : out_(out), colored_(colored), with_rejected_(with_rejected) {}

  void print(std::span<const Piece> pieces) {
    for (const Piece& piece : pieces)
      if (piece.kind == Kind::rejected) print_rejected(piece);
      else if (colored_) print_styled(piece.kind, characters_.add(piece.text));
      else out_ << piece.text;
    out_ << std::flush;
  }

  /// Call after the last piece.
  void end() { out_ << characters_.end() << "\n\n"; }

  /// Prints the kinds in one line, each in its style.
  void print_legend(const Counts& counts) {
    out_ << '[';
    std::string_view separator = "";
    for (const Entry& entry : legend(counts, with_rejected_)) {
      out_ << separator;
      if (colored_) print_styled(entry.kind, entry.text);
      else out_ << entry.text;
      separator = ", ";
    }
    out_ << "]\n";
  }

 private:
  // Without colours, rejected tokens look like deletions in `git diff --word-diff`.
  void print_rejected(const Piece& piece) {
    if (!with_rejected_) return;
    const std::string text = aside(piece.text);
    if (colored_) return print_styled(piece.kind, text);
    const auto [space, words] = split_space(text);
    out_ << space << "[-" << words << "-]";
  }

  void print_styled(Kind kind, std::string_view text) {
    const auto [space, words] = split_space(text);
    out_ << space;
    if (words.empty()) return;
    const std::string_view on = looks(kind);
    out_ << on << words << (on.empty() ? "" : "\x1b[0m");
  }

  std::ostream& out_;
  bool colored_, with_rejected_;
  WholeCharacters characters_;
};

}  // namespace generate
