// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_draft_draft_length {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

namespace {

StepRecord step(Index drafted, Index accepted) {
  return {.asked = drafted, .drafted = drafted, .accepted = accepted};
}

TableModel<> random_table(std::uint64_t seed, Index vocab_size = 3) {
  SplitMix64 generator{seed};
  return TableModel<>::random(vocab_size, 2, generator);
}

// Any policy that does not look at rows. It keeps the records of all steps.
struct AnyLength {
  struct Step {
    StepRecord record;
    std::vector<double> survival;
  };
  std::function<Index(Index)> ask = [](Index most) { return most; };
  std::function<void(const StepRecord&)> tell = [](const StepRecord&) {};
  std::vector<Step> steps = {};

  Index next(Index most) const { return ask(most); }
  void observe(const StepRecord& step) {
    tell(step);
    steps.push_back({step, {step.survival.begin(), step.survival.end()}});
  }
};

AnyLength told(Index answer) {
  return {[answer](Index) { return answer; }};
}

const std::vector<Token> prompt{0, 1, 2};

}  // namespace

TEST_CASE("the schedule adds two after full acceptance, else subtracts one, and stays within 1 and gamma") {
  ScheduledLength policy(3);
  CHECK(policy.next(16) == 3);
  CHECK(policy.next(2) == 2);
  policy.observe(step(3, 3));
  CHECK(policy.next(16) == 5);
  policy.observe(step(5, 4));
  CHECK(policy.next(16) == 4);
  policy.observe(step(0, 0));  // nothing was drafted, so nothing is learnt
  CHECK(policy.next(16) == 4);
  for (int k = 0; k < 9; ++k) policy.observe(step(1, 0));
  CHECK(policy.next(16) == 1);
  policy.observe(step(6, 6));  // as when the verifier needed this many
  CHECK(policy.next(16) == 8);
  CHECK(message_of([] { ScheduledLength(0); }) == "specdec: initial = 0 is below 1");
}

TEST_CASE("the loop asks for as many tokens as the policy says, within the budget") {
  auto target = random_table(1);
  ModelDrafter drafter{random_table(2)};
  AnyLength lengths;
  SpecDec decoder{target, drafter, BlockVerifier{}, lengths};
  std::mt19937_64 rng{1};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 30, .gamma = 5}, rng);
  REQUIRE(static_cast<Index>(lengths.steps.size()) == r.stats.target_calls);
  CHECK(lengths.steps.front().record.fed == 3 + 5);
  Index emitted = 0;
  for (const AnyLength::Step& s : lengths.steps) {
    CHECK(s.record.asked == std::min<Index>(5, 30 - emitted - 1));
    CHECK(s.record.drafted == s.record.asked);
    CHECK(std::ssize(s.survival) == s.record.drafted);
    emitted += s.record.accepted + 1;
  }
  AnyLength two = told(2);
  SpecDec shorter{target, drafter, BlockVerifier{}, two};
  CHECK(shorter.generate(prompt, {.max_new_tokens = 30, .gamma = 5}, rng).stats.drafted_by_position.size() ==
        2);
}

TEST_CASE("an invalid answer of a policy is an error, and the text can go on") {
  auto target = random_table(1);
  ModelDrafter drafter{random_table(2)};
  std::mt19937_64 rng{1};
  for (const Index answer : {Index{-1}, Index{6}}) {
    AnyLength length = told(answer);
    SpecDec decoder{target, drafter, BlockVerifier{}, length};
    auto sequence = decoder.start(prompt, {.gamma = 5});
    CHECK(message_of([&] { sequence.step(rng); }) == "specdec: the draft-length policy asks for " +
                                                         std::to_string(answer) +
                                                         " tokens, outside 0..gamma = 5");
    CHECK(sequence.tokens().empty());
  }
}

TEST_CASE("a policy given as an lvalue goes on learning from text to text") {
  auto target = random_table(1);
  ModelDrafter drafter{random_table(1)};  // this drafter is always right
  ScheduledLength schedule(1);
  AnyLength length{[&](Index most) { return schedule.next(most); },
                   [&](const StepRecord& step) { schedule.observe(step); }};
  SpecDec decoder{target, drafter, BlockVerifier{}, length};
  std::mt19937_64 rng{1};
  decoder.generate(prompt, {.max_new_tokens = 10, .gamma = 16}, rng);
  const Index learnt = schedule.next(16);
  CHECK(learnt > 1);
  CHECK(decoder.generate(prompt, {.max_new_tokens = 40, .gamma = 16}, rng).stats.drafted_by_position.size() >=
        static_cast<std::size_t>(learnt));
}

