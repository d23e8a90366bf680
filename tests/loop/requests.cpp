// A text that is taken out of a batch and goes on, here or in another batch, is the text that nobody disturbed: with every
// rule and drafter, between steps, between propose() and accept(), and after calls that failed.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/retokenized_drafter.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/failing.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/processors.hpp"
#include "support/rules.hpp"

namespace test_loop_requests {

namespace {

using specdec::Batch;
using specdec::BatchOptions;
using specdec::Finished;
using specdec::Index;
using specdec::ModelDrafter;
using specdec::ModelPerSequence;
using specdec::Options;
using specdec::Philox;
using specdec::Result;
using specdec::Token;
using support::Bookkeeper;
using support::Failing;
using support::message_of;
using support::Models;
using support::models_of;
using Table = specdec::testing::TableModel<>;
using Tokens = std::vector<Token>;

struct Rule
    : support::AnyOf<false, specdec::TokenVerifier, specdec::BlockVerifier, specdec::GreedyBlockVerifier,
                     specdec::SampleMatchVerifier, specdec::ArgmaxVerifier> {};
const Rule block{{specdec::BlockVerifier{}}};

// A batch, and its target.
template <class M, class D, class V>
struct World {
  World(M model, D drafter, V verifier, BatchOptions options = {})
      : target(std::move(model)), batch(target, std::move(drafter), std::move(verifier), options) {}

  Failing<M> target;
  Batch<Failing<M>&, D, V> batch;
};
template <class M, class D, class V>
std::unique_ptr<World<M, D, V>> world_of(M model, D drafter, V verifier, BatchOptions options = {}) {
  return std::make_unique<World<M, D, V>>(std::move(model), std::move(drafter), std::move(verifier), options);
}

// Stop strings that begin within one token and end within another.
const specdec::StopStrings& stop_strings() {
  static const specdec::StopStrings strings{
      {"cbbab", "babcb"}, [pieces = std::vector<std::string>{"a", "ba", "cb", "bc"}](Token x) {
        return pieces[static_cast<std::size_t>(x)];
      }};
  return strings;
}

struct Job {
  Tokens prompt;
  Options options;
  std::uint64_t seed;
};
Job random_job(std::mt19937_64& dice) {
  const auto below = [&](int n) { return static_cast<Index>(specdec::uniform01(dice) * n); };
  Job job{.prompt = {}, .options = {.max_new_tokens = 8 + below(16), .gamma = below(5)}, .seed = dice()};
  for (Index i = 0; i <= below(6); ++i) job.prompt.push_back(static_cast<Token>(below(4)));
  if (below(2) == 0) job.options.stop_strings = stop_strings();
  if (below(2) == 0) job.options.log_probabilities = {.processed = true, .raw = false, .top = below(3)};
  return job;
}

// The source of a text's random numbers: a generator that the test can look at, or a Keyed.
template <class B>
typename B::Source source_of(const Job& job, Philox& rng) {
  if constexpr (std::is_same_v<typename B::Source, specdec::Keyed>) return specdec::Keyed{job.seed};
  else return std::ref(rng);
}

// All of a result but its times.
void check_same(const Result& result, const Result& whole) {
  CHECK(result.tokens == whole.tokens);
  CHECK(result.stop_reason == whole.stop_reason);
  CHECK(result.stop_match == whole.stop_match);
  const specdec::Stats &counts = result.stats, &expected = whole.stats;
  CHECK(counts.target_calls == expected.target_calls);
  CHECK(counts.drafted == expected.drafted);
  CHECK(counts.accepted == expected.accepted);
  CHECK(counts.emitted == expected.emitted);
  CHECK(counts.accepted_lengths == expected.accepted_lengths);
  CHECK(counts.asked_by_position == expected.asked_by_position);
  CHECK(counts.accepted_by_rank == expected.accepted_by_rank);
  const specdec::LogProbabilities &told = result.log_probabilities, &all = whole.log_probabilities;
  REQUIRE(told.size() == all.size());
  for (Index i = 0; i < told.size(); ++i) {
    CHECK(told[i] == all[i]);
    CHECK(std::ranges::equal(told.top(i), all.top(i), {}, &specdec::TokenLogProbability::value,
                             &specdec::TokenLogProbability::value));
  }
}

// A text alone in a batch, and how many random numbers it took.
struct Undisturbed {
  Result result;
  std::uint64_t offset;
};
template <class Make>
Undisturbed undisturbed(const Make& make, const Job& job) {
  const auto world = make();
  Philox rng{job.seed};
  world->batch.add(job.prompt, job.options, source_of<std::remove_cvref_t<decltype(world->batch)>>(job, rng));
  const std::vector<Finished> finished = world->batch.run();
  REQUIRE(finished.size() == 1);
  REQUIRE_FALSE(finished[0].error);
  return {finished[0].result, rng.offset()};
}

// Two batches, and a text that moves between them. Another text in each batch stays where it is.
template <class W>
class Moving {
  using B = std::remove_cvref_t<decltype(std::declval<W&>().batch)>;

