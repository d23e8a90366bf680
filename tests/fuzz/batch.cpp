// Batches, driven by bytes. Sequences arrive, from callbacks too, are cancelled, and are ended or failed by their
// callbacks. Models' calls fail or return nonsense. Drafts are made together, lines and trees, with little room in a
// call. Sequences have their own stop strings, log-probabilities and processors. What must hold: each text is what it
// is alone, up to where it was ended. Under a keyed rule it is what is drawn from the target token by token.
// Log-probabilities are those of the rows that the tokens came out of. A failure costs only its own sequence, and a
// failing call is tried again. Contexts hold what the sequences say they hold.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fuzz/batch_parties.hpp"
#include "fuzz/bytes.hpp"
#include "fuzz/engine.hpp"
#include "fuzz/jobs.hpp"
#include "fuzz/model.hpp"
#include "fuzz/parties.hpp"
#include "fuzz/target.hpp"
#include "fuzz/tree_parties.hpp"

namespace {

using namespace fuzz;

constexpr Index most_at_once = 6, most_texts = 20;

struct Setting {
  Index drafter, rule;
  std::uint8_t length_byte;
  Index length;
  Index most, draft_most, per_call;
  std::uint64_t seed;
  BatchProcessing rows, draft_rows;

  Setting(Bytes& bytes, Index drafters, Index rules)
      : drafter(bytes.up_to(drafters - 1)),
        rule(bytes.up_to(rules - 1)),
        length_byte(bytes.byte()),
        length(length_byte % 2),
        most(context_size(bytes)),
        draft_most(context_size(bytes)),
        per_call(bytes.flag() ? specdec::unlimited : 1 + bytes.up_to(20)),
        seed(bytes.byte()) {
    if (length_byte < 128) return;
    rows = {Processing(bytes), Processing(bytes)};
    if (bytes.flag()) draft_rows = rows;
  }
};

// Drafts are lines.
struct Lines {
  using Rule = AnyRule;
  using Drafter = specdec::ModelDrafter<BatchEngine&>;
  using Length = AnyLength;

  static Setting setting(Bytes& bytes) {
    Setting setting(bytes, 1, 4);
    // Greedy block verification needs drafts of the length that it asks for.
    if (setting.rule == 2) setting.draft_most = specdec::unlimited;
    return setting;
  }
  static Rule rule(const Setting& setting) { return rule_of(setting.rule); }
  static Drafter together(const Setting&, BatchEngine& small) { return Drafter(small); }
  static auto alone(const Setting&, Engine& small, Faults&) { return specdec::ModelDrafter<Engine&>(small); }
  static specdec::SplitMix64 source(std::uint64_t seed) { return specdec::SplitMix64(seed); }
  static Length length(const Setting& setting, Faults& faults) { return {setting.length, faults}; }
};

// Drafts are trees.
struct Trees {
  using Rule = support::AnyTreeRule;
  using Drafter = TreesTogether;
  using Length = specdec::FixedLength;

  static Setting setting(Bytes& bytes) {
    Setting setting(bytes, TreesTogether::kinds, tree_rules);
    if (setting.rule == k_seq && setting.drafter != TreesTogether::independent) setting.rule = traversal;
    return setting;
  }
  static Rule rule(const Setting& setting) { return tree_rule_of(setting.rule); }
  static Drafter together(const Setting& setting, BatchEngine& small) { return {setting.drafter, small}; }
  static auto alone(const Setting& setting, Engine& small, Faults& faults) {
    return AnyTreeDrafter(TreesTogether::alone(setting.drafter), small, faults);
  }
  static specdec::SplitMix64 source(std::uint64_t seed) { return specdec::SplitMix64(seed); }
  static Length length(const Setting&, Faults&) { return {}; }
};

// Drafts are trees, and the rule is keyed.
struct KeyedTrees {
  using Rule = specdec::TrunkAndSpares<specdec::KeyedVerifier>;
  using Drafter = TreesTogether;
  using Length = specdec::FixedLength;