TEST_CASE("drafting stops after a row about which the draft model is unsure") {
  // After token 0 the model is sure, after 1 it is not.
  Eigen::Matrix<double, 3, 2, Eigen::RowMajor> table;
  table << 0.5, 0.5, 0.05, 0.95, 0.6, 0.4;
  auto target = TableModel<>(table, 1);
  ModelDrafter drafter{TableModel<>(table, 1)};
  const std::vector<Token> zero{0};
  const auto longest = [&](auto policy) {
    SpecDec decoder{target, drafter, BlockVerifier{}, policy};
    std::mt19937_64 rng{3};
    const Result r = decoder.generate(zero, {.max_new_tokens = 200, .gamma = 6}, rng);
    return r.stats.drafted_by_position.size();
  };
  CHECK(longest(ConfidentLength(0.0)) == 6);
  CHECK(longest(ConfidentLength(0.7)) >= 1);  // sure after 0: drafts on until a 1 is drawn
  CHECK(longest(ConfidentLength(0.7)) <= 5);
  CHECK(longest(ConfidentLength(0.99)) == 1);
  // Entropies: 0.1985 after 0, 0.6730 after 1.
  CHECK(longest(EntropyLength(0.7)) == 6);
  CHECK(longest(EntropyLength(0.5)) == longest(ConfidentLength(0.7)));
  CHECK(longest(EntropyLength(0.1)) == 1);
  CHECK(message_of([] { ConfidentLength(1.5); }) == "specdec: least = 1.5 is outside [0, 1]");
  CHECK(message_of([] { EntropyLength(-0.5); }) == "specdec: most = -0.5 is negative");
}

namespace {

// Whether a draft goes on after a token that was drawn from the row.
template <class Length, class Row>
bool goes_on(Length length, const Row& row, Index i = 0) {
  specdec::detail::DraftReadings readings;
  return specdec::detail::KeepDrafting<Length, false>{&length, &readings}.more(row, i);
}

}  // namespace

TEST_CASE("after a row that is exactly sure enough a draft goes on") {
  const Eigen::RowVector2d even(0.5, 0.5), sure(0, 1);
  const auto even_rows = distributions(even), sure_rows = distributions(sure);
  CHECK(goes_on(ConfidentLength(0.5), even_rows.row(0)));
  CHECK_FALSE(goes_on(ConfidentLength(0.5000001), even_rows.row(0)));
  CHECK(goes_on(ConfidentLength(1), sure_rows.row(0)));
  const double most = entropy(even_rows.row(0));
  CHECK(goes_on(EntropyLength(most), even_rows.row(0)));
  CHECK_FALSE(goes_on(EntropyLength(most - 1e-7), even_rows.row(0)));
  CHECK(goes_on(EntropyLength(0), sure_rows.row(0)));
}

namespace {

// A user's row with an argmax that skips NaN.
struct CarelessRow {
  double second;
  Index vocab_size() const { return 2; }
  double probability(Token x) const { return x == 0 ? 0.5 : second; }
  Token argmax() const { return 1; }
  auto sampler() const {
    return [](double) { return Token{0}; };
  }
};

}  // namespace

TEST_CASE("a row of NaN is an error, and does not just end a draft") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto said = [](const auto& policy, const auto& row) {
    return message_of<InvalidDistribution>([&] { goes_on(policy, row, 2); });
  };
  for (const double bad : {nan, inf, -0.5}) {
    const Eigen::RowVector2d numbers(0.5, bad);
    const auto rows = distributions(numbers);
    CHECK_FALSE(said(EntropyLength(0.1), rows.row(0)).empty());
    CHECK_FALSE(said(ConfidentLength(0.9), CarelessRow{bad}).empty());
  }
  CHECK(said(EntropyLength(1), CarelessRow{nan}) == "specdec: draft row 2: its entropy is nan");
  CHECK(said(ConfidentLength(1), CarelessRow{nan}) ==
        "specdec: draft row 2: the probability of token 1 is nan");
  const Eigen::RowVector2d logits(0.5, nan);
  CHECK_FALSE(said(EntropyLength(1), Logits(logits).row(0)).empty());
  CHECK_FALSE(said(ConfidentLength(1), Logits(logits).row(0)).empty());
}