 public:
  static constexpr Index traveller = 100;

  Moving(std::unique_ptr<W> a, std::unique_ptr<W> b, const Job& job, const Job& other)
      : worlds_{std::move(a), std::move(b)}, rng_{job.seed}, others_{Philox{other.seed}, Philox{other.seed}} {
    add(0, job, traveller, rng_);
    for (std::size_t w = 0; w < 2; ++w) add(w, other, static_cast<Index>(w), others_[w]);
  }

  // One step of everybody, after the traveller was disturbed.
  void round(int how, std::size_t to) {
    const std::uint64_t offset = rng_.offset();
    switch (how) {
      case 0:
        break;
      case 1:
        move(to);
        break;
      case 2:
        here().batch.propose(), move(to);
        break;
      case 3:
        fail_to_call(), move(to);
        break;
      case 4:
        fail_to_accept(), move(to);
        break;
      case 5:
        leave_a_call(to);
        break;
      case 6:
        here().batch.propose(), here().batch.propose(), move(to);
        break;
      default:
        here().batch.propose(), move(to), here().batch.propose(), move(to);
    }
    CHECK(rng_.offset() == offset);
    for (auto& world : worlds_) note(world->batch.step());
  }
  bool travels() const { return !results.contains(traveller); }
  bool empty() const { return worlds_[0]->batch.empty() && worlds_[1]->batch.empty(); }
  std::uint64_t offset() const { return rng_.offset(); }

  std::map<Index, Result> results;

 private:
  W& here() { return *worlds_[at_]; }

  void add(std::size_t world, const Job& job, Index number, Philox& rng) {
    const Index given = worlds_[world]->batch.add(
        {.prompt = job.prompt, .options = job.options, .source = source_of<B>(job, rng), .number = number});
    CHECK(given == number);
  }
  void move(std::size_t to) {
    typename B::Paused paused = here().batch.pause(traveller);
    CHECK(paused.number() == traveller);
    CHECK_THROWS_AS(here().batch.sequence(traveller), std::invalid_argument);
    at_ = to;
    CHECK(here().batch.add(std::move(paused)) == traveller);
  }
  void note(std::span<const Finished> finished) {
    for (const Finished& done : finished) {
      REQUIRE_FALSE(done.error);
      results.insert_or_assign(done.sequence, done.result);
    }
  }
  // The target has read the drafts when the text goes. The other text of the batch takes its step.
  void leave_a_call(std::size_t to) {
    W& left = here();
    const auto& rows = left.target.forward(left.batch.propose());
    move(to);
    note(left.batch.accept(rows));
  }
  void fail_to_call() {
    here().target.fails = true;
    CHECK_THROWS_AS(here().batch.step(), std::runtime_error);
  }
  void fail_to_accept() {
    Index rows = 1;
    for (const specdec::BatchFeed& feed : here().batch.propose()) rows += feed.rows;
    const Eigen::MatrixXd one_too_many = Eigen::MatrixXd::Zero(rows, here().target.vocab_size());
    CHECK(message_of([&] { here().batch.accept(one_too_many); }).find("rows, expected") != std::string::npos);
  }

