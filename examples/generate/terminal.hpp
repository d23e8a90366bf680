// A shown text on a terminal: a colour and one more cue for each kind of token.
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

/// Whether to write colours, if --color says `when`: auto, always or never. `no_color` and `term` are the variables of
/// the environment, null where they are not set; https://no-color.org has it that an empty NO_COLOR says nothing.
inline bool colors(std::string_view when, bool terminal, const char* no_color, const char* term) {
  if (when != "auto") return when == "always";
  const auto value = [](const char* variable) { return std::string_view(variable ? variable : ""); };
  return terminal && value(no_color).empty() && value(term) != "dumb";
}

inline bool colors(std::string_view when) {
  return colors(when, standard_output_is_a_terminal(), std::getenv("NO_COLOR"), std::getenv("TERM"));
}

/// What switches a kind's looks on, as a terminal is told it; empty: it looks like the prompt.
///
/// Blue, orange and purple of the 256 colours that nearly all terminals have. They are told apart with normal sight,
/// protanopia, deuteranopia and tritanopia (by a CIEDE2000 difference of 13 at least, simulated after Machado et al.,
/// doi:10.1109/TVCG.2009.113), and on white, on black and on dark grey (#1e1e1e) they have a contrast of about 3 to 1
/// or more with each sight. Who sees no colour has the underline and the bold type.
inline std::string_view looks(Kind kind) {
  switch (kind) {
    case Kind::accepted:
      return "\x1b[38;5;33m";
    case Kind::corrected:
      return "\x1b[4;38;5;166m";
    case Kind::bonus:
      return "\x1b[1;38;5;133m";
    case Kind::rejected:
      return "\x1b[2;9m";  // faint, and crossed out
    default:
      return "";
  }
}

/// Writes pieces as they come.
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

  /// After the last piece.
  void end() { out_ << characters_.end() << "\n\n"; }

  /// The kinds in their looks, in one line.
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
  // Without colours, as in `git diff --word-diff`.
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
