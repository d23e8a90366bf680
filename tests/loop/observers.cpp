// Observers see each step once, and what was taken back does not count.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_loop_observers {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

namespace {

using Tokens = std::vector<Token>;
const Tokens prompt{0, 1};

// Notes the tokens that enter the text.
struct Listener : Observer {
  Tokens noted = {};  // with the tokens of a verdict that may be taken back
  Index steps = 0, forks = 0, restarts = 0, room = 0;
  bool fails = false;

  void reserve(Index tokens) { room = tokens; }
  void weighed(const auto& weighed) {
    noted.insert(noted.end(), weighed.emitted.begin(), weighed.emitted.end());
    if (fails) throw std::runtime_error("not now");
  }
  void withdrawn(Index tokens) noexcept { noted.resize(static_cast<std::size_t>(tokens)); }
  void committed(const CommittedStep& committed) noexcept {
    ++steps;
    if (committed.step.drafted > room) steps = -1000;
  }
  void restarted() noexcept { ++restarts; }
  void forked() noexcept { ++forks; }
};

TableModel<> model(std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  return TableModel<>::random(4, 1, rng);
}

auto decoder_with(auto observers) {
  return SpecDec{model(1), ModelDrafter{model(2)}, BlockVerifier{}, FixedLength{}, observers};
}

}  // namespace

TEST_CASE("what is observed changes no text, and who asks for nothing gets nothing") {
  const Options options{.max_new_tokens = 20, .gamma = 3};
  SpecDec by_default{model(1), ModelDrafter{model(2)}, BlockVerifier{}};
  auto nothing = decoder_with(Observers{});
  auto some = decoder_with(Observers{Listener{}, StatsObserver{}});
  std::mt19937_64 a{3}, b{3}, c{3};
  const Result expected = by_default.generate(prompt, options, a),
               bare = nothing.generate(prompt, options, b);
  auto sequence = some.start(prompt, options);
  const Result heard = sequence.generate(c);
  CHECK(bare.tokens == expected.tokens);
  CHECK(heard.tokens == expected.tokens);
  CHECK(bare.stats.target_calls == 0);
  CHECK(heard.stats.accepted_lengths == expected.stats.accepted_lengths);
  CHECK(sequence.observer<Listener>().noted == expected.tokens);
  CHECK(sequence.observer<Listener>().steps == expected.stats.target_calls);
  CHECK(sequence.observer<Listener>().restarts == 0);
  sequence.resume(Tokens{2}, options);
  CHECK(sequence.observer<Listener>().restarts == 1);
  CHECK(sequence.observer<Listener>().noted.empty());
}

TEST_CASE("an observer that fails costs the step, and its notes") {
  Listener listener;
  listener.fails = true;
  auto decoder = decoder_with(Observers{LogProbabilityObserver{}, listener, StatsObserver{}});
  auto sequence =
      decoder.start(prompt, {.max_new_tokens = 20, .gamma = 3, .log_probabilities = {.processed = true}});
  std::mt19937_64 rng{3};
  CHECK_THROWS_AS(sequence.step(rng), std::runtime_error);
  CHECK(sequence.tokens().empty());
  CHECK(sequence.log_probabilities().empty());
  CHECK(sequence.observer<Listener>().noted.empty());
  CHECK(sequence.stats().target_calls == 0);
}

TEST_CASE("each text of a batch has its own observers, and a twin begins anew") {
  Batch batch{
      ModelPerSequence{model(1)}, ModelDrafter{model(2)}, BlockVerifier{}, FixedLength{}, BatchOptions{},
      Observers{Listener{}}};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  const Index first = batch.add(prompt, options, std::mt19937_64{3});
  batch.step();
  const Index twin = batch.fork(first, std::mt19937_64{4});
  batch.step();
  const auto &of_first = batch.sequence(first), &of_twin = batch.sequence(twin);
  for (const auto* text : {&of_first, &of_twin}) {
    const Listener& listener = text->template observer<Listener>();
    CHECK(listener.noted == Tokens(text->tokens().begin(), text->tokens().end()));
    CHECK(listener.steps == 2);
    CHECK(listener.forks == (text == &of_twin ? 1 : 0));
  }
}

namespace {

// Fails at each second verdict.
struct Fickle : Observer {
  int verdicts = 0;

  void weighed(const auto&) {
    if (++verdicts % 2 == 0) throw std::runtime_error("not now");
  }
};

}  // namespace

TEST_CASE("a result says of each token whether it was drafted") {
  const auto check = [](auto drafter, auto rule) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SpecDec decoder{PathByPath{model(1)}, drafter(), rule, FixedLength{},
                      Observers{StatsObserver{}, Fickle{}}};
      auto sequence = decoder.start(prompt, {.max_new_tokens = 21, .gamma = 4, .stop_tokens = {3}});
      std::mt19937_64 rng{seed};
      std::vector<bool> expected;
      for (int tries = 0; !sequence.done() && tries < 100; ++tries) {
        const Index accepted = sequence.stats().accepted;
        try {
          const auto emitted = std::ssize(sequence.step(rng));
          for (Index i = 0; i < emitted; ++i) expected.push_back(i < sequence.stats().accepted - accepted);
        } catch (const std::runtime_error&) {
        }
      }
      CHECK(sequence.result().drafted == expected);
      sequence.resume(prompt, {});
      CHECK(sequence.result().drafted.empty());
    }
  };
  check([] { return ModelDrafter{model(2)}; }, BlockVerifier{});
  check(
      [] {
        return ModelDrafter{PathByPath{model(2)}, Tree{TreeShape::of_widths({2, 2}), Independent{}}};
      },
      TraversalVerifier{});

  Batch batch{ModelPerSequence{model(1)}, ModelDrafter{model(2)}, BlockVerifier{}};
  batch.add(prompt, {.max_new_tokens = 20, .gamma = 3}, std::mt19937_64{3});
  batch.step();
  const std::vector<bool> before = batch.sequence(0).result().drafted;
  batch.fork(0, std::mt19937_64{4});
  CHECK(batch.sequence(1).result().drafted == before);
  for (const Finished& done : batch.run()) {
    CHECK(done.result.drafted.size() == done.result.tokens.size());
    if (done.sequence == 0)
      CHECK(std::count(done.result.drafted.begin(), done.result.drafted.end(), true) ==
            done.result.stats.accepted);
  }
  auto unobserved = decoder_with(Observers<>{});
  std::mt19937_64 rng{3};
  CHECK(unobserved.generate(prompt, {}, rng).drafted.empty());
}

TEST_CASE("log-probabilities that nobody observes are refused") {
  auto decoder = decoder_with(Observers{StatsObserver{}});
  CHECK(message_of<std::invalid_argument>(
            [&] { decoder.start(prompt, {.log_probabilities = {.processed = true}}); }) ==
        "specdec: log_probabilities are asked for, but no LogProbabilityObserver is among the observers");
}

}  // namespace test_loop_observers
