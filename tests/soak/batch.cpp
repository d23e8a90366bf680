// Half a million tokens in batches of up to sixteen sequences, judged on two threads. Sequences arrive, are cancelled, and
// are ended by their callbacks, and targets and drafters fail now and then. Each text is what its seed writes alone,
// up to where it was ended, and memory does not grow. Then a quarter of a million tokens under a keyed rule, with a
// processor of the text, stop strings and log-probabilities. Each token is the one that its number draws from the row
// made from scratch.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/threads.hpp"

namespace test_soak_batch {

using specdec::BatchFeed;
using specdec::Finished;
using specdec::Index;
using specdec::Token;
using Table = specdec::testing::TableModel<>;
using Tokens = std::vector<Token>;

namespace {

constexpr Index vocabulary = 6, most_at_once = 16;

// Fails at random: before a call, after it, or in the rows of one sequence.
class FailingModel {
 public:
  FailingModel(const Table& table, double failures, double spoilt)
      : model_(table), failures_(failures), spoilt_(spoilt) {}

  Index vocab_size() const { return model_.vocab_size(); }
  const Table::Rows& forward(std::span<const BatchFeed> feeds) {
    if (dice() < failures_) fail();
    const auto rows = model_.forward(feeds);
    if (dice() < failures_) {
      for (const BatchFeed& feed : feeds) model_.keep(feed.sequence, feed.from);
      fail();
    }
    rows_.resize(rows.rows(), vocab_size());
    for (Index i = 0; i < rows.rows(); ++i)
      rows_.row(i) = rows.row(i).segment(0, vocab_size()).matrix().transpose();
    if (dice() < spoilt_) spoil(feeds);
    return rows_;
  }
  void keep(Index sequence, Index length) { model_.keep(sequence, length); }
  void release(Index sequence) { model_.release(sequence); }

  Index sequences() const { return model_.size(); }
  Index failed = 0;

 private:
  double dice() { return specdec::uniform01(rng_); }
  void fail() {
    ++failed;
    throw std::runtime_error("the model failed");
  }
  void spoil(std::span<const BatchFeed> feeds) {
    const auto chosen = static_cast<std::size_t>(dice() * static_cast<double>(feeds.size()));
    Index first = 0;
    for (std::size_t i = 0; i < chosen; ++i) first += feeds[i].rows;
    rows_.middleRows(first, feeds[chosen].rows).setConstant(std::numeric_limits<double>::quiet_NaN());
  }

  specdec::ModelPerSequence<Table> model_;
  double failures_, spoilt_;
  std::mt19937_64 rng_{5};
  Table::Rows rows_;
};

// A token may not be followed by the token one number below it. Can only be copied.
class NoStepDown {
 public:
  void allow(std::span<std::uint32_t> mask) const {
    for (Token x = 0; x < vocabulary; ++x)
      if (may_come(x)) mask[0] |= 1u << x;
  }
  bool advance(Token x) {
    const bool good = may_come(x);
    last_ = x;
    return good;
  }

 private:
  bool may_come(Token x) const { return last_ < 0 || (x + 1) % vocabulary != last_; }
  Token last_ = -1;
};

// The bytes of a text's tokens.
struct Letters {
  std::string operator()(Token x) const { return {static_cast<char>('a' + x)}; }
};

struct Job {
  Tokens prompt;
  specdec::Options options;
  std::uint64_t seed = 0;
  Index callback_stops = -1, callback_throws = -1;  // at that step
};

// Counts of what has happened.
struct Tally {
  Index tokens = 0, texts = 0, cancelled = 0, stopped = 0, failed = 0, failed_calls = 0, calls = 0, fed = 0;
};

// One draft length for all sequences. It looks at rows on the threads that draft, and observes all steps between
// these.
class ConfidenceOfAll {
 public:
  Index next(Index most) const { return most; }
  void observe(const specdec::StepRecord& step) { drafted_ += step.drafted; }
  specdec::More more(const specdec::GrowingDraft& draft) const {
    return {.level = drafted_ >= 0 && draft.readings.back() >= 0.4};
  }

