// Where a text ends: stops that count only from some token on, and a condition that is asked at each token.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
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

TEST_CASE("a condition ends a text in the middle of a step, by every rule, and sees each token of it once") {
  const auto check = [](const auto& write) {
    int in_step = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed)
      for (const Index size : {1, 2, 5, 9, 24}) {
        std::vector<Tokens> asked;
        Options options{.max_new_tokens = 24, .gamma = 4, .log_probabilities = {.processed = true}};
        options.ends = [&](std::span<const Token> tokens) {
          asked.emplace_back(tokens.begin(), tokens.end());
          return std::ssize(tokens) == size;
        };
        const Result cut = write(seed, options);
        CHECK(std::ssize(cut.tokens) == size);
        CHECK(cut.stop_reason == StopReason::condition);
        CHECK(cut.log_probabilities.size() == size);
        // Of drafted tokens it is asked before the target has judged them; of none that would come after the end.
        for (Index n = 1; n <= size; ++n)
          CHECK(std::ranges::count(asked, Tokens(cut.tokens.begin(), cut.tokens.begin() + n)) >= 1);
        CHECK(std::ssize(asked) <= cut.stats.drafted + cut.stats.target_calls);
        for (const Tokens& tokens : asked) CHECK(std::ssize(tokens) <= size);
        in_step += cut.stats.emitted < cut.stats.accepted + cut.stats.target_calls;
      }
    CHECK(in_step > 0);
  };
  check([](std::uint64_t seed, const Options& options) { return text_of<BlockVerifier>(seed, options); });
#ifndef SPECDEC_TEST_SOME
  check([](std::uint64_t seed, const Options& options) { return text_of<TokenVerifier>(seed, options); });
  check(
      [](std::uint64_t seed, const Options& options) { return text_of<GreedyBlockVerifier>(seed, options); });
#endif
  check([](std::uint64_t seed, const Options& options) {
    const Result cut = keyed_text_of(seed, options);
    const Tokens whole = keyed_text_of(seed, {.max_new_tokens = 24, .gamma = 4}).tokens;
    CHECK(std::equal(cut.tokens.begin(), cut.tokens.end(), whole.begin()));
    return cut;
  });
}

TEST_CASE("a condition sees no token that only the draft model knows, and nothing after one") {
  std::mt19937_64 rng{3};
  const auto target = TableModel<>::random(3, 2, rng), small = TableModel<>::random(5, 2, rng);
  Options options{.max_new_tokens = 60, .gamma = 6};
  options.ends = [](std::span<const Token> tokens) {
    CHECK(std::ranges::all_of(tokens, [](Token x) { return x < 3; }));
    return false;
  };
  SpecDec line{TableModel<>(target), ModelDrafter{TableModel<>(small)}};
  CHECK(line.generate(prompt, options, rng).tokens.size() == 60);
  SpecDec tree{TableModel<>(target),
               ModelDrafter{TableModel<>(small), Tree{TreeShape::of_widths({2, 2, 1}), WithoutReplacement{}}},
               TraversalVerifier{}};
  CHECK(tree.generate(prompt, options, rng).tokens.size() == 60);
}

TEST_CASE("an error about a drafted token counts only if the token is written", "[law]") {
  const auto target = TableModel<>::context_free(Eigen::RowVector3d{0.5, 0.3, 0.2}),
             small = TableModel<>::context_free(Eigen::RowVector3d{0.2, 0.2, 0.6});
  const auto bytes = [](Token x) { return x == 2 ? throw std::runtime_error("no text") : letter(x); };
  const auto grammar = [=](std::span<const Token> tokens) { return bytes(tokens.back()).empty(); };
  const Options by_condition{.max_new_tokens = 3, .gamma = 3, .ends = grammar},
      by_string{.max_new_tokens = 3, .gamma = 3, .stop_strings = {{"x"}, bytes}};
  for (const Options& options : {by_condition, by_string}) {
    const auto check = [&](const auto& strategy, const auto& rule) {
      double failed = 0, written = 0;
      enumerate([&](auto& chance) {
        SpecDec decoder{TableModel<>(target), ModelDrafter{TableModel<>(small), strategy}, rule};
        const bool fails =
            specdec::detail::error_of([&] { decoder.generate(prompt, options, chance); }) != nullptr;
        (fails ? failed : written) += chance.probability();
      });
      CHECK(std::abs(failed + written - 1) < 1e-12);
      CHECK(std::abs(written - 0.8 * 0.8 * 0.8) < 1e-12);
    };
    check(Line{}, BlockVerifier{});
#ifndef SPECDEC_TEST_SOME
    check(Line{}, GreedyBlockVerifier{});
#endif
    check(Tree{TreeShape{-1, -1, 0}, WithoutReplacement{}}, TraversalVerifier{});
  }
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
