// Where a text ends: stops that count only from some token on, and a condition that is asked at each token.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_loop_ends {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

namespace {

using Tokens = std::vector<Token>;

const Tokens prompt{0, 1};

template <class V, class Source = std::mt19937_64>
Result text_of(std::uint64_t seed, const Options& options, V rule = {}) {
  std::mt19937_64 models{seed};
  Source source{seed};
  const auto target = TableModel<>::random(5, 2, models), small = TableModel<>::random(5, 2, models);
  SpecDec decoder{TableModel<>(target), ModelDrafter{TableModel<>(small)}, rule};
  return decoder.generate(prompt, options, source);
}

// The text is one for the seed, however long the drafts are.
Result keyed_text_of(std::uint64_t seed, const Options& options) {
  return text_of<KeyedVerifier, Keyed>(seed, options);
}

std::string letter(Token x) { return std::string(1, static_cast<char>('a' + x)); }

// How many tokens the text has if it ends with the first token from `least` on for which ends(size) is true.
Index end_of(const Tokens& text, Index least, const auto& ends) {
  for (Index n = std::max<Index>(least, 1); n <= std::ssize(text); ++n)
    if (ends(n)) return n;
  return std::ssize(text);
}

}  // namespace

// The oracle is a text without stops, cut by definition.
TEST_CASE("stop tokens and stop strings before min_new_tokens are text like any other") {
  int cut_later = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    for (const Index least : {0, 3, 7, 30}) {
      const Options all{.max_new_tokens = 30, .gamma = 3};
      const Tokens whole = keyed_text_of(seed, all).tokens;

      Options stops = all;
      stops.min_new_tokens = least;
      stops.stop_tokens = {2};
      const auto is_stop = [&](Index n) { return whole[static_cast<std::size_t>(n) - 1] == 2; };
      const Result by_token = keyed_text_of(seed, stops);
      const Index end = end_of(whole, least, is_stop);
      CHECK(by_token.tokens == Tokens(whole.begin(), whole.begin() + end));
      if (end < 30) CHECK(by_token.stop_reason == StopReason::stop_token);
      cut_later += end != end_of(whole, 0, is_stop);

      stops.stop_tokens = {};
      stops.stop_strings = {{"ab", "bca"}, letter};
      const auto completes = [&](Index n) {
        std::string text;
        for (Index i = 0; i < n; ++i) text += letter(whole[static_cast<std::size_t>(i)]);
        return text.ends_with("ab") || text.ends_with("bca");
      };
      const Result by_string = keyed_text_of(seed, stops);
      const Index string_end = end_of(whole, least, completes);
      CHECK(by_string.tokens == Tokens(whole.begin(), whole.begin() + string_end));
      if (by_string.stop_match) CHECK(by_string.stop_match->end == string_end);
      cut_later += string_end != end_of(whole, 0, completes);
    }
  CHECK(cut_later > 50);
}

TEST_CASE("with min_new_tokens a text still has the target's law") {
  std::mt19937_64 rng{4};
  for (int round = 0; round < 4; ++round) {
    const auto target = TableModel<>::random(3, 1, rng), small = TableModel<>::random(3, 1, rng);
    const Options options{.max_new_tokens = 4, .gamma = 2, .stop_tokens = {1}, .min_new_tokens = 2};
    Law expected;  // the law without stops, with each text cut at the first stop that counts
    for (const auto& [text, p] : target_law(target, prompt, {.max_new_tokens = 4})) {
      const Index end = end_of(text, 2, [&](Index n) { return text[static_cast<std::size_t>(n) - 1] == 1; });
      expected[Tokens(text.begin(), text.begin() + end)] += p;
    }
    CHECK(largest_difference(target_law(target, prompt, options), expected).size < 1e-12);
    Law found;
    enumerate([&](auto& chance) {
      SpecDec decoder{TableModel<>(target), ModelDrafter{TableModel<>(small)}, BlockVerifier{}};
      const Tokens text = decoder.generate(prompt, options, chance).tokens;
      found[text] += chance.probability();
    });
    CHECK(largest_difference(found, expected).size < 1e-12);
  }
}

