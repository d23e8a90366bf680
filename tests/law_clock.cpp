// Draft lengths that measure time, by a simulated clock: a batch of one is timed as a text alone, and eight texts that share a
// length are about as fast as with the best fixed length, whether their drafts are made together or one after another. Where
// drafts never pay, begin to pay, or stop paying, 8 and 64 texts are about as fast as those that know it.
// SPDX-License-Identifier: MIT
#include "support/simulated_clock.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace test_law_clock {

using namespace specdec;
using namespace specdec::testing;
using support::SimulatedClock;

namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using std::chrono::microseconds;

const std::vector<Token> prompt{1};
constexpr Index size = 2400;  // of a text

// A model of one text whose calls take `time`, whatever they do.
struct Timed : TableModel<> {
  microseconds time;

  Timed(const TableModel<>& table, microseconds t) : TableModel<>(table), time(t) {}
  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    SimulatedClock::time += time;
    return TableModel<>::forward(tokens, rows);
  }
};

// For many texts, in one call.
struct TimedTogether : ModelPerSequence<TableModel<>> {
  microseconds time;

  TimedTogether(const TableModel<>& table, microseconds t) : ModelPerSequence(table), time(t) {}
  decltype(auto) forward(std::span<const BatchFeed> feeds) {
    SimulatedClock::time += time;
    return ModelPerSequence::forward(feeds);
  }
};

// A draft model for many texts that is another one from a context of `turn` tokens on. Reading a token takes time, too.
struct Turns {
  static constexpr bool copies_context = true;
  TableModel<> before, after;
  Index turn = 0;

  Index vocab_size() const { return before.vocab_size(); }
  const Rows& forward(std::span<const Token> tokens, Index rows) {
    const Rows &early = before.forward(tokens, rows), &late = after.forward(tokens, rows);
    return std::ssize(before.context()) < turn ? early : late;
  }
  void truncate(Index length) {
    before.truncate(length);
    after.truncate(length);
  }
};
struct Turning {
  Turns model;
  microseconds call;
  std::chrono::nanoseconds token;
};
struct TurningTogether : ModelPerSequence<Turns> {
  Turning times;

  explicit TurningTogether(const Turning& t) : ModelPerSequence(t.model), times(t) {}
  decltype(auto) forward(std::span<const BatchFeed> feeds) {
    SimulatedClock::time += times.call;
    for (const BatchFeed& feed : feeds) SimulatedClock::time += std::ssize(feed.tokens) * times.token;
    return ModelPerSequence::forward(feeds);
  }
};

// A target and a draft model that agrees well in some contexts and badly in others, and how long their calls take.
struct Pair {
  TableModel<> target, small;
  microseconds target_time, draft_time;
};

Pair pair_of(microseconds draft_time) {
  std::mt19937_64 rng{1};
  constexpr Index vocabulary = 12, contexts = (vocabulary + 1) * (vocabulary + 1);
  const auto table = [&](double sharp) {
    Rows rows(contexts, vocabulary);
    for (Index i = 0; i < contexts; ++i) {
      for (Index x = 0; x < vocabulary; ++x)
        rows(i, x) = std::exp(sharp * (i % 7 < 3 ? 4 : 1) * uniform01(rng));
      rows.row(i) /= rows.row(i).sum();
    }
    return rows;
  };
  const Rows p = table(3);
  return {TableModel<>(p, 2), TableModel<>(Rows(0.75 * p + 0.25 * table(3)), 2), microseconds(400),
          draft_time};
}

// Tokens per simulated second.
template <class F>
double speed(const F& write) {
  const auto before = SimulatedClock::now();
  const Index tokens = write();
  return static_cast<double>(tokens) / std::chrono::duration<double>(SimulatedClock::now() - before).count();
}

template <class Length>
double speed_alone(const Pair& pair, Length length) {
  std::mt19937_64 rng{1};
  SpecDec decoder{Timed(pair.target, pair.target_time), ModelDrafter{Timed(pair.small, pair.draft_time)},
                  BlockVerifier{}, std::move(length)};
  return speed(
      [&] { return decoder.generate(prompt, {.max_new_tokens = size, .gamma = 16}, rng).stats.emitted; });
}

// Of so many texts, until one of them ends.
template <class Drafter, class Length>
double speed_of(const Pair& pair, Drafter drafter, Length&& length, int texts, Index gamma = 16) {
  Batch batch{TimedTogether(pair.target, pair.target_time), std::move(drafter), BlockVerifier{},
              std::forward<Length>(length)};
  Index tokens = 0;
  for (int i = 0; i < texts; ++i)
    batch.add(prompt, {.max_new_tokens = size, .gamma = gamma},
              std::mt19937_64{static_cast<std::uint64_t>(i) + 1},
              [&tokens](std::span<const Token> emitted) { tokens += std::ssize(emitted); });
  return speed([&] {
    while (batch.size() == texts) batch.step();
    return tokens;
  });
}

auto together(const Pair& pair) { return ModelDrafter{TimedTogether(pair.small, pair.draft_time)}; }
auto apart(const Pair& pair) { return ModelDrafter{Timed(pair.small, pair.draft_time)}; }

// The speed of eight texts that share a length, over their speed with the best fixed length.
double share_of_best(const Pair& pair, const auto& drafter_of, auto length) {
  double best = 0;
  for (const Index gamma : {0, 1, 2, 3, 4, 6, 8, 12, 16})
    best = std::max(best, speed_of(pair, drafter_of(pair), FixedLength{}, 8, gamma));
  return speed_of(pair, drafter_of(pair), length, 8) / best;
}