  static Setting setting(Bytes& bytes) { return {bytes, TreesTogether::kinds, 1}; }
  static Rule rule(const Setting&) { return {}; }
  static Drafter together(const Setting& setting, BatchEngine& small) { return {setting.drafter, small}; }
  static specdec::Keyed source(std::uint64_t seed) { return specdec::Keyed(seed); }
  static Length length(const Setting&, Faults&) { return {}; }
};

// A request for a text.
struct Job {
  Tokens prompt;
  specdec::Options options;
  std::uint64_t seed = 0;
  Tokens told = {};
  bool thrown = false, ended = false;  // by its callback
};

template <class Kind>
class World {
 public:
  World(const Setting& setting, Bytes& bytes)
      : setting_(setting),
        bytes_(&bytes),
        target_(setting.seed, faults_, harm_, setting.most, setting.rows),
        small_(setting.seed + 1000, faults_, harm_, setting.draft_most, setting.draft_rows),
        batch_(target_, Kind::together(setting, small_), Kind::rule(setting),
               specdec::each(Kind::length(setting, none_)), {.tokens_per_call = setting.per_call}) {
    faults_.bytes = &bytes;
  }

  void run() {
    while (!bytes_->empty()) {
      const std::uint8_t b = bytes_->byte();
      if (b < 60) add();
      else if (b < 70) cancel();
      else step();
    }
    faults_.bytes = bytes_ = nullptr;
    for (int steps = 0; !batch_.empty(); ++steps) {
      require(steps < 3000);
      step();
    }
    require(target_.model().size() == 0 && small_.model().size() == 0);
  }

 private:
  void add() {
    if (batch_.size() >= most_at_once || std::ssize(jobs_) >= most_texts) return;
    const Index number = std::ssize(jobs_), size = batch_.size();
    Job job{.prompt = prompt_of(*bytes_), .options = options_of(*bytes_, nullptr)};
    job.options.max_new_tokens %= 25;
    setting_.rows.of(number).fit(job.prompt);
    const bool refusable =
        spoil(*bytes_, job.prompt, job.options) || std::ssize(job.prompt) > setting_.most ||
        (setting_.per_call != specdec::unlimited && job.options.gamma >= setting_.per_call);
    job.seed = bytes_->byte();
    try {
      const Index given =
          batch_.add(job.prompt, job.options, Kind::source(job.seed),
                     [this, number](std::span<const Token> emitted) { return look_on(number, emitted); });
      require(!refusable && given == number);
      jobs_.emplace(number, std::move(job));
    } catch (const std::invalid_argument&) {
      require(refusable && batch_.size() == size);
    }
  }

  bool look_on(Index number, std::span<const Token> emitted) {
    Job& job = jobs_.at(number);
    require(!emitted.empty() && !job.ended && !job.thrown);
    job.told.insert(job.told.end(), emitted.begin(), emitted.end());
    if (bytes_ == nullptr) return true;
    const std::uint8_t b = bytes_->byte();
    if (b >= 250) {
      job.thrown = true;
      throw Failure();
    }
    if (b >= 240) add();
    job.ended = b >= 230 && b < 240;
    return !job.ended;
  }

  void cancel() {
    const auto live = std::ranges::count_if(jobs_, [this](const auto& job) { return is_live(job.first); });
    if (live == 0) return;
    Index left = bytes_->up_to(live - 1);
    for (const auto& [number, job] : jobs_)
      if (is_live(number) && left-- == 0) {
        check_text(number, batch_.cancel(number), false);
        gone_.insert(number);
        return;
      }
  }
  bool is_live(Index number) const { return !gone_.contains(number); }

  void step() {
    harm_.miscounted = false;
    const Index size = batch_.size();
    try {
      for (const specdec::Finished& finished : batch_.step()) check(finished);
      check_contexts(true);
    } catch (const Failure&) {
      require(faults_.bytes != nullptr && batch_.size() == size);
      check_contexts(false);
    } catch (const std::invalid_argument&) {
      require(harm_.miscounted && batch_.size() == size);
      check_contexts(false);
    }
  }