TEST_CASE("several stop strings in one token: those that do not count yet hide none that does") {
  const auto bytes = [](Token x) { return std::string(x == 0 ? "xStopy" : x == 1 ? "St" : "op"); };
  const StopStrings strings{{"Stop"}, bytes};
  specdec::detail::StopSearch search;
  CHECK_FALSE(strings.find(search, 0, false));
  CHECK_FALSE(strings.find(search, 1));
  const auto match = strings.find(search, 2);
  REQUIRE(match);
  CHECK(*match == StopMatch{0, 6, 10});
}

TEST_CASE(
    "a condition ends a text in the middle of a step, by every rule, and sees each emitted token once") {
  const auto check = [](auto rule) {
    int in_step = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const Options all{.max_new_tokens = 24, .gamma = 4};
      const Result whole = text_of(seed, all, rule);
      for (const Index size : {1, 2, 5, 9, 24}) {
        Options ends = all;
        Index asked = 0;
        ends.ends = [&](std::span<const Token> tokens) {
          CHECK(std::ssize(tokens) == ++asked);
          CHECK(std::equal(tokens.begin(), tokens.end(), whole.tokens.begin()));
          return asked == size;
        };
        ends.log_probabilities = {.processed = true};
        const Result cut = text_of(seed, ends, rule);
        CHECK(cut.tokens == Tokens(whole.tokens.begin(), whole.tokens.begin() + size));
        CHECK(cut.stop_reason == StopReason::condition);
        CHECK(cut.log_probabilities.size() == size);
        CHECK(asked == size);
        in_step += cut.stats.emitted < cut.stats.accepted + cut.stats.target_calls;
      }
    }
    return in_step;
  };
  CHECK(check(BlockVerifier{}) + check(TokenVerifier{}) + check(GreedyBlockVerifier{}) > 0);
}

TEST_CASE("a condition that throws leaves the text as before the step") {
  std::mt19937_64 models{3}, rng{3};
  const auto target = TableModel<>::random(5, 2, models), small = TableModel<>::random(5, 2, models);
  SpecDec decoder{TableModel<>(target), ModelDrafter{TableModel<>(small)}, BlockVerifier{}};
  bool throws = true;
  Options options{.max_new_tokens = 20, .gamma = 4};
  options.ends = [&](std::span<const Token> tokens) {
    if (throws && tokens.size() > 6) throw std::runtime_error("no");
    return false;
  };
  auto sequence = decoder.start(prompt, options);
  CHECK_THROWS_AS(sequence.generate(rng), std::runtime_error);
  CHECK(sequence.tokens().size() <= 6);
  CHECK(sequence.context().size() == prompt.size() + sequence.tokens().size());
  throws = false;
  CHECK(sequence.generate(rng).tokens.size() == 20);
}

TEST_CASE("texts of a batch end alike, and one whose condition throws ends alone") {
  std::mt19937_64 models{3};
  const auto target = TableModel<>::random(5, 2, models), small = TableModel<>::random(5, 2, models);
  Batch batch{ModelPerSequence{TableModel<>(target)}, ModelDrafter{TableModel<>(small)}, BlockVerifier{}};
  Options options{.max_new_tokens = 20, .gamma = 4};
  const Index plain = batch.add(prompt, options, std::mt19937_64{5});
  options.ends = [](std::span<const Token> tokens) { return tokens.size() == 7; };
  const Index seven = batch.add(prompt, options, std::mt19937_64{5});
  options.ends = [](std::span<const Token>) -> bool { throw std::runtime_error("no"); };
  const Index failing = batch.add(prompt, options, std::mt19937_64{5});
  for (const Finished& done : batch.run()) {
    CHECK((done.error != nullptr) == (done.sequence == failing));
    if (done.sequence == plain) CHECK(done.result.tokens.size() == 20);
    if (done.sequence == seven) CHECK(done.result.tokens.size() == 7);
  }
}

TEST_CASE("a negative min_new_tokens is refused") {
  SpecDec decoder{TableModel<>::context_free(Eigen::RowVector2d{0.5, 0.5}), NoDrafter{}};
  CHECK(message_of([&] { decoder.start(prompt, {.min_new_tokens = -1}); }) ==
        "specdec: min_new_tokens = -1 is negative");
}

}  // namespace test_loop_ends
