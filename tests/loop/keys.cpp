// Contexts whose tokens are equal, and that differ by their keys: what was cached for one image does not serve another.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_loop_keys {

using namespace specdec;
using support::message_of;

namespace {

using Tokens = std::vector<Token>;
using Images = std::map<Index, int>;  // by position

constexpr Token placeholder = 3;
constexpr Index vocab = 4;

// What an engine knows after each token of a context: all tokens and images so far.
struct Cache {
  std::vector<int> states = {};

  void read(std::span<const Token> tokens, const Images& images) {
    for (const Token x : tokens) {
      const auto image = x == placeholder ? images.find(std::ssize(states)) : images.end();
      const int seen = image == images.end() ? x : 10 + image->second;
      states.push_back(((states.empty() ? 7 : states.back()) * 31 + seen * 17 + 5) % 9973);
    }
  }
  // The row after the token before `size`.
  Eigen::RowVectorXd row(std::size_t size) const {
    const int state = states[size - 1];
    Eigen::RowVectorXd row(vocab);
    for (Index x = 0; x < vocab; ++x) row[x] = 1 + state / (1 + static_cast<int>(x)) % 7;
    return row / row.sum();
  }
};

// For one text. It is shown the images beside the tokens.
struct Reader {
  const Images* images;
  std::shared_ptr<Index> fed = std::make_shared<Index>(0);
  Cache cache = {};
  Eigen::MatrixXd rows = {};

  Index vocab_size() const { return vocab; }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index count) {
    cache.read(tokens, *images);
    *fed += std::ssize(tokens);
    rows.resize(count, vocab);
    const std::size_t size = cache.states.size();
    for (Index i = 0; i < count; ++i) rows.row(i) = cache.row(size - static_cast<std::size_t>(count - 1 - i));
    return rows;
  }
  void truncate(Index length) { cache.states.resize(static_cast<std::size_t>(length)); }
};

// For many, which copies contexts.
struct Readers {
  const std::map<Index, Images>* images;
  std::map<Index, Cache> caches = {};
  Eigen::MatrixXd rows = {};

  Index vocab_size() const { return vocab; }
  const Eigen::MatrixXd& forward(std::span<const BatchFeed> feeds) {
    Index count = 0;
    for (const BatchFeed& feed : feeds) count += feed.rows;
    rows.resize(count, vocab);
    count = 0;
    for (const BatchFeed& feed : feeds) {
      Cache& cache = caches[feed.sequence];
      REQUIRE(std::ssize(cache.states) == feed.from);
      cache.read(feed.tokens, images->at(feed.sequence));
      const std::size_t size = cache.states.size();
      for (Index i = 0; i < feed.rows; ++i)
        rows.row(count++) = cache.row(size - static_cast<std::size_t>(feed.rows - 1 - i));
    }
    return rows;
  }
  void keep(Index sequence, Index length) {
    auto& states = caches[sequence].states;
    states.resize(std::min(states.size(), static_cast<std::size_t>(length)));
  }
  void release(Index sequence) { caches.erase(sequence); }
  void fork(Index from, Index to) { caches[to] = caches.at(from); }
};

Options options_with(std::vector<ContextKey> keys, Index gamma = 3) {
  return {.max_new_tokens = 12, .gamma = gamma, .keys = std::move(keys)};
}

Tokens alone(const Images& images, const Tokens& context, std::uint64_t seed) {
  SpecDec decoder{Reader{&images}, ModelDrafter{Reader{&images}}};
  std::mt19937_64 rng(seed);
  return decoder.generate(context, options_with({}), rng).tokens;
}

