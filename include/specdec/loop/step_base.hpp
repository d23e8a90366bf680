// The part of a step that is compiled once for each set of observers, whatever the rules and rows of a program.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/log_probabilities.hpp"
#include "specdec/loop/log_probability_observer.hpp"
#include "specdec/loop/observers.hpp"
#include "specdec/loop/offered_draft.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step_recorder.hpp"
#include "specdec/loop/text.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0 {

/// A target context (KV cache) that the caller has filled. Wrappers of the target that look at the text (processors, hooks,
/// rows over ranks, PathByPath) are shown the tokens of the prompt. A wrapper that reads tokens again, or shows the model others
/// (Replayed, Reread, Windowed), cannot begin so.
struct FilledContext {
  Index cached = 0;  ///< the context holds the first `cached` tokens of the prompt
};

namespace detail {

/// A text in generation, the draft offered for it, and what observes it. Step adds the rule.
template <class O>
class StepBase {
  static constexpr bool reads_prompts = O::template has<LogProbabilityObserver>;

 public:
  /// Whether the text is complete. A moved-from text is done.
  bool done() const { return (text_.done() && !owes_prompt()) || room() < 0; }

  /// The new tokens so far. The view lives until the next step.
  std::span<const Token> tokens() const& { return text_.tokens(); }
  /// The prompt and the new tokens.
  std::span<const Token> context() const& { return text_.context(); }
  /// Counts and times so far.
  const Stats& stats() const& { return observer<StatsObserver>().stats; }
  /// Log-probabilities of the new tokens so far, for the rows that Options::log_probabilities asks for.
  const LogProbabilities& log_probabilities() const& { return of_text().processed; }
  const LogProbabilities& raw_log_probabilities() const& { return of_text().raw; }
  /// Those of the prompt, as far as the target has read it: see Result.
  const LogProbabilities& prompt_log_probabilities() const& { return of_prompt().processed; }
  const LogProbabilities& raw_prompt_log_probabilities() const& { return of_prompt().raw; }
  /// The text's copy of an observer.
  template <class T>
  const T& observer() const& {
    return observers_;
  }
  /// After accept(): which tokens of the last Feed the target keeps, by their numbers in the Feed. First the tokens of the
  /// text that were not cached, then the accepted path.
  std::span<const Index> kept_path() const& { return offered_.kept(); }
  /// Views of a temporary would dangle: keep the sequence, or its result().
  std::span<const Token> tokens() const&& = delete;
  std::span<const Token> context() const&& = delete;
  const Stats& stats() const&& = delete;
  const LogProbabilities& log_probabilities() const&& = delete;
  const LogProbabilities& raw_log_probabilities() const&& = delete;
  const LogProbabilities& prompt_log_probabilities() const&& = delete;
  const LogProbabilities& raw_prompt_log_probabilities() const&& = delete;
  std::span<const Index> kept_path() const&& = delete;
  template <class T>
  const T& observer() const&& = delete;
  /// The tokens so far, what the observers tell of them, and why the text ended if it has.
  Result result() const {
    Result out{.tokens = {tokens().begin(), tokens().end()},
               .stop_reason = !text_.done() && room() < 0 ? StopReason::context : text_.stop_reason(),
               .stop_match = text_.stop_match(),
               .cached = std::min(begun_.value_or(cached_), text_.size() - std::ssize(tokens()))};
    observers_.report(out);
    return out;
  }
  /// Between steps: how many tokens of the text the target's context holds.
  Index kept() const { return cached_; }
  /// How many of these tokens the caller has filled in.
  Index filled() const { return filled_; }

