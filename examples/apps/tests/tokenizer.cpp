// The tokenizer: merges worked out by hand, all bytes encoded and decoded, and a slow algorithm as the oracle.
// SPDX-License-Identifier: MIT
#include "transformer/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "small_transformer.hpp"
#include "support/catch.hpp"

namespace test_examples_tokenizer {

using support::TemporaryFile;
using transformer::Tokenizer;
using Token = Tokenizer::Token;
using Tokens = std::vector<Token>;
using Pieces = std::vector<std::pair<std::string, float>>;

namespace {

// The control tokens and bytes of every vocabulary, and `more` from 259 on.
Pieces vocabulary(const Pieces& more) {
  Pieces pieces{{"<unk>", 0.0f}, {"\n<s>\n", 0.0f}, {"\n</s>\n", 0.0f}};
  for (int b = 0; b < 256; ++b) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto i = static_cast<std::size_t>(b);
    pieces.push_back({std::string("<0x") + digits[i / 16] + digits[i % 16] + ">", 0.0f});
  }
  pieces.insert(pieces.end(), more.begin(), more.end());
  return pieces;
}

std::string file_of(const Pieces& pieces) {
  std::string bytes;
  support::append(bytes, std::int32_t{10});
  for (const auto& [text, score] : pieces) {
    support::append(bytes, score);
    support::append(bytes, static_cast<std::int32_t>(text.size()));
    bytes += text;
  }
  return bytes;
}

Tokenizer tokenizer_of(const Pieces& pieces) {
  const TemporaryFile file(file_of(pieces));
  return Tokenizer(file.path(), std::ssize(pieces));
}

std::string decoded(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::string text;
  for (std::size_t i = 1; i < tokens.size(); ++i) text += tokenizer.decode(tokens[i - 1], tokens[i]);
  return text;
}

std::string error_of(const std::string& bytes, std::int64_t vocab_size) {
  const TemporaryFile file(bytes);
  const std::string message =
      support::message_of<std::runtime_error>([&] { Tokenizer(file.path(), vocab_size); });
  const std::string start = file.path() + ": ";
  return message.starts_with(start) ? message.substr(start.size()) : "unnamed: " + message;
}

// Greedy merging by its definition: look at all pairs, merge the best one, repeat.
Tokens slowly_merged(const Pieces& pieces, Tokens tokens) {
  std::map<std::string, Token> ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) ids.emplace(pieces[i].first, static_cast<Token>(i));
  const auto piece = [&](Token t) { return pieces[static_cast<std::size_t>(t)]; };
  while (true) {
    float best = -1e10f;
    std::size_t where = 0;
    Token merged = 0;
    for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
      const auto found = ids.find(piece(tokens[i]).first + piece(tokens[i + 1]).first);
      if (found == ids.end() || !(piece(found->second).second > best)) continue;
      best = piece(found->second).second;
      where = i;
      merged = found->second;
    }
    if (where == 0) return tokens;
    tokens[where] = merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

}  // namespace

TEST_CASE("Tokenizer: the best score is merged first, the leftmost of equals") {
  const auto t = tokenizer_of(vocabulary({{" ", -9},
                                          {"a", -9},
                                          {"b", -9},
                                          {"c", -9},
                                          {"ab", -3},
                                          {"bc", -2},
                                          {"abc", -4},
                                          {"aa", -1},
                                          {" a", -5}}));
  enum : Token { space = 259, a, b, c, ab, bc, abc, aa, space_a };
  CHECK(t.encode("ab") == Tokens{1, space, ab});
  CHECK(t.encode("abc") == Tokens{1, space, abc});  // a and bc, which are then merged
  CHECK(t.encode("abb") == Tokens{1, space, ab, b});
  CHECK(t.encode("aaa") == Tokens{1, space, aa, a});
  CHECK(t.encode("aaaa") == Tokens{1, space, aa, aa});
  CHECK(t.encode("ac") == Tokens{1, space_a, c});
  CHECK(t.encode("caab") == Tokens{1, space, c, aa, b});
  CHECK(t.encode("") == Tokens{1});
}

TEST_CASE("Tokenizer: a piece of no worth is no result of a merge") {
  const auto t = tokenizer_of(vocabulary({{"a", 0}, {"b", 0}, {"ab", -1e10f}, {"ba", -9e9f}}));
  CHECK(t.encode("ab") == Tokens{1, 259, 260});
  CHECK(t.encode("ba") == Tokens{1, 262});
}

TEST_CASE("Tokenizer: characters of several bytes, and bytes of none") {
  const auto t = tokenizer_of(vocabulary({{"a", 0}, {"é", 0}, {"日", 0}, {"é日", -1}}));
  CHECK(t.encode("é") == Tokens{1, 260});
  CHECK(t.encode("é日") == Tokens{1, 262});
  CHECK(t.encode("日é") == Tokens{1, 261, 260});
  CHECK(t.encode("b") == Tokens{1, 3 + 'b'});
  CHECK(t.encode("本") == Tokens{1, 3 + 0xE6, 3 + 0x9C, 3 + 0xAC});
  CHECK(t.encode("\xC3") == Tokens{1, 3 + 0xC3});  // the beginning of é
  CHECK(t.encode("a\xA9") == Tokens{1, 3 + 'a', 3 + 0xA9});
  CHECK(t.encode(std::string_view("\0a", 2)) == Tokens{1, 3, 259});
  // Six bytes in the form of one character are more than one character: a character has at most four bytes.
  CHECK(t.encode("\xFC\x80\x80\x80\x80\x80").size() == 7);
}

