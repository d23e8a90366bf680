// Several drafters in one tree: what it has, its law under rules for trees, and one text for one seed.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <specdec/more/drafters/merged_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_drafters_merged_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;

// Proposes these tokens, as many as it may. It may fail after a 9.
struct Says {
  Tokens tokens;
  bool fails = true;
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) const {
    if (fails && std::ranges::find(context, Token{9}) != context.end()) throw std::runtime_error("no 9");
    const auto count = static_cast<std::size_t>(std::min(gamma, std::ssize(tokens)));
    const auto said = std::span(tokens).first(count);
    return {said, OneHotRows(said)};
  }
  void truncate(Index) {}
};

struct Proposed {
  Tokens tokens = {};
  std::vector<Index> parents = {};
  bool failed = false;
  friend bool operator==(const Proposed&, const Proposed&) = default;
};

Proposed proposed(auto& drafter, const Tokens& context, DraftLimits limits) {
  SplitMix64 source{0};
  DraftRequest<SplitMix64> request{.context = context, .limits = limits, .source = &source};
  drafter.draft(std::span(&request, 1));
  if (request.error) return {.failed = true};
  const auto draft = std::as_const(drafter).drafted(0);
  return {{draft.tokens.begin(), draft.tokens.end()}, {draft.parents.begin(), draft.parents.end()}};
}

}  // namespace

TEST_CASE("equal beginnings stand once, in the order of the drafters") {
  MergedDrafter drafter{Says{{1, 2, 3}}, Says{{1, 4}}, Says{{5}}};
  CHECK(proposed(drafter, {0}, {}) == Proposed{{1, 2, 3, 4, 5}, {-1, 0, 1, 0, -1}});
  CHECK(proposed(drafter, {0}, {.nodes = 6}) ==
        Proposed{{1, 2, 4, 5}, {-1, 0, 0, -1}});  // two tokens of each
  CHECK(proposed(drafter, {0}, {.nodes = 2}) == Proposed{{1, 5}, {-1, -1}});
  CHECK(proposed(drafter, {0}, {.nodes = 1}) == Proposed{{1}, {-1}});
  CHECK(proposed(drafter, {0}, {.nodes = 0}) == Proposed{});
  CHECK(proposed(drafter, {0}, {.depth = 1}) == Proposed{{1, 5}, {-1, -1}});
  CHECK(proposed(drafter, {9}, {}) == Proposed{.failed = true});
  CHECK(proposed(drafter, {0}, {.nodes = 2}) == Proposed{{1, 5}, {-1, -1}});
}

TEST_CASE("a failed request fails alone") {
  MergedDrafter drafter{Says{{1}}, Says{{2}, false}};
  SplitMix64 source{0};
  const Tokens bad{9}, good{0};
  DraftRequest<SplitMix64> requests[2]{{.sequence = 3, .context = bad, .source = &source},
                                       {.sequence = 4, .context = good, .source = &source}};
  drafter.draft(std::span<DraftRequest<SplitMix64>>(requests));
  for (const auto& request : requests) CHECK((request.error != nullptr) == (request.sequence == 3));
  CHECK(std::ssize(drafter.drafted(4).tokens) == 2);
}

TEST_CASE("texts with the drafts of two models and a look-up have the target's law", "[law]") {
  const auto deviation = [](const auto& rule, Index vocab_size, std::uint64_t seed) {
    std::mt19937_64 rng{seed};
    const auto target = TableModel<>::random(vocab_size, 1, rng),
               one = TableModel<>::random(vocab_size, 1, rng),
               other = TableModel<>::random(vocab_size, 1, rng);
    const Tokens prompt{0, 1, 0};
    const Options options{.max_new_tokens = 3, .gamma = 4};
    Law law;
    enumerate([&](Enumerator& chance) {
      SpecDec decoder{TableModel<>(target),
                      MergedDrafter{ModelDrafter{TableModel<>(one)}, ModelDrafter{TableModel<>(other)}},
                      rule};
      const Result result = decoder.generate(prompt, options, chance);
      law[result.tokens] += chance.probability();
    });
    return largest_difference(law, target_law(target, prompt, options)).size;
  };
  for (std::uint64_t seed = 0; seed < 6; seed += static_cast<std::uint64_t>(every(3)))
    for (const Index vocab_size : {2, 3}) {
      CHECK(deviation(TrunkAndSpares<SampleMatchVerifier>{}, vocab_size, seed) < 1e-12);
      CHECK(deviation(TraversalVerifier{}, vocab_size, seed) < 1e-12);
      CHECK(deviation(RecursiveRejectionVerifier{}, vocab_size, seed) < 1e-12);
    }
}

