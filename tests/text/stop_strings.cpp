// Oracle: the target's text alone, searched as a whole and cut.
// SPDX-License-Identifier: MIT
#include <optional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_loop_stop_strings {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// Tokens that split the strings in every way.
constexpr std::string_view pieces[] = {"a", "ab", "bba"};
std::string_view bytes(Token x) { return pieces[x]; }

const std::vector<std::vector<std::string>> lists = {{"b"}, {"aa", "abb"}, {"bab", "ba", "abab"}, {"bbabba"}};
const std::vector<Token> prompt{1, 2};

std::string text_of(std::span<const Token> tokens) {
  std::string text;
  for (const Token x : tokens) text += bytes(x);
  return text;
}

// The string that is completed first; the longest one if several are.
std::optional<StopMatch> first_match(const std::vector<std::string>& strings, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end)
    for (std::size_t begin = 0; begin < end; ++begin)
      for (std::size_t i = 0; i < strings.size(); ++i)
        if (text.substr(begin, end - begin) == strings[i])
          return StopMatch{static_cast<Index>(i), static_cast<Index>(begin), static_cast<Index>(end)};
  return std::nullopt;
}

// The first tokens, up to the token that completes a string.
std::vector<Token> cut(const std::vector<std::string>& strings, std::span<const Token> tokens) {
  for (std::size_t size = 1; size <= tokens.size(); ++size)
    if (first_match(strings, text_of(tokens.first(size))))
      return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(size)};
  return {tokens.begin(), tokens.end()};
}

TableModel<> random_model(std::mt19937_64& rng) { return TableModel<>::random(3, 1, rng); }

}  // namespace

TEST_CASE("With stop strings the law of the text is that of the target's text, cut at the string") {
  std::mt19937_64 rng{1};
  Index ended = 0;
  for (Index n = 0; n < bound(2, 6); ++n)
    for (const auto& strings : lists)
      for (const Index gamma : {1, 3}) {
        TableModel<> target = random_model(rng);
        SpecDec decoder{target, ModelDrafter{random_model(rng)}, GreedyBlockVerifier{}};
        Options options{.max_new_tokens = 4, .gamma = gamma};
        Law expected;
        for (const auto& [tokens, p] : target_law(target, prompt, options))
          expected[cut(strings, tokens)] += p;
        for (const auto& [tokens, p] : expected) ended += std::ssize(tokens) < 4;
        options.stop_strings = {strings, bytes};
        CHECK(largest_difference(enumerate_generate(decoder, prompt, options).law, expected).size < 1e-12);
      }
  CHECK(ended > 0);
}

TEST_CASE("A result tells where its stop string stands, and its caches and counts end with its tokens") {
  std::mt19937_64 rng{2};
  Index stopped = 0, in_last_token = 0;
  for (int n = 0; n < 200; ++n)
    for (const auto& strings : lists) {
      TableModel<> target = random_model(rng);
      SpecDec decoder{target, ModelDrafter{random_model(rng)}, GreedyBlockVerifier{}};
      auto sequence =
          decoder.start(prompt, {.max_new_tokens = 6, .gamma = 3, .stop_strings = {strings, bytes}});
      const Result result = sequence.generate(rng);
      const auto match = first_match(strings, text_of(result.tokens));
      REQUIRE(result.stop_match == match);
      REQUIRE((result.stop_reason == StopReason::stop_string) == match.has_value());
      REQUIRE(result.text(bytes) ==
              text_of(result.tokens)
                  .substr(0, match ? static_cast<std::size_t>(match->begin) : std::string::npos));
      REQUIRE(result.stats.emitted == std::ssize(result.tokens));
      REQUIRE(std::ssize(target.context()) == sequence.kept());
      REQUIRE(sequence.kept() < std::ssize(sequence.context()) + 1);
      REQUIRE(std::equal(target.context().begin(), target.context().end(), sequence.context().begin()));
      stopped += match.has_value();
      // The string is completed by the last token of the budget.
      in_last_token += match && result.tokens.size() == 6;
    }
  CHECK(stopped > 100);
  CHECK(in_last_token > 0);
}

TEST_CASE("A stop token's bytes are not searched, and another text is searched from its beginning") {
  TableModel<>::Rows row(1, 3);
  row << 1, 0, 0;
  TableModel<> target(row, 0);  // the text is a, a, a, ...
  SpecDec decoder{target, NoDrafter{}, GreedyBlockVerifier{}};
  std::mt19937_64 rng{1};
  const StopStrings stops{{"aaa"}, bytes};
  auto sequence = decoder.start(prompt, {.stop_tokens = {0}, .stop_strings = stops});
  CHECK(sequence.generate(rng).stop_reason == StopReason::stop_token);
  const std::vector<Token> context(sequence.context().begin(), sequence.context().end());
  sequence.resume(context, {.max_new_tokens = 2, .stop_strings = stops});
  CHECK(sequence.generate(rng).stop_reason == StopReason::length);
  sequence.resume(context, {.max_new_tokens = 3, .stop_strings = stops});
  const Result result = sequence.generate(rng);
  CHECK(result.stop_match == StopMatch{.string = 0, .begin = 0, .end = 3});
  CHECK(result.text(bytes).empty());
  CHECK(sequence.result().tokens.size() == 3);
  sequence.resume(context, {.max_new_tokens = 2, .stop_strings = stops});
  CHECK_FALSE(sequence.result().stop_match.has_value());
}

TEST_CASE("A tokenizer that throws makes the step fail, which can be tried again") {
  std::mt19937_64 models{5};
  TableModel<> target = random_model(models);
  SpecDec decoder{target, ModelDrafter{random_model(models)}, GreedyBlockVerifier{}};
  bool broken = true;
  const StopStrings stops{{"never"}, [&broken](Token x) {
                            if (broken) throw std::runtime_error("no bytes");
                            return bytes(x);
                          }};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 8, .gamma = 3, .stop_strings = stops});
  std::mt19937_64 rng{6};
  CHECK_THROWS_AS(sequence.step(rng), std::runtime_error);
  CHECK(sequence.tokens().empty());
  CHECK(sequence.stats().target_calls == 0);
  CHECK(target.context().size() == 0);
  broken = false;
  CHECK(sequence.generate(rng).tokens.size() == 8);
}

TEST_CASE("Stop strings return their list, and an empty list is no stop strings") {
  const StopStrings none, empty({}, bytes), two({"x", "x"}, bytes);
  CHECK(none.empty());
  CHECK(empty.empty());
  CHECK(none.strings().empty());
  CHECK(two.strings().size() == 2);
  specdec::detail::StopSearch search;
  CHECK(two.find(search, std::string_view("zx")) == StopMatch{.string = 0, .begin = 1, .end = 2});
  CHECK(message_of<std::invalid_argument>([] { StopStrings({""}, bytes); }) ==
        "specdec: stop_strings[0] is empty: it would end every text");
}

}  // namespace test_loop_stop_strings
