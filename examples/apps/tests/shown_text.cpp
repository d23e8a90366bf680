// Texts with marked tokens: the kinds of tokens, characters in several parts, lines, and the output to terminals and
// pictures.
// SPDX-License-Identifier: MIT
#include "generate/shown_text.hpp"

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/svg.hpp"
#include "generate/terminal.hpp"
#include "generate/utf8.hpp"
#include "generate/wrapping.hpp"
#include "support/catch.hpp"

namespace test_examples_shown_text {

using generate::Kind;
using generate::Line;
using generate::Piece;
using generate::ShownText;
using generate::WholeCharacters;
using Token = specdec::Token;
using Tokens = std::vector<Token>;
using Kinds = std::vector<std::pair<Kind, std::string>>;

namespace {

const std::string replacement = "\xEF\xBF\xBD";

// A token is a byte.
ShownText text_after(const std::string& prompt) {
  return ShownText(prompt, ' ', [](Token, Token token) { return std::string(1, static_cast<char>(token)); });
}

Tokens tokens(std::string_view text) {
  Tokens list;
  for (const char c : text) list.push_back(static_cast<unsigned char>(c));
  return list;
}

template <class Pieces>
Kinds kinds(const Pieces& pieces) {
  Kinds list;
  for (const Piece& piece : pieces) list.emplace_back(piece.kind, piece.text);
  return list;
}

// The pieces of a step with this draft and this number of accepted tokens.
Kinds step(ShownText& text, std::string_view emitted, std::string_view drafted, specdec::Index accepted) {
  const Tokens out = tokens(emitted), draft = tokens(drafted);
  return kinds(text.add(out, draft, {.accepted = accepted, .token = 0}));
}

bool well_formed(std::string_view text) {
  while (!text.empty()) {
    const generate::FirstCharacter first = generate::first_character(text);
    if (first.state != generate::FirstCharacter::State::whole) return false;
    text.remove_prefix(first.size);
  }
  return true;
}

std::vector<std::string> lines_of(const std::vector<Piece>& pieces, std::size_t columns,
                                  bool with_rejected = true) {
  std::vector<std::string> lines;
  for (const Line& line : generate::wrapped(pieces, with_rejected, columns)) {
    lines.emplace_back();
    for (const Piece& piece : line) lines.back() += piece.text;
  }
  return lines;
}

std::string printed(const ShownText& text, bool colored, bool with_rejected) {
  std::ostringstream out;
  generate::Printer printer(out, colored, with_rejected);
  printer.print(text.pieces());
  return out.str();
}

}  // namespace

TEST_CASE("ShownText: the last token of a step is a correction, a bonus or undrafted") {
  ShownText text = text_after("A ");
  CHECK(step(text, "abx", "abcd", 2) ==
        Kinds{{Kind::accepted, "a"}, {Kind::accepted, "b"}, {Kind::rejected, "cd"}, {Kind::corrected, "x"}});
  CHECK(step(text, "x", "c", 0) == Kinds{{Kind::rejected, "c"}, {Kind::corrected, "x"}});
  CHECK(step(text, "aby", "ab", 2) ==
        Kinds{{Kind::accepted, "a"}, {Kind::accepted, "b"}, {Kind::bonus, "y"}});
  CHECK(step(text, "z", "", 0) == Kinds{{Kind::undrafted, "z"}});
  CHECK(step(text, "a", "abc", 2) == Kinds{{Kind::accepted, "a"}});  // cut off by a stop token or the budget
  CHECK(text.counts()[Kind::accepted] == 5);
  CHECK(text.counts()[Kind::corrected] == 2);
  CHECK(text.counts()[Kind::bonus] == 1);
  CHECK(text.counts()[Kind::undrafted] == 1);
  CHECK(text.counts()[Kind::rejected] == 3);
  CHECK(text.pieces().front().text == "A ");
}

TEST_CASE("ShownText: a token is decoded after the token before it in its text") {
  ShownText text(
      "", 1, [](Token before, Token token) { return std::to_string(before) + std::to_string(token) + " "; });
  CHECK(kinds(text.add(Tokens{2, 9}, Tokens{2, 3, 4}, {.accepted = 1, .token = 9})) ==
        Kinds{{Kind::accepted, "12 "}, {Kind::rejected, "23 34 "}, {Kind::corrected, "29 "}});
}

TEST_CASE("Characters: whole ones, and what is none") {
  using State = generate::FirstCharacter::State;
  const auto first = [](std::string_view text) {
    const auto [size, state] = generate::first_character(text);
    return std::pair(size, state);
  };
  using Result = std::pair<std::size_t, State>;
  for (const std::string_view character :
       {"a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(first(std::string(character) + "\x80") == Result{character.size(), State::whole});
    for (std::size_t size = 1; size < character.size(); ++size)
      CHECK(first(character.substr(0, size)) == Result{size, State::cut});
  }
  for (const std::string_view stray : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                                       "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    CHECK(first(stray) == Result{1, State::broken});
  CHECK(first("\xE2\x82"
              "a") == Result{2, State::broken});
}

TEST_CASE("Characters: a character is given back with its last byte") {
  WholeCharacters characters;
  CHECK(characters.add("a\xE2") == "a");
  CHECK(characters.add("\x82") == "");
  CHECK(characters.add("\xAC"
                       "b\xC3") ==
        "\xE2\x82\xAC"
        "b");
  CHECK(characters.add("c") == replacement + "c");
  CHECK(characters.add("\x80") == replacement);
  CHECK(characters.end() == "");
  CHECK(characters.add("\xF0\x9F\x90") == "");
  CHECK(characters.end() == replacement);
  CHECK(characters.end() == "");
}

TEST_CASE("Characters: a text is made whole, and its cut end is shown") {
  CHECK(generate::whole_characters("a\xE2\x82\xAC") == "a\xE2\x82\xAC");
  CHECK(generate::whole_characters("a\xE2\x82") == "a" + replacement);
  CHECK(generate::aside("\n\xE2") == "\xE2\x86\xB5" + replacement);
}

TEST_CASE("Lines: broken between words, at ends of lines, and in words that are too long") {
  using Lines = std::vector<std::string>;
  const auto lines = [](const std::string& text) { return lines_of({{Kind::accepted, text}}, 7); };
  CHECK(lines("") == Lines{});
  CHECK(lines("one two three") == Lines{"one two", "three"});
  CHECK(lines("one four") == Lines{"one ", "four"});
  CHECK(lines("a\n\nb\n") == Lines{"a", "", "b"});
  CHECK(lines("a  b\tc") == Lines{"a  b c"});
  CHECK(lines("0123456789abcdefg h") == Lines{"0123456", "789abcd", "efg h"});
  CHECK(lines("to 0123456 to") == Lines{"to ", "0123456", "to"});
  CHECK(lines("\xC3\xA9\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9\xC3\xA9 a") ==
        Lines{"\xC3\xA9\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9\xC3\xA9", "a"});
}

TEST_CASE("Lines: a word of several tokens is not broken between them") {
  const std::vector<Piece> pieces{
      {Kind::prompt, "The"}, {Kind::accepted, " wh"}, {Kind::rejected, "en\nso"}, {Kind::corrected, "ale"}};
  CHECK(lines_of(pieces, 7, false) == std::vector<std::string>{"The ", "whale"});
  CHECK(lines_of(pieces, 9, false) == std::vector<std::string>{"The whale"});
  CHECK(lines_of(pieces, 20) == std::vector<std::string>{"The when\xE2\x86\xB5soale"});
  const Line line = generate::wrapped(pieces, false, 9).front();
  CHECK(kinds(line) == Kinds{{Kind::prompt, "The "}, {Kind::accepted, "wh"}, {Kind::corrected, "ale"}});
}

TEST_CASE("Colours: --color, then NO_COLOR, then whether there is a terminal") {
  using generate::colors;
  CHECK(colors("auto", true, nullptr, "xterm"));
  CHECK(colors("auto", true, "", nullptr));
  CHECK_FALSE(colors("auto", true, "0", "xterm"));
  CHECK_FALSE(colors("auto", true, nullptr, "dumb"));
  CHECK_FALSE(colors("auto", false, nullptr, "xterm"));
  CHECK(colors("always", false, "1", "dumb"));
  CHECK_FALSE(colors("never", true, nullptr, "xterm"));
}

TEST_CASE("Terminal: the bytes as they are, or whole characters in colours") {
  ShownText text = text_after("A ");
  step(text, "\xC3x",
       "\xC3"
       "c\n",
       1);
  step(text, " \xC3\xA9", " \xC3", 2);
  CHECK(printed(text, false, false) == "A \xC3x \xC3\xA9");
  CHECK(printed(text, false, true) == "A \xC3[-c\xE2\x86\xB5-]x \xC3\xA9");
  CHECK(printed(text, true, false) ==
        "A \x1b[4;38;5;166m" + replacement + "x\x1b[0m \x1b[1;38;5;133m\xC3\xA9\x1b[0m");
  CHECK(printed(text, true, true) == "A \x1b[2;9mc\xE2\x86\xB5\x1b[0m\x1b[4;38;5;166m" + replacement +
                                         "x\x1b[0m \x1b[1;38;5;133m\xC3\xA9\x1b[0m");
}

TEST_CASE("Terminal: the legend has each kind in its looks") {
  ShownText text = text_after("");
  step(text, "ab", "ac", 1);
  const auto legend = [&](bool colored, bool with_rejected) {
    std::ostringstream out;
    generate::Printer(out, colored, with_rejected).print_legend(text.counts());
    return out.str();
  };
  CHECK(legend(false, false) == "[1 accepted, 1 corrected, 0 bonus]\n");
  CHECK(legend(false, true) == "[1 accepted, 1 corrected, 0 bonus, 1 rejected]\n");
  CHECK(legend(true, false) ==
        "[\x1b[38;5;33m1 accepted\x1b[0m, \x1b[4;38;5;166m1 corrected\x1b[0m, \x1b[1;38;5;133m0 "
        "bonus\x1b[0m]\n");
  step(text, "x", "", 0);
  CHECK(legend(false, false) == "[1 accepted, 1 corrected, 0 bonus, 1 undrafted]\n");
}

TEST_CASE("Pictures: text as XML can hold it") {
  using generate::xml_escaped;
  CHECK(xml_escaped("a < b && \"c\" > 'd'") == "a &lt; b &amp;&amp; &quot;c&quot; &gt; 'd'");
  CHECK(xml_escaped("\xC3\xA9\t\n") == "\xC3\xA9\t\n");
  CHECK(xml_escaped(std::string("\0\x1b", 2)) == replacement + replacement);
  CHECK(xml_escaped("\xEF\xBF\xBE|\xEF\xBF\xBF|\xEF\xBF\xBD") ==
        replacement + "|" + replacement + "|" + replacement);
  CHECK(xml_escaped("\x80|\xC3") == replacement + "|" + replacement);
}

TEST_CASE("Pictures: well-formed whatever the tokens are, with rejected drafts if they are wanted") {
  ShownText text = text_after("<A> ");
  step(text, "&\xC3\xA9", "&\xC3<", 2);
  step(text, "\xFF\xE2", "\xFF", 1);
  const auto picture = [&](bool with_rejected) {
    return generate::svg(text, with_rejected, {.title = "of <A>", .notes = {"\"&\"", "two"}});
  };
  for (const bool with_rejected : {false, true}) {
    CHECK(well_formed(picture(with_rejected)));
    CHECK((picture(with_rejected).find("class=\"rejected\">&lt;</tspan>") != std::string::npos) ==
          with_rejected);
  }
  using Catch::Contains;
  CHECK_THAT(picture(true), Contains("<title id=\"title\">of &lt;A&gt;</title>"));
  CHECK_THAT(picture(true),
             Contains("y=\"136\" xml:space=\"preserve\" class=\"small note\">two</text>\n</svg>"));
  CHECK_THAT(picture(true), Contains("prefers-color-scheme:dark") && !Contains("fill=\"#fff\""));
  CHECK_THAT(picture(true), Contains("Tokens: 3 accepted, 1 corrected, 1 bonus, 1 rejected"));
  CHECK_THAT(picture(false),
             Contains("&lt;A&gt; <tspan class=\"accepted\">&amp;</tspan><tspan class=\"corrected\">"
                      "\xC3\xA9</tspan><tspan class=\"accepted\">" +
                      replacement + "</tspan>" + replacement + "</text>"));
}

}  // namespace test_examples_shown_text