TEST_CASE("one seed gives one text, and more models guess more of it") {
  std::mt19937_64 rng{4};
  const auto target = TableModel<>::random(8, 1, rng), one = TableModel<>::random(8, 1, rng),
             other = TableModel<>::random(8, 1, rng);
  Index calls_alone = 0, calls = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Options options{.max_new_tokens = 60, .gamma = 6};
    const auto write = [&](auto drafter, auto rule) {
      Keyed keyed{seed};
      SpecDec decoder{TableModel<>(target), std::move(drafter), rule};
      return decoder.generate(Tokens{0}, options, keyed);
    };
    const Result plain = write(NoDrafter{}, KeyedVerifier{});
    const Result alone = write(ModelDrafter{TableModel<>(one)}, KeyedVerifier{});
    const Result merged = write(MergedDrafter{ModelDrafter{TableModel<>(one)},
                                              ModelDrafter{TableModel<>(other)}, PromptLookupDrafter{}},
                                TrunkAndSpares<KeyedVerifier>{});
    CHECK(alone.tokens == plain.tokens);
    CHECK(merged.tokens == plain.tokens);
    calls_alone += alone.stats.target_calls;
    calls += merged.stats.target_calls;
  }
  CHECK(calls < calls_alone);
}

namespace {

// Would end each draft after its first token.
struct Stops {
  static constexpr bool counts_nodes = true;
  Index next(Index most) const { return most; }
  void observe(const StepRecord& step) const { CHECK(step.readings.empty()); }
  More more(const GrowingDraft&) const { return {.level = false}; }
};

}  // namespace

TEST_CASE("members are not asked to keep drafting") {
  const auto table = TableModel<>::context_free(Eigen::RowVectorXd::Constant(2, 0.5));
  SpecDec decoder{TableModel<>(table), MergedDrafter{ModelDrafter{TableModel<>(table)}, Says{{1}}},
                  TrunkAndSpares<SampleMatchVerifier>{}, Stops{}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(Tokens{0}, {.max_new_tokens = 9, .gamma = 6});
  CHECK(sequence.propose(rng).rows >= 4);  // three tokens of the model
}

TEST_CASE("in a batch, through pauses and forks, texts are those of the target alone") {
  std::mt19937_64 rng{5};
  const auto target = TableModel<>::random(5, 1, rng), one = TableModel<>::random(5, 1, rng);
  const Options options{.max_new_tokens = 30, .gamma = 5};
  const auto alone = [&](std::uint64_t seed) {
    Keyed keyed{seed};
    SpecDec decoder{TableModel<>(target), NoDrafter{}, KeyedVerifier{}};
    return decoder.generate(Tokens{0}, options, keyed).tokens;
  };
  Batch batch{ModelPerSequence{TableModel<>(target)},
              MergedDrafter{ModelDrafter{ModelPerSequence{TableModel<>(one)}}, PromptLookupDrafter{}},
              TrunkAndSpares<KeyedVerifier>{}};
  for (std::uint64_t seed = 0; seed < 4; ++seed) batch.add(Tokens{0}, options, Keyed{seed});
  std::vector<Tokens> texts(5);
  for (int step = 0; !batch.empty(); ++step) {
    if (step == 2) {
      auto paused = batch.pause(1);
      batch.add(std::move(paused));
      CHECK(batch.fork(2, Keyed{2}) == 4);
    }
    for (const Finished& done : batch.step())
      texts[static_cast<std::size_t>(done.sequence)] = done.result.tokens;
  }
  for (std::uint64_t seed = 0; seed < 4; ++seed) CHECK(texts[seed] == alone(seed));
  CHECK(texts[4] == alone(2));
}

}  // namespace test_more_drafters_merged_drafter