// A table that agrees with nothing.
TableModel<> unlike() {
  Rows rows = Rows::Constant(13 * 13, 12, 1e-3);
  for (Index i = 0; i < rows.rows(); ++i) rows(i, i % 12) += 1 - 12e-3;
  return {rows, 2};
}

// Tokens per simulated second and text where the texts have from `begin` to `end` tokens, on the mean.
template <class Length>
double speed_within(const Pair& pair, const Turning& small, Length length, int texts, Index begin, Index end,
                    Index gamma = 16) {
  Batch batch{TimedTogether(pair.target, pair.target_time), ModelDrafter{TurningTogether(small)},
              BlockVerifier{}, std::move(length)};
  double tokens = 0;
  for (int i = 0; i < texts; ++i)
    batch.add(prompt, {.max_new_tokens = 2 * end, .gamma = gamma},
              std::mt19937_64{static_cast<std::uint64_t>(i)},
              [&](std::span<const Token> emitted) { tokens += static_cast<double>(emitted.size()) / texts; });
  while (tokens < static_cast<double>(begin)) batch.step();
  const double before = tokens;
  const auto then = SimulatedClock::now();
  while (tokens < static_cast<double>(end)) batch.step();
  return (tokens - before) / std::chrono::duration<double>(SimulatedClock::now() - then).count();
}

}  // namespace

// Exact, since a batch of one and a decoder do the same things in the same order.
TEST_CASE("in a batch of one a length that measures time is as fast as for a text alone") {
  for (const int draft_time : {200, 40, 10}) {
    const Pair pair = pair_of(microseconds(draft_time));
    const auto check = [&](auto length) {
      const double alone = speed_alone(pair, length);
      CHECK(speed_of(pair, together(pair), each(length), 1) == alone);
      CHECK(speed_of(pair, apart(pair), each(length), 1) == alone);
      CHECK(speed_of(pair, together(pair), length, 1) == alone);
    };
    check(CostOptimalLength{});
    check(EarlyStoppingLength{});
  }
}

// Each draft's time, as a draft length is told it.
struct Listener {
  std::vector<std::chrono::nanoseconds>* told;

  Index next(Index most) const { return most; }
  void observe(const StepRecord& step) const { told->push_back(step.draft_time); }
};

// All wait for four calls.
TEST_CASE(
    "of drafts that are made together a length is told a part by its tokens, and the whole time on the "
    "mean") {
  const Pair pair = pair_of(microseconds(200));
  std::vector<std::chrono::nanoseconds> told;
  Batch batch{TimedTogether(pair.target, pair.target_time), together(pair), BlockVerifier{}, Listener{&told}};
  for (const Index gamma : {1, 4})
    batch.add(prompt, {.max_new_tokens = size, .gamma = gamma}, std::mt19937_64{1});
  batch.step();
  const std::chrono::nanoseconds both = 2 * 4 * pair.draft_time;
  CHECK(told == std::vector{both * 1 / 5, both * 4 / 5});
}

TEST_CASE(
    "eight texts that share a length that measures time are about as fast as with the best fixed length") {
  for (const int draft_time : {200, 40, 10}) {
    const Pair pair = pair_of(microseconds(draft_time));
    const auto check = [&](auto length) {
      CHECK(share_of_best(pair, together, length) > 0.95);
      CHECK(share_of_best(pair, apart, length) > 0.95);
    };
    check(CostOptimalLength{});
    check(EarlyStoppingLength{});
  }
}

// Without a draft a text gets a token each call of the target.
constexpr double plain_speed = 1e6 / 400;

TEST_CASE("where drafts never pay, texts that share a length are about as fast as without drafts") {
  const Pair pair = pair_of(microseconds(0));
  for (const auto& [texts, end] : {std::pair<int, Index>{8, 2000}, std::pair<int, Index>{64, 1000}})
    for (const auto& [call, token] :
         {std::pair{200, 0}, std::pair{20, 2'000 / texts}, std::pair{20, 100'000 / texts}}) {
      const Turning small{{unlike(), unlike()}, microseconds(call), std::chrono::nanoseconds(token)};
      INFO(texts << " texts, a call of the draft model " << call << " us and " << token << " ns a token");
      const auto check = [&](auto length) {
        CHECK(speed_within(pair, small, length, texts, 0, end) > 0.97 * plain_speed);
      };
      check(CostOptimalLength{});
      check(EarlyStoppingLength{});
    }
}

TEST_CASE("where drafts begin to pay, or stop paying, texts that share a length find it out") {
  const Pair pair = pair_of(microseconds(40));
  constexpr Index turn = 600, found = 1000, end = 1400;
  for (const int texts : {8, 64}) {
    const std::chrono::nanoseconds token(1000 / texts);  // read by all: 1 us, 0.25 % of a step
    const Turning begins{{unlike(), pair.small, turn}, pair.draft_time, token},
        stops{{pair.small, unlike(), turn}, pair.draft_time, token};
    const double best = speed_within(pair, begins, FixedLength{}, texts, found, end, 8);
    INFO(texts << " texts");
    const auto check = [&](auto length, double share) {
      CHECK(speed_within(pair, begins, length, texts, found, end) > share * best);
      CHECK(speed_within(pair, stops, length, texts, 100, turn) > share * best);
      CHECK(speed_within(pair, stops, length, texts, found, end) > 0.97 * plain_speed);
    };
    check(CostOptimalLength{}, 0.9);
    check(EarlyStoppingLength{}, 0.75);  // a draft that ends early saves no time while the others go on
  }
}

}  // namespace test_law_clock