TEST_CASE("Tokenizer: decodes pieces, bytes, and no space after the beginning") {
  const auto t = tokenizer_of(vocabulary({{" a", 0}, {"<0x0a>", 0}, {"<0x4>", 0}, {" ", 0}}));
  CHECK(t.decode(1, 259) == "a");
  CHECK(t.decode(5, 259) == " a");
  CHECK(t.decode(1, 262) == "");
  CHECK(t.decode(5, 3 + 0x0A) == "\n");
  CHECK(t.decode(1, 3 + ' ') == " ");  // a byte is a byte
  CHECK(t.decode(5, 260) == "<0x0a>");
  CHECK(t.decode(5, 261) == "<0x4>");
  for (int b = 0; b < 256; ++b) CHECK(t.decode(5, 3 + b) == std::string(1, static_cast<char>(b)));
  CHECK(support::message_of<std::out_of_range>([&] { t.decode(1, 263); }) ==
        "transformer: token 263 is outside the vocabulary 0..262");
  CHECK(support::message_of<std::out_of_range>([&] { t.decode(1, -1); }) ==
        "transformer: token -1 is outside the vocabulary 0..262");
}

TEST_CASE("Tokenizer: any bytes there and back, and as the slow algorithm has it") {
  std::mt19937 rng{1};
  const auto below = [&](unsigned n) { return static_cast<std::size_t>(rng() % n); };
  Pieces more{{" ", -1}, {"a", -2}, {"b", -3}, {"é", -4}, {"\n", -5}};
  while (more.size() < 60) {  // concatenations of two earlier pieces, some of them twice
    const std::string text = more[below(static_cast<unsigned>(more.size()))].first +
                             more[below(static_cast<unsigned>(more.size()))].first;
    if (text.size() < 12) more.push_back({text, -static_cast<float>(below(8))});
  }
  const Pieces pieces = vocabulary(more);
  const auto t = tokenizer_of(pieces);
  for (int n = 0; n < 300; ++n) {
    std::string text;
    Tokens characters{1, 259};
    const std::size_t length = 1 + below(40);
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t kind = below(8);
      const std::string next =
          kind < 5 ? more[kind].first : std::string(1, static_cast<char>(0xC0 + below(64)));
      text += next;
      characters.push_back(kind < 5 ? static_cast<Token>(259 + kind)
                                    : 3 + static_cast<unsigned char>(next[0]));
    }
    CHECK(decoded(t, t.encode(text)) == text);
    CHECK(t.encode(text) == slowly_merged(pieces, characters));
    for (char& byte : text) byte = static_cast<char>(below(256));
    CHECK(decoded(t, t.encode(text)) == text);
  }
}

TEST_CASE("Tokenizer: a piece from within a text has no space but its own, and is its tokens' bytes") {
  const Tokenizer tokenizer =
      tokenizer_of(vocabulary({{" ", -1}, {"a", -1}, {"b", -1}, {" a", -2}, {" ab", -3}}));
  const Token space = 259;
  CHECK(tokenizer.encode("ab") == Tokens{1, space + 4});
  CHECK(tokenizer.encode_inside("ab") == Tokens{space + 1, space + 2});
  CHECK(tokenizer.encode_inside(" ab") == Tokens{space + 4});
  CHECK(tokenizer.encode_inside("").empty());
  CHECK(tokenizer.bytes(space + 4) == " ab");
  CHECK(tokenizer.bytes(3 + 'x') == "x");
  for (const Token control : {0, 1, 2}) CHECK(tokenizer.bytes(control).empty());
  CHECK_THROWS_AS(tokenizer.bytes(tokenizer.vocab_size()), std::out_of_range);
}

TEST_CASE("Tokenizer: survives a move") {
  auto from = tokenizer_of(vocabulary({{"a", 0}}));
  const Tokenizer to = std::move(from);
  CHECK(to.encode("a") == Tokens{1, 259});
  CHECK(to.decode(5, 259) == "a");
}

TEST_CASE("Tokenizer: broken files") {
  const Pieces pieces = vocabulary({{"a", 0}, {"bc", 0}});
  const std::string bytes = file_of(pieces);
  const std::string size = std::to_string(bytes.size());
  CHECK(error_of(bytes, 261) == "unnamed: ");
  CHECK(error_of(bytes, 262) == "expected 262 tokens, found 261 and the end of the file");
  CHECK(error_of(bytes, 260) ==
        "expected 260 tokens in " + std::to_string(bytes.size() - 10) + " bytes, found a file of " + size);
  CHECK(error_of(bytes.substr(0, bytes.size() - 1), 261) ==
        "expected 261 tokens, found 260 and the end of the file");
  CHECK(error_of(bytes + "x", 261) ==
        "expected 261 tokens in " + size + " bytes, found a file of " + std::to_string(bytes.size() + 1));
  CHECK(error_of("", 261) == "expected 261 tokens, found 0 and the end of the file");
  CHECK(error_of("abc", 261) == "expected 261 tokens, found 0 and the end of the file");
  CHECK(error_of(bytes, 258) == "expected a vocabulary of at least 259 tokens, found a model of 258");
  std::string negative = bytes;
  for (std::size_t i = 8; i < 12; ++i) negative[i] = '\xFF';  // the length of token 0
  CHECK(error_of(negative, 261) == "token 0 has the score 0 and -1 bytes");
  Pieces unscored = pieces;
  unscored[7].second = std::numeric_limits<float>::quiet_NaN();
  CHECK(error_of(file_of(unscored), 261) == "token 7 has the score nan and 6 bytes");
  std::string endless = bytes;
  for (std::size_t i = 8; i < 11; ++i) endless[i] = '\xFF';
  CHECK(error_of(endless, 261) == "expected 261 tokens, found 0 and the end of the file");
  CHECK(support::message_of<std::runtime_error>([] { Tokenizer("no/such/file", 300); }) ==
        "no/such/file: cannot be read");
}

}  // namespace test_examples_tokenizer