 private:
  Index drafted_ = 0;
};

// Drafters of which a batch has one for all sequences, or a copy for each.
struct Together {
  using Drafter = specdec::ModelDrafter<FailingModel>;
  static Drafter of(const Table& small) { return Drafter(FailingModel(small, 0.005, 0.001)); }
};
struct Apart {
  using Drafter = specdec::ModelDrafter<Table>;
  static Drafter of(const Table& small) { return Drafter(Table(small)); }
};

// The draft length of a text alone: a copy, even of one for all texts.
template <class Length>
Length own(const Length& length) {
  return length;
}
template <class Policy>
Policy own(const specdec::Each<Policy>& each) {
  return each.policy;
}

// Under a keyed rule texts have processors.
template <class Drafters, class V, class Length>
class World {
  static constexpr bool keyed = specdec::draws_keyed<V>;
  using Grammar = specdec::AfterPrompt<specdec::Grammar<NoStepDown>>;
  using Processor = specdec::Processors<specdec::RepetitionPenalty, specdec::FrequencyPenalty, Grammar>;
  struct ProcessorOf {
    const std::map<Index, Job>* jobs;
    Processor operator()(Index sequence) const { return processor_of(jobs->at(sequence)); }
  };
  using Steps = specdec::Chain<specdec::Temperature, specdec::TopK>;
  using Target =
      std::conditional_t<keyed, specdec::ProcessedModel<FailingModel&, Steps, ProcessorOf>, FailingModel&>;

 public:
  World(const V& verifier, const Length& length, std::uint64_t seed)
      : rng_(seed),
        target_(Table::random(vocabulary, 2, rng_)),
        small_(Table::random(vocabulary, 1, rng_)),
        verifier_(verifier),
        length_(length),
        failing_(target_, 0.01, 0.004),
        batch_(target(), Drafters::of(small_), verifier, Length(length), {.tokens_per_call = 40}) {}

  // A sequence arrives or leaves, and then comes a step.
  void turn() {
    while (batch_.size() < most_at_once && dice() < 0.4) add();
    if (!batch_.empty() && dice() < 0.02) cancel();
    try {
      for (const Finished& finished : batch_.step(support::TwoThreads{})) check(finished);
    } catch (const std::runtime_error&) {
      ++tally.failed_calls;
    }
    REQUIRE(failing_.sequences() <= batch_.size());
    tally.calls = batch_.target_calls();
    tally.fed = batch_.fed();
  }

  Tally tally;

 private:
  double dice() { return specdec::uniform01(rng_); }
  Index below(Index n) { return static_cast<Index>(dice() * static_cast<double>(n)); }

  static Processor processor_of(const Job& job) {
    return Processor{specdec::RepetitionPenalty{1.5, 20}, specdec::FrequencyPenalty{0.05},
                     Grammar{job.prompt.size(), specdec::Grammar{NoStepDown{}}}};
  }
  static Steps steps() { return Steps{specdec::Temperature{0.2}, specdec::TopK{5}}; }
  Target target() {
    if constexpr (keyed) return Target(failing_, steps(), ProcessorOf{&jobs_});
    else return failing_;
  }
  static auto source(std::uint64_t seed) {
    if constexpr (keyed) return specdec::Keyed(seed);
    else return std::mt19937_64(seed);
  }

  void add() {
    Job job{.prompt = {}, .options = {.max_new_tokens = 1 + below(120), .gamma = below(7)}, .seed = rng_()};
    for (Index i = below(60); i >= 0; --i) job.prompt.push_back(static_cast<Token>(below(vocabulary)));
    if (below(4) == 0) job.options.stop_tokens = {below(vocabulary)};
    if (keyed && below(2) == 0) job.options.stop_strings = {{"cab", "dd"}, Letters{}};
    if (keyed) job.options.log_probabilities = {.processed = true, .top = 1};
    if (below(10) == 0) job.callback_stops = below(8);
    else if (below(10) == 0) job.callback_throws = below(8);
    const auto on_step = [steps = Index{0}, stops = job.callback_stops,
                          throws = job.callback_throws](std::span<const Token>) mutable {
      if (steps == throws) throw std::runtime_error("the callback failed");
      return steps++ != stops;
    };
    jobs_.emplace(batch_.add(job.prompt, job.options, source(job.seed), on_step), job);
  }

  void cancel() {
    auto job = jobs_.begin();
    std::advance(job, below(std::ssize(jobs_)));
    check_text(job->first, batch_.cancel(job->first), false);
    ++tally.cancelled;
  }

  void check(const Finished& finished) {
    const bool stopped = finished.result.stop_reason == specdec::StopReason::callback;
    check_text(finished.sequence, finished.result, !finished.error && !stopped);
    tally.failed += finished.error ? 1 : 0;
    tally.stopped += stopped ? 1 : 0;
  }

