// The masks of a grammar for the rows of a feed.
// SPDX-License-Identifier: MIT
#include <specdec/more/samplers/feed_masks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/processors.hpp"
#include "support/rows_asked.hpp"

namespace test_more_samplers_feed_masks {

using namespace specdec;
using namespace support;

namespace {

using Tokens = std::vector<Token>;
using Rows = RowMajor<double>;
using Words = std::vector<std::uint32_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();
const Tokens prompt{0, 2, 1, 1, 0, 2};  // a Rhythm

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

// An engine that masks its own logits. It computes no row that no token is allowed in.
struct Engine {
  LogTable model{4, 2, 5};
  Index left_out = 0;

  Rows call(std::span<const Token> text, const Feed& feed, std::span<const std::uint32_t> masks) {
    Rows rows = Rows::Constant(feed.rows, 4, std::numeric_limits<double>::quiet_NaN());
    for (Index i = 0; i < feed.rows; ++i) {
      const std::uint32_t mask = masks[std::size_t(i)];
      if (mask == 0) {
        ++left_out;
        continue;
      }
      rows.row(i) = model.logits(before_row(text, feed, i));
      for (Token x = 0; x < 4; ++x)
        if (((mask >> x) & 1u) == 0) rows(i, x) = -infinity;
    }
    return rows;
  }
};

template <class V, class Drafter, class Grammars>
void check_texts(const V& rule, const Drafter& drafter, const Grammars& grammar) {
  const Options options{.max_new_tokens = 16, .gamma = 6};
  Index left_out = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Engine engine;
    FeedMasks masks{grammar, 4};
    std::mt19937_64 rng(seed), again(seed);
    SpecDec decoder{ProcessedModel{ExternalTarget{4}, Chain{}}, Drafter(drafter), rule};
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      const Feed feed = sequence.propose(rng);
      const Words first = [&](auto bits) {
        return Words(bits.begin(), bits.end());
      }(masks(sequence.context(), feed));
      const std::span<const std::uint32_t> bits = masks(sequence.context(), feed);  // it may be asked again
      REQUIRE(std::ranges::equal(first, bits));
      REQUIRE(std::ssize(bits) == feed.rows * masks.words());
      sequence.accept(engine.call(sequence.context(), feed, bits), rng);
    }
    left_out += engine.left_out;
    SpecDec whole{ProcessedModel{engine.model, Chain{}, grammar}, Drafter(drafter), rule};
    CHECK(copy(sequence.tokens()) == whole.generate(prompt, options, again).tokens);
  }
  CHECK(left_out > 20);
}

// A matcher of few or many tokens: allows those that three divides, and refuses the others.
template <Index tokens>
struct Threes {
  static Index vocab_size() { return tokens; }
  static void allow(std::span<std::uint32_t> mask) {
    for (std::size_t k = 0; k < 32 * mask.size(); k += 3) mask[k / 32] |= std::uint32_t{1} << (k % 32);
  }
  static bool advance(Token x) { return x % 3 == 0; }
  static void rollback(Index) {}
};

}  // namespace

TEST_CASE("an engine that masks its logits by the masks of a feed writes the text of the grammar") {
  const ModelDrafter line{LogTable(4, 1, 9).table};
  check_texts(BlockVerifier{}, line, Grammar{Rhythm{}});
  check_texts(BlockVerifier{}, line, AfterPrompt{prompt.size(), Grammar{ForwardRhythm{}}});
  check_texts(BlockVerifier{}, line, Processors{Grammar{Rhythm{}}, Grammar{ForwardRhythm{}}});
}

TEST_CASE("an engine that masks the rows of a tree writes the text of the grammar") {
  const ModelDrafter tree{LogTable(4, 1, 9).table,
                          Tree{TreeShape::of_widths({2, 1, 2}), WithoutReplacement{}}};
  check_texts(TraversalVerifier{}, tree, Grammar{Rhythm{}});
}

