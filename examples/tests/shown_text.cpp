// Texts that show what became of their tokens: the kinds of tokens, characters that come in parts, and what is written to
// terminals.
#include "generate/shown_text.hpp"

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/terminal.hpp"
#include "generate/utf8.hpp"
#include "support/catch.hpp"

namespace test_examples_shown_text {

using generate::Kind;
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

// What a step adds that drafted and accepted so much.
Kinds step(ShownText& text, std::string_view emitted, std::string_view drafted, specdec::Index accepted) {
  const Tokens out = tokens(emitted), draft = tokens(drafted);
  return kinds(text.add(out, draft, {.accepted = accepted, .token = 0}));
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

TEST_CASE("ShownText: a token is decoded behind the one that is before it in its text") {
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

}  // namespace test_examples_shown_text
