// What drives texts is made by a function, returned by name, and used: it writes what it writes where it was made. The models are
// held by value, so they move, too. Texts that are under way go on.
// SPDX-License-Identifier: MIT
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/more/search/beam_search.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_law_moved {

using namespace specdec;
using support::message_of;
using Table = testing::TableModel<>;
using Tokens = std::vector<Token>;

namespace {

const Tokens prompt{0, 1, 0};
const Options options{.max_new_tokens = 30, .gamma = 4};

Table table(std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  return Table::random(5, 2, rng);
}
ModelPerSequence<Table> many(std::uint64_t seed) { return ModelPerSequence{table(seed)}; }

// Two objects, so that no compiler can leave out the move.
auto decoder(bool first = true) {
  SpecDec one{table(1), ModelDrafter{table(2)}, BlockVerifier{}, ScheduledLength{2}};
  SpecDec other{table(3), ModelDrafter{table(2)}, BlockVerifier{}, ScheduledLength{2}};
  if (first) return one;
  return other;
}
auto batch(bool first = true) {
  Batch one{many(1), ModelDrafter{many(2)}, BlockVerifier{}, ScheduledLength{2}};
  Batch other{many(3), ModelDrafter{many(2)}, BlockVerifier{}, ScheduledLength{2}};
  if (first) return one;
  return other;
}

Tokens expected() {
  std::mt19937_64 rng{7};
  return SpecDec{table(1), ModelDrafter{table(2)}, BlockVerifier{}, ScheduledLength{2}}
      .generate(prompt, options, rng)
      .tokens;
}

Tokens text_of(auto& sequences, Index number) {
  for (const Finished& done : sequences.run())
    if (done.sequence == number) return done.result.tokens;
  return {};
}

}  // namespace

TEST_CASE("a decoder that a function returns by name writes, and its sequences go where it goes") {
  auto made = decoder();
  std::mt19937_64 rng{7};
  CHECK(made.generate(prompt, options, rng).tokens == expected());

  std::optional here{decoder()};
  std::mt19937_64 again{7};
  auto sequence = here->start(prompt, options);
  sequence.step(again);
  auto there = std::make_unique<decltype(made)>(std::move(*here));
  CHECK(message_of<InvalidCall>([&] { here->start(prompt, options); }) ==
        "specdec: the decoder was moved away: ask what it was moved into");
  here.reset();
  while (!sequence.done()) {
    const Feed feed = sequence.propose(again);
    Table target = table(1);
    const Tokens read(sequence.context().begin(), sequence.context().begin() + feed.from);
    if (!read.empty()) target.forward(read, 1);
    sequence.accept(target.forward(feed.tokens, feed.rows), again);
  }
  CHECK(sequence.result().tokens == expected());
}

TEST_CASE("a batch that a function returns by name writes, and its texts go where it goes") {
  auto made = batch();
  const Index number = made.add(prompt, options, std::mt19937_64{7});
  made.step();
  auto moved = std::move(made);
  CHECK(message_of<InvalidCall>([&] { made.size(); }) ==  // NOLINT: use after move is intended
        "specdec: the batch was moved away: ask what it was moved into");
  CHECK(text_of(moved, number) == expected());
  made = batch(false);
  made.add(prompt, options, std::mt19937_64{7});
  made = std::move(moved);
  const Index second = made.add(prompt, {.max_new_tokens = 3}, std::mt19937_64{1});
  CHECK(second > number);
  CHECK(text_of(made, second).size() == 3);
}

TEST_CASE("a batch may move while its proposals are with the engine") {
  const auto texts_of = [](bool moves) {
    const auto make = [] {
      return std::make_unique<Batch<ExternalTarget, ModelDrafter<ModelPerSequence<Table>>>>(
          ExternalTarget{.vocabulary = 5}, ModelDrafter{many(2)});
    };
    auto here = make();
    auto engine = many(1);
    for (const std::uint64_t seed : {7u, 8u}) here->add(prompt, options, std::mt19937_64{seed});
    std::vector<Tokens> texts(2);
    while (!here->empty()) {
      const auto feeds = here->propose();
      if (moves) here = std::make_unique<std::remove_cvref_t<decltype(*here)>>(std::move(*here));
      for (const BatchFeed& feed : feeds) engine.keep(feed.sequence, feed.from);
      for (const Finished& done : here->accept(engine.forward(feeds)))
        texts[static_cast<std::size_t>(done.sequence)] = done.result.tokens;
    }
    return texts;
  };
  CHECK(texts_of(true) == texts_of(false));
}

TEST_CASE("a batch that is assigned to forgets its texts, and the texts of the other go on") {
  static_assert(!std::assignable_from<SpecDec<Table&, NoDrafter>&, SpecDec<Table&, NoDrafter>>);
  support::Bookkeeper target(table(1)), other(table(1));
  const auto make = [](support::Bookkeeper& model) {
    Batch made{model, NoDrafter{}};
    made.add(prompt, options, std::mt19937_64{1});
    made.step();
    return made;
  };
  auto one = make(target);
  REQUIRE(target.contexts.size() == 1);
  {
    auto two = make(other);
    auto emptied = std::move(two);
    CHECK(other.contexts.size() == 1);
    two = std::move(one);
    CHECK(two.size() == 1);
    one = std::move(emptied);
  }
  CHECK(target.contexts.empty());
  CHECK(other.contexts.size() == 1);
  CHECK(one.size() == 1);
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("a cascade that a function returns by name drafts") {
  const auto make = [](bool first) {
    CascadeDrafter one{table(4), ModelDrafter{table(2)}, BlockVerifier{}, 3, ScheduledLength{1}};
    CascadeDrafter other{table(2), ModelDrafter{table(2)}, BlockVerifier{}, 3, ScheduledLength{1}};
    if (first) return one;
    return other;
  };
  const auto text = [](auto drafter) {
    std::mt19937_64 rng{7};
    SpecDec decoder{table(1), std::move(drafter)};
    return decoder.generate(prompt, options, rng).tokens;
  };
  CHECK(text(make(true)) ==
        text(CascadeDrafter{table(4), ModelDrafter{table(2)}, BlockVerifier{}, 3, ScheduledLength{1}}));
}
#endif

#ifndef SPECDEC_TEST_SOME
TEST_CASE("beam searches that functions return by name find the likeliest texts") {
  const BeamOptions beams{.max_new_tokens = 6, .width = 3};
  const auto search = [](bool first) {
    BeamSearch one{PathByPath{table(1)}, PathByPath{table(2)}};
    BeamSearch other{PathByPath{table(3)}, PathByPath{table(2)}};
    if (first) return one;
    return other;
  };
  auto made = search(true);
  const BeamResult found = made.generate(prompt, beams);
  REQUIRE(found.beams.size() == 3);
  const auto searches = [](bool first) {
    BeamBatch one{PathByPath{many(1)}, PathByPath{many(2)}};
    BeamBatch other{PathByPath{many(3)}, PathByPath{many(2)}};
    if (first) return one;
    return other;
  };
  auto two = searches(true);
  two.add(0, prompt, beams);
  two.step();
  auto moved = std::move(two);
  CHECK(two.empty());  // NOLINT: use after move is intended
  moved.add(1, prompt, beams);
  int ended = 0;
  while (!moved.empty())
    for (const FoundBeams& each : moved.step()) {
      CHECK_FALSE(each.error);
      ++ended;
      REQUIRE(each.result.beams.size() == 3);
      CHECK(each.result.beams.front().tokens == found.beams.front().tokens);
    }
  CHECK(ended == 2);
}
#endif

}  // namespace test_law_moved