TEST_CASE("a mask has a bit for each token that is allowed, of those that the matcher knows") {
  const auto bits_of = [](auto masks, Index vocab_size) {
    const Tokens fed{0};
    const auto bits = masks(std::span<const Token>{}, Feed{.tokens = fed, .rows = 1});
    REQUIRE(std::ssize(bits) == (vocab_size + 31) / 32);
    std::vector<Token> allowed;
    for (Token x = 0; x < 32 * std::ssize(bits); ++x)
      if (((bits[std::size_t(x) / 32] >> (x % 32)) & 1u) != 0) allowed.push_back(x);
    return allowed;
  };
  const auto threes = [](Index below) {
    std::vector<Token> all;
    for (Token x = 0; x < below; x += 3) all.push_back(x);
    return all;
  };
  CHECK(bits_of(FeedMasks{Grammar{Threes<70>{}}, 70}, 70) == threes(70));
  CHECK(bits_of(FeedMasks{Grammar{Threes<40>{}}, 70}, 70) == threes(40));
  CHECK(bits_of(FeedMasks{Grammar{Threes<64>{}}, 70}, 70) == threes(64));
  CHECK(bits_of(FeedMasks{Grammar{Threes<100>{}}, 70}, 70) == threes(70));
  CHECK(bits_of(FeedMasks{Grammar{Threes<1>{}}, 64}, 64) == threes(1));
  // Before a grammar begins all tokens are allowed, and no bit is set beyond them.
  const auto all = bits_of(FeedMasks{AfterPrompt{5, Grammar{Threes<70>{}}}, 70}, 70);
  CHECK(std::ssize(all) == 70);
  CHECK(all.back() == 69);
}

TEST_CASE("each sequence has its own grammar, and begins anew after release()") {
  int begun = 0;
  FeedMasks masks{[&](Index number) {
                    ++begun;
                    return AfterPrompt{number, Grammar{Rhythm{}}};
                  },
                  4};
  const Tokens fed{2};  // a Rhythm does not begin with 2
  const auto ask = [&](Index number) {
    return masks(std::span<const Token>{}, BatchFeed{{.tokens = fed, .rows = 1}, number})[0];
  };
  CHECK(message_of([&] { ask(0); }) ==
        "specdec: token 0 of the text is 2, which the processor refuses: it sees the prompt, too, where no "
        "AfterPrompt leaves "
        "it out");
  CHECK(ask(1) == 0b011);
  CHECK(ask(2) == 0b1111);
  CHECK(ask(1) == 0b011);
  CHECK(begun == 3);
  masks.release(1);
  CHECK(ask(1) == 0b011);
  CHECK(begun == 4);
  CHECK(message_of([] { FeedMasks{Grammar{Rhythm{}}, 0}; }) == "specdec: vocab_size = 0 is not positive");
}

TEST_CASE("after a matcher that throws, the masks can be asked for again") {
  const auto calls_left = std::make_shared<int>(0);
  FeedMasks masks{Faulty{calls_left, Grammar{ForwardRhythm{}}}, 4};
  const Tokens fed{0, 2, 1, 0};
  const Feed feed{.tokens = fed, .rows = 4};
  for (int fails = 1; fails < 12; ++fails) {
    *calls_left = fails;
    message_of<std::runtime_error>([&] { masks(std::span<const Token>{}, feed); });
    *calls_left = 1000;
    const auto bits = masks(std::span<const Token>{}, feed);
    CHECK(Words(bits.begin(), bits.end()) == Words{0b100, 0b011, 0b111, 0b100});
  }
}

TEST_CASE("a feed that does not fit the context is refused") {
  FeedMasks masks{Grammar{Rhythm{}}, 4};
  const Tokens text{1, 2}, next{0};
  CHECK(message_of([&] { masks(text, Feed{.tokens = next, .from = 3, .rows = 1}); }) ==
        "specdec: feed.from = 3 is outside 0..2, the length of the context");
  CHECK(message_of([&] { masks(text, Feed{.tokens = next, .from = 1, .rows = 2}); }) ==
        "specdec: feed.rows = 2 is outside 0..1, the number of its tokens");
}

TEST_CASE("a token that the grammar refuses is an error once it is text") {
  FeedMasks masks{Grammar{Rhythm{}}, 4};
  const Tokens text{1, 2, 2, 0}, drafted{2, 2, 0};
  const auto bits = masks(std::span(text).first(1), Feed{.tokens = drafted, .from = 1, .rows = 3});
  CHECK(Words(bits.begin(), bits.end()) == Words{0b011, 0, 0});
  const Tokens next{0};
  CHECK(message_of([&] {
          masks(std::span(text).first(3), Feed{.tokens = next, .from = 3, .rows = 1});
        }).find("token 2 of the text is 2") != std::string::npos);
}

}  // namespace test_more_samplers_feed_masks