  /// What the draft length may know of the text.
  DraftedText drafted_text() const {
    return {text_.size(), std::max<Index>(std::min(text_.remaining() - 1, most_drafted()), 0)};
  }
  /// The next limits() asks the draft length again.
  void forget_limits() { limits_.reset(); }
  /// Whether there is an offer that is neither committed nor withdrawn.
  bool offers() const { return offered_.there(); }
  /// The record of the last step: see StepRecorder.
  const StepRecord& last() const { return recorder_.last(); }
  /// For a new draft: where the draft length's readings go (see StepRecord).
  DraftReadings& new_readings() { return recorder_.new_readings(); }
  /// The caller says that the target's context holds the first `length` tokens of the text now.
  void target_holds(Index length) {
    cached_ = length;
    if constexpr (reads_prompts)
      if (wants_prompt()) of_prompt().begin_at(length);
  }
  /// Whether rows after the prompt's tokens are still wanted, and whether the target is fed for them before the first step.
  bool wants_prompt() const {
    if constexpr (reads_prompts)
      return options().log_probabilities.prompt && !done() && tokens().empty() &&
             of_prompt().end < text_.size();
    return false;
  }
  bool reads_prompt() const { return wants_prompt() && cached_ + 1 < text_.size(); }
  /// In place of a draft the target is fed the next `count` tokens of the text alone.
  Feed next_part(Index count) {
    if (!begun_) begun_ = cached_;
    offered_.feed_only(count);
    return {part(text_.context(), cached_, count), cached_, wants_prompt() ? count : 0};
  }
  /// Takes the rows after token `from` of the prompt and the tokens that follow it. If a row throws, they can be told again.
  template <class Rows>
  void tell_prompt(const Rows& rows, Index from) {
    const auto matrix = distributions(rows);
    check_width(matrix.vocab_size());
    if constexpr (reads_prompts) of_prompt().read(matrix, from, text_.context(), options().log_probabilities);
  }
  /// After the last of these rows: which token of the prompt must be read again, with the tokens after it. Asked once.
  Index ruled_out() {
    if constexpr (reads_prompts) return std::exchange(of_prompt().ruled_out, unlimited);
    return unlimited;
  }
  /// Takes over what was told of another text, if its prompt is the same.
  void take_prompt_of(const StepBase& other) {
    if constexpr (reads_prompts)
      if (wants_prompt() && text_.begins_like(other.text_)) of_prompt() = other.of_prompt();
  }
  /// The length of the common prefix with another text.
  Index common_length(const StepBase& other) const {
    return text_.common_length(other.context(), other.options().keys);
  }
  /// Other options: see Sequence::change. While a draft is on offer they wait.
  void change(Options other) {
    other.keys = options().keys;
    check_context("context", text_.context(), other);
    if (other.log_probabilities != options().log_probabilities)
      invalid_argument("log_probabilities differ from those that the text was begun with");
    text_.begun(other.stop_strings);  // throws where a later look would
    change_ = std::move(other);
    if (!offers() && !offered_.in_the_making()) take_change();
  }
  /// Options that wait for the end of an offer hold from here on. Throws nothing.
  void take_change() {
    if (!change_) return;
    text_.change(*std::move(change_));
    change_.reset();
    limits_.reset();
    if (tokens().empty()) owe_prompt();
  }
  /// This copy of a text goes on as its twin: with statistics of its own, and perhaps with other options.
  /// Throws: what change() throws.
  void become_twin(std::optional<Options> other) {
    if (other) change(*std::move(other));
    take_change();  // if one waits for an offer of the text
    cached_ = filled_ = 0;
    begun_.reset();
    if (tokens().empty()) owe_prompt();
    observers_.each([](auto& observer) { observer.forked(); });
    recorder_.forget();
  }
  const ExternalTarget& target() const { return target_; }
  /// The text goes on with another target. Returns the one before.
  ExternalTarget move_to(const ExternalTarget& target) { return std::exchange(target_, target); }

 protected:
  StepBase(const ExternalTarget& target, TokenIds prompt, Options options, FilledContext filled, O observers)
      : target_(target), text_(prompt, std::move(options)), observers_(std::move(observers)) {
    check_context("prompt", prompt, text_.options());
    if (filled.cached < 0 || filled.cached > prompt.size())
      invalid_argument("cached = ", filled.cached, " is outside 0..", prompt.size(),
                       ", the length of the prompt");
    filled_ = filled.cached;
    cached_ = std::min(filled.cached, prompt.size() - 1);  // the last token is always fed, for its row
    owe_prompt();
  }

  const OfferedDraft& offered() const { return offered_; }
  const Options& options() const { return text_.options(); }
  Index vocabulary() const { return target_.vocabulary; }
  bool has_limits() const { return limits_.has_value(); }

  void set_limits(bool branches, Index wanted, Index least, bool fixed) {
    limits_ = limits_of_draft(text_, branches, wanted, least, most_drafted());
    limits_->fixed = fixed;
  }

  DraftLimits reserved_limits() {
    // The draft length was perhaps asked already, for another target.
    limits_->nodes = std::min(limits_->nodes, most_drafted());
    limits_->depth = std::min(limits_->depth, most_drafted());
    text_.reserve(limits_->length() + 1);  // drafters may hold views of the context from here on
    return with_stops(*limits_, text_);
  }

  // `known`: the vocabulary size of the draft's rows, or 0. Allocates now what the step needs after the verdict, so that nothing
  // can fail there. (Text reserves its own room.)
  Feed make_offer(TokenTreeView draft, bool branches, Index known, std::chrono::nanoseconds draft_time) {
    if (!limits_) invalid_call("a draft is offered that no limits() were asked for");
    const auto make = [&] {
      const Feed feed = offered_.make(draft, branches, known, *limits_, text_, cached_, target_.vocabulary);
      const Index longest = offered_.longest(branches, *limits_);
      observers_.each([&](auto& observer) { observer.reserve(longest); });
      recorder_.reserve(longest);
      return feed;
    };
    const Feed feed = undo_on_error(make, [&] { withdraw_offer(); });
    if (!begun_) begun_ = cached_;
    offered_.place();
    recorder_.begin_target_call(draft_time);
    return feed;
  }