// The text goes on from equal tokens with another image at position 4 of six. All drafts are accepted, if the drafter sees that
// image, too: it draws from the target's rows.
template <class Make>
void check_other_image(const Make& drafter_of) {
  const Tokens context{0, placeholder, 1, 2, placeholder, 1};
  for (const int other : {8, 9}) {
    Images images{{1, 5}, {4, 8}};
    const Reader target{&images};
    SpecDec decoder{Reader(target), drafter_of(images)};
    auto sequence = decoder.start(context, options_with({{1, 5}, {4, 8}}));
    std::mt19937_64 rng(1), again(2);
    sequence.generate(rng);
    images[4] = other;
    const Index fed = *target.fed;
    const Stats before = sequence.stats();
    sequence.resume(context, options_with({{1, 5}, {4, std::uint64_t(other)}}));
    CHECK(sequence.kept() == (other == 8 ? 5 : 4));
    const Result result = sequence.generate(again);
    CHECK(result.tokens == alone(images, context, 2));
    CHECK(result.stats.drafted - before.drafted == result.stats.accepted - before.accepted);
    CHECK(*target.fed - fed == 12 - 1 + (other == 8 ? 1 : 2));
  }
}

}  // namespace

TEST_CASE("what is cached of a context serves another up to the first key in which they differ") {
  check_other_image([](const Images& images) { return ModelDrafter{Reader{&images}}; });
#ifndef SPECDEC_TEST_SOME
  check_other_image([](const Images& images) {
    return CascadeDrafter{Reader{&images}, ModelDrafter{Reader{&images}}, BlockVerifier{}};
  });
#endif
}

TEST_CASE("keys that one context has and the other has not are a difference, too") {
  const Tokens context{0, placeholder, 1, 2, placeholder, 1};
  const Images images;
  const std::vector<ContextKey> one{{1, 5}}, two{{1, 5}, {4, 8}}, adapter{{0, 1}, {1, 5}};
  const auto kept = [&](const std::vector<ContextKey>& before, const std::vector<ContextKey>& after,
                        const Tokens& text) {
    SpecDec decoder{Reader{&images}, ModelDrafter{Reader{&images}}};
    auto sequence = decoder.start(context, options_with(before));
    std::mt19937_64 rng(1);
    sequence.generate(rng);
    sequence.resume(text, options_with(after));
    return sequence.kept();
  };
  CHECK(kept({}, {}, context) == 5);
  CHECK(kept(two, two, context) == 5);
  CHECK(kept(one, two, context) == 4);
  CHECK(kept(two, one, context) == 4);
  CHECK(kept(two, {{1, 5}, {3, 8}}, context) == 3);
  CHECK(kept(two, {}, context) == 1);
  CHECK(kept(one, adapter, context) == 0);
  CHECK(kept(two, one, {0, placeholder, 1}) == 2);  // the last token is fed for its row
}

TEST_CASE("a text keeps its keys when its options change, it is forked, or gets another turn") {
  const Tokens context{0, placeholder, 1}, turn{placeholder, 2};
  Images images{{1, 5}};
  SpecDec decoder{Reader{&images}, ModelDrafter{Reader{&images}}};
  auto sequence = decoder.start(context, options_with({{1, 5}}));
  std::mt19937_64 rng(1);
  sequence.step(rng);
  sequence.change({.max_new_tokens = 4, .gamma = 1});
  auto twin = sequence.fork(Options{.max_new_tokens = 5});
  sequence.generate(rng);
  const Index next = std::ssize(sequence.context());
  images[next] = 6;
  sequence.add_turn(turn, options_with({{next, 6}}));
  CHECK(sequence.kept() == next - 1);
  sequence.generate(rng);
  const Tokens whole(sequence.context().begin(), sequence.context().end());
  const Tokens begun(whole.begin(), whole.begin() + next + 2);
  sequence.resume(begun, options_with({{1, 5}, {next, 6}}));
  CHECK(sequence.kept() == next + 1);
  sequence.resume(begun, options_with({{1, 5}, {next, 7}}));
  CHECK(sequence.kept() == next);
  twin.generate(rng);
  twin.resume(context, options_with({{1, 5}}));
  CHECK(twin.kept() == 2);
  twin.generate(rng);
  twin.resume(context, options_with({}));
  CHECK(twin.kept() == 1);
}

