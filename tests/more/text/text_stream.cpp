// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/text/text_stream.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace test_more_text_text_stream {

using namespace specdec;

namespace {

// A token is one byte; a few tokens are several bytes.
std::string bytes(Token x) {
  return x < 256 ? std::string(1, static_cast<char>(x)) : x == 256 ? "\xe2\x82" : "stop";
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

// Whether the text ends with a whole character, found by decoding all of it.
bool is_whole(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto lead = static_cast<unsigned char>(text[at]);
    at += lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  }
  return at == text.size();
}

}  // namespace

TEST_CASE("A stream shows only whole characters, nothing of a stop string, and everything else") {
  const std::string text = "na\xc3\xafve \xe2\x82\xac s \xf0\x9f\x90\x8b sto st stop \xe2\x82\xac behind";
  const std::string shown = text.substr(0, text.find("stop"));
  std::mt19937_64 rng{1};
  for (int round = 0; round < 50; ++round) {
    TextStream stream{bytes, Options{.stop_strings = {{"stop", "nowhere"}, bytes}}};
    std::string seen;
    const std::vector<Token> tokens = tokens_of(text);
    for (std::size_t at = 0; at < tokens.size();) {
      const std::size_t count = std::min<std::size_t>(rng() % 6, tokens.size() - at);
      seen += stream.push(std::span(tokens).subspan(at, count));
      at += count;
      REQUIRE(shown.starts_with(seen));
      REQUIRE(is_whole(seen));
      const std::string all = text.substr(0, at);  // the part that is final by now
      if (all.size() < shown.size() && is_whole(all) && all.back() == ' ') REQUIRE(seen == all);
    }
    CHECK(stream.stopped());
    seen += stream.finish();
    CHECK(seen == shown);
  }
}

TEST_CASE("Bytes held back are shown at the end, and bytes that are not valid text are not held for ever") {
  TextStream stream{bytes, Options{.stop_strings = {{"stop"}, bytes}}};
  const auto push = [&](std::vector<Token> tokens) { return std::string(stream.push(tokens)); };
  CHECK(push({'a', 's', 't'}) == "a");
  CHECK(push({'x', 256}) == "stx");  // two of the three bytes of a character
  CHECK(push({0xac}) == "\xe2\x82\xac");
  CHECK(push({0xff, 0xac}) == "\xff\xac");
  CHECK(push({0xc0}) == "\xc0");  // no character begins with this byte
  CHECK(push({0xc3}).empty());
  CHECK(push({'s'}) == "\xc3");  // this byte can no longer begin a character
  CHECK(stream.finish() == "s");
  CHECK(stream.finish().empty());

  TextStream plain{bytes};
  const std::vector<Token> stop{257};
  CHECK(plain.push(stop) == "stop");
  CHECK_FALSE(plain.stopped());
  CHECK(push({257, 'a'}).empty());
  CHECK(push({'a'}).empty());
}

TEST_CASE("Where a stop string begins inside a character, no part of the character is shown before the end") {
  TextStream stream{bytes, Options{.stop_strings = {{"\xac!", "\x82\xacx"}, bytes}}};
  const auto push = [&](std::vector<Token> tokens) { return std::string(stream.push(tokens)); };
  CHECK(push({'a', 256, 0xac}) == "a");  // the last byte may begin a stop string
  CHECK(push({'b'}) ==
        "\xe2\x82\xac"
        "b");
  CHECK(push({256, 0xac, '!'}).empty());
  CHECK(stream.stopped());
  CHECK(push({'b', 'c'}).empty());       // later tokens neither show nor lose what is held back
  CHECK(stream.finish() == "\xe2\x82");  // the text ends there: see Result::text
  CHECK(push({'a', 256, 0xac, 'x'}) == "a");
  CHECK(stream.finish() == "\xe2");
  CHECK(push({'a', 256}) == "a");
  CHECK(stream.finish() == "\xe2\x82");
  TextStream other{bytes, Options{.stop_strings = {{"stop"}, bytes}}};
  const std::vector<Token> broken{'a', 256, 257};
  CHECK(other.push(broken) == "a\xe2\x82");  // what is no character is not held back
  CHECK(other.finish().empty());
}

TEST_CASE("A stop token ends a stream with its bytes, and finish() prepares it for another text") {
  const Options options{.stop_tokens = {257}, .stop_strings = {{"stop", "abc"}, bytes}};
  TextStream stream{bytes, options};
  const std::vector<Token> ended{'x', 257}, ab{'a', 'b'}, cd{'c', 'd'}, stops{'s', 't', 'o', 'p', 'x'};
  CHECK(stream.push(ended) == "xstop");
  CHECK(stream.finish().empty());
  const std::vector<Token> gone_on{'x', 257, 'y', 's', 't', 'o', 'p'};
  CHECK(stream.push(ab).empty());
  CHECK(stream.push(gone_on) == "abxstop");  // all bytes up to the end of the text, and nothing after it
  CHECK_FALSE(stream.stopped());
  CHECK(stream.push(stops).empty());
  CHECK_FALSE(stream.stopped());
  CHECK(stream.finish().empty());
  const std::vector<Token> at_once{'a', 'b', 257};
  CHECK(stream.push(at_once) == "abstop");  // the beginning of a stop string that will not be completed
  CHECK(stream.finish().empty());
  CHECK(stream.push(ab).empty());
  CHECK(stream.finish() == "ab");
  CHECK(stream.push(cd) == "cd");  // not the end of "abc", which began in the other text
  CHECK(stream.push(stops).empty());
  CHECK(stream.stopped());
  CHECK(stream.finish().empty());
  CHECK(stream.push(ended) == "xstop");
  CHECK_FALSE(stream.stopped());
}

TEST_CASE("A tokenizer that throws leaves a stream as it was") {
  bool broken = false;
  TextStream stream{[&broken](Token x) {
                      if (broken && x == 'b') throw std::runtime_error("no bytes");
                      return bytes(x);
                    },
                    Options{.stop_strings = {{"stop"}, bytes}}};
  const std::vector<Token> s{'a', 's'}, tab{'t', 'a', 'b'};
  CHECK(stream.push(s) == "a");
  broken = true;
  CHECK_THROWS_AS(stream.push(tab), std::runtime_error);
  broken = false;
  CHECK(stream.push(tab) == "stab");

  CHECK(stream.push(s) == "a");
  broken = true;
  const std::vector<Token> tob{'t', 'o', 'b'}, top{'t', 'o', 'p'};
  CHECK_THROWS_AS(stream.push(tob), std::runtime_error);
  CHECK(stream.push(top).empty());  // completes the "s" from before
  CHECK(stream.stopped());
}

TEST_CASE("a stream shows stops that do not count yet") {
  const Options options{.stop_tokens = {256}, .stop_strings = {{"stop"}, bytes}, .min_new_tokens = 4};
  TextStream stream{bytes, options};
  for (int round = 0; round < 2; ++round) {
    std::string seen;
    for (const Token x : {257, 256, int{'a'}, 257, int{'b'}}) seen += stream.push(std::vector<Token>{x});
    CHECK(stream.stopped());
    CHECK(seen + std::string(stream.finish()) ==
          "stop\xe2\x82"
          "a");
  }
}

}  // namespace test_more_text_text_stream
