// Draws a shown text as an SVG file. It needs only a font of fixed width.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "generate/shown_text.hpp"
#include "generate/utf8.hpp"
#include "generate/wrapping.hpp"

namespace generate {

/// Escapes a text for XML. U+FFFD replaces broken bytes, U+FFFE, U+FFFF and control characters but tabs and ends of lines.
inline std::string xml_escaped(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const FirstCharacter first = first_character(text);
    const std::string_view character = text.substr(0, first.size);
    text.remove_prefix(first.size);
    const bool control = character < " " && character != "\n" && character != "\t";
    if (character == "&") escaped += "&amp;";
    else if (character == "<") escaped += "&lt;";
    else if (character == ">") escaped += "&gt;";
    else if (character == "\"") escaped += "&quot;";
    else if (first.state != FirstCharacter::State::whole || control || character == "\xEF\xBF\xBE" ||
             character == "\xEF\xBF\xBF")
      escaped += "\xEF\xBF\xBD";  // U+FFFD
    else escaped += character;
  }
  return escaped;
}

namespace picture {

inline constexpr std::size_t columns = 72;
inline constexpr int margin = 28, top = 44, line_height = 26;
inline constexpr int width = 2 * margin + 670;  // 72 characters of 15 px in the widest of the fonts

// The picture has no background, and its colours follow those of the reader's page: light or dark.
//
// The light colours are those of terminal.hpp, but darker; the dark ones are those of the page of examples/apps/web. All tokens that
// stay in the text have a contrast of at least 4.5 to 1, on white and on #0d1117. Programs that know no media queries show the
// light colours.
inline constexpr std::string_view style = R"(<style>
text{font:15px ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;fill:#1f2328}
.accepted{fill:#006edc}
.corrected{fill:#c84600;text-decoration:underline}
.bonus{fill:#7d0068;font-weight:bold}
.rejected{fill:#79828b;text-decoration:line-through}
.small{font-size:13px}
.note{fill:#59636e}
.line{fill:none;stroke:#d1d9e0}
@media(prefers-color-scheme:dark){
text{fill:#e4e7ea}
.accepted{fill:#7ab8ff}
.corrected{fill:#ff9d61}
.bonus{fill:#e79be4}
.rejected{fill:#8f99a3}
.note{fill:#a0a9b2}
.line{stroke:#333a41}
}
</style>
)";

/// The CSS class of a kind; empty if it looks like the prompt.
inline std::string_view class_of(Kind kind) {
  switch (kind) {
    case Kind::accepted:
      return "accepted";
    case Kind::corrected:
      return "corrected";
    case Kind::bonus:
      return "bonus";
    case Kind::rejected:
      return "rejected";
    default:
      return "";
  }
}

inline void write(std::ostream& out, const Piece& piece) {
  const std::string_view name = class_of(piece.kind);
  if (name.empty()) out << xml_escaped(piece.text);
  else out << "<tspan class=\"" << name << "\">" << xml_escaped(piece.text) << "</tspan>";
}

inline void write(std::ostream& out, const Line& line, int y, std::string_view classes = "") {
  out << "<text x=\"" << margin << "\" y=\"" << y << "\" xml:space=\"preserve\"";
  if (!classes.empty()) out << " class=\"" << classes << '"';
  out << '>';
  for (const Piece& piece : line) write(out, piece);
  out << "</text>\n";
}

}  // namespace picture

/// The words around the text, in well-formed UTF-8.
struct Caption {
  std::string title;               ///< describes the picture, for screen readers
  std::vector<std::string> notes;  ///< lines in small type below the text
};

/// The legend as plain text.
inline std::string described(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) text += (text.empty() ? "" : ", ") + entry.text;
  return text;
}

inline std::string svg(const ShownText& shown, bool with_rejected, const Caption& caption) {
  using namespace picture;
  const std::vector<Line> lines = wrapped(shown.pieces(), with_rejected, columns);
  const std::vector<Entry> entries = legend(shown.counts(), with_rejected);
  Line counts;
  for (const Entry& entry : entries) {
    if (!counts.empty()) counts.push_back({Kind::prompt, "   "});
    counts.push_back({entry.kind, entry.text});
  }
  const int rule = top + line_height * static_cast<int>(lines.size());
  const int note_height = 22;
  const int height = rule + 46 + note_height * static_cast<int>(caption.notes.size());

  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height << "\" width=\""
      << width << "\" height=\"" << height << "\" role=\"img\" aria-labelledby=\"title counts\">\n"
      << "<title id=\"title\">" << xml_escaped(caption.title) << "</title>\n"
      << "<desc id=\"counts\">Tokens: " << described(entries) << "</desc>\n"
      << style << "<rect x=\"0.5\" y=\"0.5\" width=\"" << width - 1 << "\" height=\"" << height - 1
      << "\" rx=\"8\" class=\"line\"/>\n";
  int y = top;
  for (const Line& line : lines) {
    write(out, line, y);
    y += line_height;
  }
  out << "<path d=\"M" << margin << ' ' << rule - 8 << "H" << width - margin << "\" class=\"line\"/>\n";
  write(out, counts, rule + 20, "small");
  y = rule + 22;
  for (const std::string& note : caption.notes)
    write(out, {{Kind::prompt, note}}, y += note_height, "small note");
  out << "</svg>\n";
  return out.str();
}

}  // namespace generate