TEST_CASE("a rule's memory of one image is none of another") {
  const Tokens context{0, placeholder, 1};
  const Images images{{1, 5}}, of_drafter;
  for (const std::uint64_t key : {5u, 6u}) {
    SpecDec decoder{Reader{&images}, ModelDrafter{Reader{&of_drafter}}, GreedyBlockVerifier{}};
    auto sequence = decoder.start(context, {.max_new_tokens = 50, .gamma = 3, .keys = {{1, 5}}});
    std::mt19937_64 rng(1);
    do sequence.step(rng);
    while (is_fresh(sequence.verifier()));
    const Tokens text(sequence.context().begin(), sequence.context().end());
    sequence.resume(text, options_with({{1, key}}));
    CHECK(is_fresh(sequence.verifier()) == (key == 6));
  }
}

namespace {

// Its twins read for themselves.
struct Uncopied : Readers {
  void fork(Index, Index) = delete;
};
static_assert(can_fork<Readers> && !can_fork<Uncopied>);

template <class Target>
void check_twins() {
  const Tokens prompt{0, 1, 2, placeholder, 1}, turn{placeholder, 2, 2};
  const Index next = std::ssize(prompt);
  std::map<Index, Images> images{{0, {{3, 4}}}, {1, {{3, 4}}}};
  Target target{{&images}};
  Readers small{&images};
  Batch batch{target, ModelDrafter<Readers&>{small}};
  batch.add({.prompt = prompt,
             .options = {.max_new_tokens = 0, .keys = {{3, 4}}},
             .source = std::mt19937_64{1},
             .stays = true});
  batch.run();
  batch.fork(0, std::mt19937_64{2});
  for (const Index number : {0, 1}) {
    images[number][next] = static_cast<int>(number);
    batch.add_turn(number, turn, options_with({{next, std::uint64_t(number)}}));
  }
  Tokens context = prompt;
  context.insert(context.end(), turn.begin(), turn.end());
  const std::vector<Finished> finished = batch.run();
  REQUIRE(finished.size() == 2);
  for (const Finished& done : finished) {
    CHECK_FALSE(done.error);
    CHECK(done.result.tokens == alone(images[done.sequence], context, done.sequence == 0 ? 1 : 2));
    CHECK(done.result.stats.drafted > 0);
    CHECK(done.result.stats.accepted == done.result.stats.drafted);
    CHECK(done.result.cached == (done.sequence == 1 && can_fork<Target> ? next : 0));
  }
}

}  // namespace

TEST_CASE("twins that get other images have contexts of their own from there on") {
  check_twins<Readers>();
  check_twins<Uncopied>();
}

TEST_CASE("keys that are not in the order of their positions, or outside the context, are refused") {
  const Images images;
  SpecDec decoder{Reader{&images}, ModelDrafter{Reader{&images}}};
  const auto refused = [&](std::vector<ContextKey> keys) {
    return message_of<InvalidArgument>([&] {
      decoder.start(Tokens{0, 1, 2}, options_with(std::move(keys)));
    });
  };
  CHECK(refused({{-1, 5}}) == "specdec: keys[0].position = -1 is outside 0..2");
  CHECK(refused({{3, 5}}) == "specdec: keys[0].position = 3 is outside 0..2");
  CHECK(refused({{1, 5}, {1, 5}}) == "specdec: keys[1].position = 1 is outside 2..2");
  CHECK(refused({{0, 5}, {1, 5}, {2, 5}}).empty());
  auto sequence = decoder.start(Tokens{0, 1, 2}, options_with({{2, 5}}));
  CHECK(message_of<InvalidArgument>([&] {
          sequence.add_turn(Tokens{1}, options_with({{2, 6}}));
        }) == "specdec: keys[1].position = 2 is outside 3..3");
  CHECK(std::ssize(sequence.context()) == 3);
}

}  // namespace test_loop_keys