  std::unique_ptr<W> worlds_[2];
  Philox rng_, others_[2];
  std::size_t at_ = 0;
};

constexpr int disturbances = 8;

// Disturbs texts in each way after every step, and in random ways. Where a text is read in parts there must be steps in
// between, since it is read anew each time.
template <class Make>
void check_moving(const Make& make, bool after_every_step = true) {
  std::mt19937_64 dice(1);
  const int texts = disturbances + support::bound(24, 200);
  for (int text = 0; text < texts; ++text) {
    const Job job = random_job(dice), other = random_job(dice);
    const Undisturbed whole = undisturbed(make, job);
    Moving moving(make(), make(), job, other);
    for (int steps = 0; !moving.empty(); ++steps) {
      REQUIRE(steps < 1000);
      const auto below = [&](int n) { return static_cast<int>(specdec::uniform01(dice) * n); };
      const int how = text < disturbances ? text : below(disturbances);
      const bool rests = !moving.travels() || (!after_every_step && below(4) > 0);
      moving.round(rests ? 0 : how, static_cast<std::size_t>(below(2)));
    }
    INFO("text " << text);
    check_same(moving.results.at(moving.traveller), whole.result);
    CHECK(moving.offset() == whole.offset);
    const Result expected = undisturbed(make, other).result;
    for (const Index number : {0, 1}) check_same(moving.results.at(number), expected);
  }
}

}  // namespace

TEST_CASE("a text that is paused and goes on is the undisturbed one: drafted by one model for all texts") {
  const Models models = models_of(1);
  const Rule rules[] = {block,
                        {{specdec::TokenVerifier{}}},
                        {{specdec::GreedyBlockVerifier{}}},
                        {{specdec::SampleMatchVerifier{}}},
                        {{specdec::ArgmaxVerifier{}}}};
  for (const Rule& rule : rules)
    for (const Index most : {specdec::unlimited, Index{7}})
      check_moving(
          [&] {
            return world_of(Bookkeeper(models.target), ModelDrafter{Bookkeeper(models.small)}, rule,
                            {.tokens_per_call = most});
          },
          most == specdec::unlimited);
}

TEST_CASE("a text that is paused and goes on is the undisturbed one: drafted by a model of its own") {
  const Models models = models_of(2);
  for (const Rule& rule : {block, Rule{{specdec::GreedyBlockVerifier{}}}})
    check_moving(
        [&] { return world_of(Bookkeeper(models.target), ModelDrafter{Table(models.small)}, rule); });
}

TEST_CASE(
    "a text that is paused and goes on is the undisturbed one: drafted from text, with what was learnt") {
  const Models models = models_of(3);
#ifndef SPECDEC_TEST_SOME
  check_moving([&] { return world_of(Bookkeeper(models.target), specdec::PromptLookupDrafter{}, block); });
#endif
  specdec::SuffixDrafter<> learnt;
  learnt.learn(Tokens{0, 1, 2, 3, 0, 2, 1});
  check_moving([&] { return world_of(Bookkeeper(models.target), specdec::SuffixDrafter<>(learnt), block); });
#ifndef SPECDEC_TEST_SOME
  check_moving([&] {
    return world_of(Bookkeeper(models.target),
                    specdec::FallbackDrafter{specdec::SuffixDrafter<>{{.min_match = 2}},
                                             ModelDrafter{Bookkeeper(models.small)}},
                    specdec::BlockVerifier{});
  });
#endif
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("a text that is paused and goes on is the undisturbed one: with trees, and keyed") {
  const Models models = models_of(4);
  check_moving([&] {
    return world_of(
        Bookkeeper(models.target),
        ModelDrafter{Bookkeeper(models.small),
                     specdec::Tree{specdec::TreeShape::of_widths({2, 1}), specdec::WithoutReplacement{}}},
        specdec::TraversalVerifier{});
  });
  check_moving([&] {
    return world_of(Bookkeeper(models.target), ModelDrafter{Bookkeeper(models.small)},
                    specdec::KeyedVerifier{});
  });
}

TEST_CASE(
    "a text that is paused and goes on is the undisturbed one: drafted by a cascade, for many or its own") {
  const Models models = models_of(7);
  const Table middle = models_of(8).small;
  check_moving([&] {
    return world_of(Bookkeeper(models.target),
                    specdec::CascadeDrafter{Bookkeeper(middle), ModelDrafter{Bookkeeper(models.small)},
                                            specdec::BlockVerifier{}, 2},
                    block);
  });
  check_moving([&] {
    return world_of(Bookkeeper(models.target),
                    specdec::CascadeDrafter{Bookkeeper(middle),
                                            ModelDrafter{Bookkeeper(models.small),
                                                         specdec::Tree{specdec::TreeShape::of_widths({2, 1}),
                                                                       specdec::WithoutReplacement{}}},
                                            specdec::TraversalVerifier{}, 4},
                    Rule{{specdec::GreedyBlockVerifier{}}});
  });
  check_moving([&] {
    return world_of(
        Bookkeeper(models.target),
        specdec::CascadeDrafter{Bookkeeper(middle), specdec::SuffixDrafter<>{}, specdec::KeyedVerifier{}},
        specdec::KeyedVerifier{});
  });
  check_moving([&] {
    return world_of(Bookkeeper(models.target),
                    specdec::CascadeDrafter{Table(middle), ModelDrafter{Table(models.small)},
                                            specdec::BlockVerifier{}, 2},
                    block);
  });
}

TEST_CASE(
    "a text that is paused and goes on is the undisturbed one: drafted by a model of another tokenizer") {
  const Models models = models_of(9);
  const std::vector<std::string> pieces{"a", "ba", "cb", "bc"};
  const specdec::TextTokenizer words{[=](Token x) { return pieces[static_cast<std::size_t>(x)]; },
                                     [=](std::string_view text) {  // the longest pieces, from the end
                                       Tokens tokens;
                                       while (!text.empty()) {
                                         const auto piece = std::find_if(
                                             pieces.rbegin(), pieces.rend(),
                                             [=](const std::string& each) { return text.ends_with(each); });
                                         if (piece != pieces.rend())
                                           tokens.push_back(static_cast<Token>(pieces.rend() - piece - 1));
                                         text.remove_suffix(piece != pieces.rend() ? piece->size() : 1);
                                       }
                                       std::ranges::reverse(tokens);
                                       return tokens;
                                     }};
  const specdec::TextTokenizer letters{[](Token x) { return std::string(1, static_cast<char>('a' + x)); },
                                       [](std::string_view text) {
                                         Tokens tokens;
                                         for (const char c : text)
                                           tokens.push_back(static_cast<Token>(c - 'a'));
                                         return tokens;
                                       }};
  check_moving([&] {
    return world_of(Bookkeeper(models.target),
                    specdec::RetokenizedDrafter{Bookkeeper(models.small), words, letters, 2}, block);
  });
}

TEST_CASE("a text that is paused and goes on is the undisturbed one: with penalties on its own tokens") {
  const auto processed = [](Index order, std::uint64_t seed) {
    return specdec::ProcessedModel{ModelPerSequence{support::LogTable(4, order, seed)}, [](Index) {
                                     return support::AnyProcessor{support::penalties(specdec::unlimited)};
                                   }};
  };
  check_moving([&] { return world_of(processed(2, 5), ModelDrafter{processed(1, 6)}, block); });
}
#endif

TEST_CASE("greedy block verification keeps its law, to 1e-12, if a text is released after every step") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const Models models = models_of(seed, 2);
    const Options options{.max_new_tokens = 4, .gamma = 2};
    const Tokens prompt{0};
    specdec::testing::Law law;
    specdec::testing::enumerate([&](auto& chance) {
      specdec::SpecDec decoder{Table(models.target), ModelDrafter{Table(models.small)},
                               specdec::GreedyBlockVerifier{}};
      auto sequence = decoder.start(prompt, options);
      while (!sequence.done()) {
        sequence.step(chance);
        sequence.pause();
      }
      law[Tokens(sequence.tokens().begin(), sequence.tokens().end())] += chance.probability();
    });
    const auto expected = specdec::testing::target_law(Table(models.target), prompt, options);
    CHECK(specdec::testing::largest_difference(law, expected).size <= 1e-12);
  }
}

}  // namespace test_loop_requests