  // The target's context of a sequence is the beginning of the text. After a step it is exactly what the sequence
  // says.
  void check_contexts(bool stepped) const {
    for (const auto& [number, job] : jobs_) {
      if (!is_live(number)) continue;
      const auto& sequence = batch_.sequence(number);
      const Tokens held = target_.model().context(number);
      require(held.size() <= sequence.context().size());
      require(std::equal(held.begin(), held.end(), sequence.context().begin()));
      if (stepped && sequence.stats().target_calls > 0) require(std::ssize(held) == sequence.kept());
    }
    require(target_.model().size() <= batch_.size() && small_.model().size() <= batch_.size());
  }

  void check(const specdec::Finished& finished) {
    const Job& job = jobs_.at(finished.sequence);
    require(is_live(finished.sequence));
    gone_.insert(finished.sequence);
    require(job.thrown ? finished.error != nullptr : !finished.error || spoilt(finished.sequence));
    const bool stopped = finished.result.stop_reason == specdec::StopReason::callback;
    require(!stopped || job.ended);  // the cancellation may come too late
    require(finished.result.tokens == job.told);
    check_text(finished.sequence, finished.result, !finished.error && !stopped);
  }
  bool spoilt(Index number) const { return harm_.spoilt.contains(number); }

  // Nothing is known about a sequence that was shown nonsense.
  void check_text(Index number, const specdec::Result& result, bool whole) {
    if (spoilt(number)) return;
    const Job& job = jobs_.at(number);
    check_result(result, job.options);
    const Model target(setting_.seed, none_, setting_.most);
    const Processing& processing = setting_.rows.of(number);
    Tokens all = job.prompt;
    all.insert(all.end(), result.tokens.begin(), result.tokens.end());
    check_told(result.log_probabilities, result.raw_log_probabilities, job.options, processing, target, all,
               std::ssize(job.prompt), 0);
    const Tokens alone = alone_text(job, processing);
    require(whole ? result.tokens.size() == alone.size() : result.tokens.size() <= alone.size());
    require(std::equal(result.tokens.begin(), result.tokens.end(), alone.begin()));
  }

  Tokens alone_text(const Job& job, const Processing& processing) {
    Model target(setting_.seed, none_, setting_.most),
        small(setting_.seed + 1000, none_, setting_.draft_most);
    if constexpr (specdec::draws_keyed<typename Kind::Rule>) {
      Tokens text = job.prompt;
      const auto written = [&] { return std::span(text).subspan(job.prompt.size()); };
      while (std::ssize(written()) < job.options.max_new_tokens && std::ssize(text) <= setting_.most &&
             !end_of(written(), job.options))
        text.push_back(
            drawn_behind(text, processing.row(target, text).value(), static_cast<Index>(job.seed)));
      return {text.begin() + std::ssize(job.prompt), text.end()};
    } else {
      Target engine(target, processing);
      Engine small_engine(small, setting_.draft_rows.of(0).any() ? processing : Processing());
      specdec::SpecDec decoder{engine, Kind::alone(setting_, small_engine, none_), Kind::rule(setting_),
                               Kind::length(setting_, none_)};
      auto source = Kind::source(job.seed);
      return decoder.generate(job.prompt, job.options, source).tokens;
    }
  }

  Setting setting_;
  Bytes* bytes_;
  Faults faults_, none_;
  Harm harm_;
  BatchEngine target_, small_;
  specdec::Batch<BatchEngine&, typename Kind::Drafter, typename Kind::Rule,
                 specdec::Each<typename Kind::Length>>
      batch_;
  std::map<Index, Job> jobs_;
  std::set<Index> gone_;
};

template <class Kind>
void run(Bytes& bytes) {
  const Setting setting = Kind::setting(bytes);
  World<Kind>(setting, bytes).run();
}

}  // namespace

void fuzz::batch(std::span<const std::uint8_t> data) {
  Bytes bytes(data);
  const std::uint8_t first = bytes.byte();
  if (first >= 192) run<KeyedTrees>(bytes);
  else if (first % 2 == 1) run<Trees>(bytes);
  else run<Lines>(bytes);
}