  void check_text(Index number, const specdec::Result& result, bool whole) {
    const Job& job = jobs_.at(number);
    const Tokens &text = result.tokens, alone = alone_text(job, result.log_probabilities);
    REQUIRE(text.size() <= alone.size());
    REQUIRE(std::equal(text.begin(), text.end(), alone.begin()));
    if (whole) REQUIRE(text.size() == alone.size());
    tally.tokens += std::ssize(text);
    ++tally.texts;
    jobs_.erase(number);
  }

  Tokens alone_text(const Job& job, const specdec::LogProbabilities& told) {
    if constexpr (keyed) {
      return drawn_text(job, told);
    } else {
      specdec::SpecDec decoder{Table(target_), specdec::ModelDrafter{Table(small_)}, verifier_, own(length_)};
      auto rng = source(job.seed);
      return decoder.generate(job.prompt, job.options, rng).tokens;
    }
  }

  // The text drawn token by token, from rows by a processor that only goes forward. Checks the text's
  // log-probabilities.
  Tokens drawn_text(const Job& job, const specdec::LogProbabilities& told) {
    Processor processor = processor_of(job);
    for (const Token x : job.prompt) processor.push(x);
    Tokens all = job.prompt;
    std::string letters;
    while (std::ssize(letters) < job.options.max_new_tokens) {
      Eigen::RowVectorXd logits = target_.distribution(all).segment(0, vocabulary).matrix().transpose();
      processor.apply(Eigen::Ref<Eigen::RowVectorXd>(logits));
      const auto row = steps()(specdec::Logits(logits).row(0));
      specdec::Keyed keyed_numbers(job.seed, std::ssize(all));
      const Token x = keyed_numbers.draw(row);
      if (std::ssize(letters) < told.size()) {
        const auto i = std::ssize(letters);
        REQUIRE(std::abs(told[i] - std::log(row.probability(x))) < 1e-9);
        REQUIRE((told.top(i).size() == 1 && told.top(i)[0].token == row.argmax()));
      }
      processor.push(x);
      all.push_back(x);
      letters += Letters{}(x);
      if (job.options.stop_tokens.contains(x)) break;
      if (!job.options.stop_strings.empty() && (letters.ends_with("cab") || letters.ends_with("dd"))) break;
    }
    return {all.begin() + std::ssize(job.prompt), all.end()};
  }

  std::mt19937_64 rng_;
  Table target_, small_;
  V verifier_;
  const Length length_;
  FailingModel failing_;
  specdec::Batch<Target, typename Drafters::Drafter, V, Length> batch_;
  std::map<Index, Job> jobs_;
};

template <class Drafters, class V, class Length>
void soak(const V& verifier, const Length& length, Index tokens) {
  std::size_t early = 0, late = 0;
  const std::size_t before = live_bytes();
  World<Drafters, V, Length> world(verifier, length, 17);
  while (world.tally.tokens < tokens) {
    world.turn();
    std::size_t& most = world.tally.tokens < tokens / 5 ? early : late;
    most = std::max(most, live_bytes() - before);
  }
  const Tally& t = world.tally;
  std::ostringstream out;
  out << t.tokens << " tokens of " << t.texts << " texts in " << t.calls << " calls over " << t.fed
      << " tokens; " << t.cancelled << " cancelled, " << t.stopped << " ended by their callbacks, "
      << t.failed << " failed, " << t.failed_calls << " calls failed; " << early << ", then " << late
      << " bytes";
  INFO(out.str());
  CHECK(std::min({t.cancelled, t.stopped, t.failed, t.failed_calls}) > tokens / 20000);
  CHECK(late < early + early / 2);
  SUCCEED(out.str());  // shown with --success
}

}  // namespace

TEST_CASE("half a million tokens in batches: every text is what it is alone, and memory stays constant") {
  const Index tokens = support::bound(500'000);
  soak<Together>(specdec::BlockVerifier{}, specdec::each(specdec::ScheduledLength{3}), tokens);
  soak<Together>(specdec::GreedyBlockVerifier{}, specdec::FixedLength{}, tokens);
  soak<Apart>(specdec::BlockVerifier{}, ConfidenceOfAll{}, tokens / 5);
}

TEST_CASE(
    "keyed texts with processors and stop strings in batches: every token is the one that its number draws") {
  soak<Together>(specdec::KeyedVerifier{}, specdec::FixedLength{}, support::bound(250'000));
}

}  // namespace test_soak_batch