  void begin_verdict() {
    offered_.begin_verdict();
    recorder_.begin_verdict();
  }
  // Throws: what the end of the text throws, and the observers.
  template <bool branches, class V, class D>
  void take_verdict(const NodeVerdict& verdict, const V& rule, const D& drafted) {
    offered_.set_verdict(verdict, text_);
    recorder_.template weighed<branches>(rule, drafted, offered_);
    const WeighedStep<D> weighed{drafted, options(), offered_.path(), offered_.emitted()};
    observers_.each([&](auto& observer) { observer.weighed(weighed); });
    recorder_.end_verdict();
    offered_.end_verdict();
  }

  // Rows may be wider than the vocabulary: the verdict is checked. Narrower rows belong to another model: an error.
  void check_width(Index vocab_size) const {
    if (vocab_size < target_.vocabulary)
      invalid_argument("the target's rows are over ", vocab_size, " tokens, fewer than its vocabulary of ",
                       target_.vocabulary);
  }

  // Appends the accepted tokens and Y to the text. Throws nothing.
  std::span<const Token> enter() {
    offered_.check_weighed();
    const CommittedStep committed = recorder_.record(offered_, limits_->nodes);
    const std::span<const Token> emitted = offered_.enter(text_, cached_);
    observers_.each([&](auto& observer) { observer.committed(committed); });
    limits_.reset();
    take_change();
    return emitted;
  }

  void withdraw_offer() {
    offered_.withdraw();
    take_change();
  }
  // What was noted of a verdict that was taken back does not count.
  void withdraw_record() {
    observers_.each([this](auto& observer) { observer.withdrawn(std::ssize(text_.tokens())); });
  }

  void stop_text() {
    if (!done()) text_.stop();
  }

  // Whether the rule's memory is valid in this context: it is exactly the text, unfinished or stopped by the caller.
  bool continues_in(TokenIds context, const Options& options) const {
    return text_.common_length(context, options.keys) == context.size() && context.size() == text_.size() &&
           !text_.ended_by_itself();
  }

  // Goes on from another context with new options. If it throws, nothing has changed.
  void go_on(TokenIds context, Options options) {
    check_context("context", context, options);
    const Index common = text_.common_length(context, options.keys);
    std::vector<Token> more;  // a copy of the new tokens, since `context` may be a view of text_
    for (Index i = common; i < context.size(); ++i) more.push_back(static_cast<Token>(context[i]));
    text_.go_on(common, view_of(more), std::move(options));
    offered_.withdraw();  // nothing throws from here on
    change_.reset();
    limits_.reset();
    cached_ = std::min({cached_, common, text_.size() - 1});
    filled_ = std::min(filled_, common);
    begun_.reset();
    observers_.each([](auto& observer) { observer.restarted(); });
    owe_prompt();
  }

 private:
  // Whether a text without new tokens has not read its prompt yet, and is to tell the log-probabilities of that.
  bool owes_prompt() const {
    if constexpr (reads_prompts)
      return observer<LogProbabilityObserver>().owes_prompt && of_prompt().end < text_.size() &&
             !text_.is_stopped();
    return false;
  }
  void owe_prompt() {
    if constexpr (reads_prompts)
      static_cast<LogProbabilityObserver&>(observers_).owes_prompt =
          options().log_probabilities.prompt && options().max_new_tokens == 0 && cached_ + 1 < text_.size();
  }
  const auto& of_text() const { return observer<LogProbabilityObserver>().of_text; }
  const auto& of_prompt() const { return observer<LogProbabilityObserver>().of_prompt; }
  auto& of_prompt() { return static_cast<LogProbabilityObserver&>(observers_).of_prompt; }

  void check_context(const char* name, TokenIds prompt, const Options& options) const {
    check_prompt(name, prompt, options, target_.vocabulary, target_.context);
    if (!reads_prompts && options.log_probabilities.any())
      invalid_argument(
          "log_probabilities are asked for, but no LogProbabilityObserver is among the observers");
  }

  // How many tokens may be drafted before the target's context is full. Negative: there is not even room for Y.
  Index room() const { return target_.context - text_.size(); }
  // How many tokens the target can take, and drop again.
  Index most_drafted() const { return std::min(room(), target_.rollback); }

  ExternalTarget target_;
  Text text_;
  Index cached_ = 0;                   // how many tokens of the text the target's context holds
  Index filled_ = 0;                   // how many of these the caller has filled in
  std::optional<Index> begun_;         // cached_ when the text of this turn was first fed
  std::optional<DraftLimits> limits_;  // of the step's draft, once limits() was called
  std::optional<Options> change_;      // options that wait for the end of an offer
  OfferedDraft offered_;
  StepRecorder recorder_;
  O observers_;
};

}  // namespace detail
}  // namespace specdec