TEST_CASE("survival is the rule's own if the rule tells it, else it is what happened") {
  auto target = random_table(1);
  ModelDrafter drafter{random_table(2)};
  const auto records = [&](auto verifier) {
    AnyLength lengths;
    SpecDec decoder{target, drafter, verifier, lengths};
    std::mt19937_64 rng{1};
    decoder.generate(prompt, {.max_new_tokens = 400, .gamma = 4}, rng);
    return lengths.steps;
  };
  const auto is_outcome = [](const AnyLength::Step& s) {
    for (std::size_t i = 0; i < s.survival.size(); ++i)
      if (s.survival[i] != (static_cast<Index>(i) < s.record.accepted ? 1 : 0)) return false;
    return true;
  };
  const auto outcomes = records(GreedyBlockVerifier{});
  CHECK(std::all_of(outcomes.begin(), outcomes.end(), is_outcome));
  const auto expectations = records(BlockVerifier{});
  CHECK_FALSE(std::all_of(expectations.begin(), expectations.end(), is_outcome));
  for (const auto& s : expectations) {
    if (s.record.accepted > 0) CHECK(s.survival[static_cast<std::size_t>(s.record.accepted) - 1] > 0);
  }
}

TEST_CASE("a schedule with any first length stays within 1024") {
  ScheduledLength schedule(unlimited);
  CHECK(schedule.next(unlimited) == 1024);
  schedule.observe({.asked = unlimited, .drafted = unlimited, .accepted = unlimited});
  CHECK(schedule.next(unlimited) == 1024);
}

namespace {

// Keeps what it is told of texts. Drafts as much as there is room for, if that is less than asked for.
struct SeesTexts {
  std::vector<DraftedText>* texts;

  Index next(Index most, const DraftedText& text) const {
    texts->push_back(text);
    return std::min(most, text.room);
  }
  void observe(const StepRecord&) const {}
};
static_assert(DraftLength<SeesTexts>);

}  // namespace

TEST_CASE("a draft length sees how long its text is, and how much a line may have of it") {
  auto target = random_table(1);
  std::vector<DraftedText> texts;
  SpecDec decoder{target, ModelDrafter{random_table(2)}, BlockVerifier{}, SeesTexts{&texts}};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 9, .gamma = 4});
  std::mt19937_64 rng{1};
  while (!sequence.done()) {
    const Index written = std::ssize(sequence.tokens());
    sequence.step(rng);
    REQUIRE(!texts.empty());
    CHECK(texts.back().context == std::ssize(prompt) + written);
    CHECK(texts.back().room == 9 - written - 1);  // each step also emits a token that was not drafted
  }
  CHECK(std::ssize(texts) == sequence.stats().target_calls);
}

TEST_CASE("in a batch a draft length sees its own text, or the longest and the largest room of all") {
  const auto batch_of = [](auto&& length) {
    return Batch{ModelPerSequence{random_table(1)}, ModelDrafter{ModelPerSequence{random_table(2)}},
                 BlockVerifier{}, std::forward<decltype(length)>(length)};
  };
  std::vector<DraftedText> texts;
  SeesTexts length{&texts};
  const auto begin = [&](auto batch) {
    texts.clear();
    batch.add(std::vector<Token>(3, 0), {.max_new_tokens = 20, .gamma = 4}, SplitMix64{1});
    batch.add(std::vector<Token>(7, 1), {.max_new_tokens = 5, .gamma = 4}, SplitMix64{2});
    batch.step();
  };
  begin(batch_of(each(length)));
  REQUIRE(texts.size() == 2);
  CHECK(texts[0].context == 3);
  CHECK(texts[0].room == 19);
  CHECK(texts[1].context == 7);
  CHECK(texts[1].room == 4);
  begin(batch_of(length));
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].context == 7);
  CHECK(texts[0].room == 19);
}

// A length that is a floating-point number could be NaN.
struct RealLength : FixedLength {
  double next(Index most) const { return static_cast<double>(most); }
};
static_assert(!DraftLength<RealLength>);

}  // namespace test_draft_draft_length
