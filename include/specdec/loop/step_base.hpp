// The part of a step that depends on neither rule nor rows: a program with many decoders compiles it once.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/growing_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/accepted_path.hpp"
#include "specdec/loop/draft_limits.hpp"
#include "specdec/loop/feed_buffer.hpp"
#include "specdec/loop/log_probabilities.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/text.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0 {

/// A target context (KV cache) that the caller has filled. Wrappers of the target that look at the text (processors, hooks,
/// rows over ranks, PathByPath) are shown the tokens of the prompt. A wrapper that reads tokens again, or shows the model others
/// (Replayed, Reread, Windowed), cannot begin so.
struct Filled {
  Index cached = 0;  ///< the context holds the first `cached` tokens of the prompt
};

namespace detail {

/// A text in generation, the draft offered for it, and its statistics. Step adds the rule.
class StepBase {
 public:
  /// Whether the text is complete. A moved-from text is done.
  bool done() const { return (text_.done() && !owes_prompt()) || room() < 0; }

  /// The new tokens so far. The view lives until the next step.
  std::span<const Token> tokens() const& { return text_.tokens(); }
  /// The prompt and the new tokens.
  std::span<const Token> context() const& { return text_.context(); }
  /// Counts and times so far.
  const Stats& stats() const& { return stats_; }
  /// Log-probabilities of the new tokens so far, for the rows that Options::log_probabilities asks for.
  const LogProbabilities& log_probabilities() const& { return record_.processed; }
  const LogProbabilities& raw_log_probabilities() const& { return record_.raw; }
  /// Those of the prompt, as far as the target has read it: see Result.
  const LogProbabilities& prompt_log_probabilities() const& { return of_prompt_.processed; }
  const LogProbabilities& raw_prompt_log_probabilities() const& { return of_prompt_.raw; }
  /// After accept(): which tokens of the last Feed the target keeps, by their numbers in the Feed. First the tokens of the
  /// text that were not cached, then the accepted path.
  std::span<const Index> kept_path() const& { return feed_.kept(); }
  /// Views of a temporary would dangle: keep the sequence, or its result().
  std::span<const Token> tokens() const&& = delete;
  std::span<const Token> context() const&& = delete;
  const Stats& stats() const&& = delete;
  const LogProbabilities& log_probabilities() const&& = delete;
  const LogProbabilities& raw_log_probabilities() const&& = delete;
  const LogProbabilities& prompt_log_probabilities() const&& = delete;
  const LogProbabilities& raw_prompt_log_probabilities() const&& = delete;
  std::span<const Index> kept_path() const&& = delete;
  /// The tokens so far, their statistics, and why the text ended if it has.
  Result result() const {
    return {.tokens = {tokens().begin(), tokens().end()},
            .stats = stats_,
            .stop_reason = !text_.done() && room() < 0 ? StopReason::context : text_.stop_reason(),
            .stop_match = text_.stop_match(),
            .log_probabilities = record_.processed,
            .raw_log_probabilities = record_.raw,
            .prompt_log_probabilities = of_prompt_.processed,
            .raw_prompt_log_probabilities = of_prompt_.raw};
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
  void forget_limits() { has_limits_ = false; }
  /// Whether there is an offer that is neither committed nor withdrawn.
  bool offers() const { return offers_.value > 0; }
  /// The record of the last step. Its views live until the next offer(). They point into this object: so do the views in the
  /// last() of a copy.
  const StepRecord& last() const { return last_; }
  /// For a new draft: where the draft length's readings go (see StepRecord).
  DraftReadings& new_readings() {
    readings_.clear();
    return readings_;
  }
  /// The caller says that the target's context holds the first `length` tokens of the text now.
  void target_holds(Index length) {
    cached_ = length;
    if (wants_prompt()) of_prompt_.begin_at(length);
  }
  /// Whether rows after the prompt's tokens are still wanted, and whether the target is fed for them before the first step.
  bool wants_prompt() const {
    return options().log_probabilities.prompt && !done() && tokens().empty() && of_prompt_.end < text_.size();
  }
  bool reads_prompt() const { return wants_prompt() && cached_ + 1 < text_.size(); }
  /// What it is fed: the prompt's tokens that are not cached, without the last one. A row after each of them is wanted.
  Feed read_prompt() {
    const auto prompt = first(text_.context(), text_.size() - 1);
    feed_.fill(after(prompt, cached_), {}, target_.vocabulary, [](Index, Index) { return false; });
    feed_.keep({});
    return {feed_.tokens(), cached_, std::ssize(feed_.tokens())};
  }
  /// Takes the rows after token `from` of the prompt and the tokens that follow it. If a row throws, they can be told again.
  template <class Rows>
  void tell_prompt(const Rows& rows, Index from) {
    const auto matrix = distributions(rows);
    check_width(matrix.vocab_size());
    of_prompt_.read(matrix, from, text_.context(), options().log_probabilities);
  }
  /// After the last of these rows: which token of the prompt must be read again, with the tokens after it. Asked once.
  Index ruled_out() { return std::exchange(of_prompt_.ruled_out, unlimited); }
  /// Takes over what was told of another text, if its prompt is the same.
  void take_prompt_of(const StepBase& other) {
    if (wants_prompt() && text_.begins_like(other.text_)) of_prompt_ = other.of_prompt_;
  }
  /// This copy of a text goes on as its twin: with statistics of its own, and perhaps with other options.
  /// Throws: InvalidArgument if the options are not valid, or have other log_probabilities.
  void become_twin(std::optional<Options> other) {
    if (other) {
      check_context("context", text_.context(), *other);
      if (other->log_probabilities != options().log_probabilities)
        invalid_argument("log_probabilities of a fork differ from those of its text");
      text_.change(*std::move(other));
      has_limits_ = false;  // nothing throws from here on
    }
    cached_ = filled_ = 0;
    if (tokens().empty()) owe_prompt();
    stats_ = {};
    last_ = {};
  }
  /// Throws: InvalidArgument if the text cannot go on with this target: its vocabulary is of another size, or a text that has not
  /// ended does not fit in its context.
  void check_target(const ExternalTarget& target) const {
    if (target.vocabulary != target_.vocabulary)
      invalid_argument("the text is over ", target_.vocabulary, " tokens, the target's vocabulary has ",
                       target.vocabulary);
    if (!done() && text_.size() > target.context)
      invalid_argument("the text has ", text_.size(), " tokens, but the target's context holds ",
                       target.context);
  }
  /// The text goes on with another target. Returns the one before.
  ExternalTarget move_to(const ExternalTarget& target) { return std::exchange(target_, target); }

 protected:
  // The draft on offer. Its views point into the drafter.
  struct Offer {
    std::span<const Token> tokens;
    std::span<const Index> parents;  // empty for a line
    std::chrono::nanoseconds draft_time{0};
    Clock::time_point made;

    Index size() const { return std::ssize(tokens); }
  };

  StepBase(bool branches, const ExternalTarget& target, TokenIds prompt, Options options, Filled filled)
      : branches_(branches), target_(target), text_(prompt, std::move(options)) {
    check_context("prompt", prompt, text_.options());
    if (filled.cached < 0 || filled.cached > prompt.size())
      invalid_argument("cached = ", filled.cached, " is outside 0..", prompt.size(),
                       ", the length of the prompt");
    filled_ = filled.cached;
    cached_ = std::min(filled.cached, prompt.size() - 1);  // the last token is always fed, for its row
    owe_prompt();
  }

  const Offer& offered() const { return offer_; }
  const Options& options() const { return text_.options(); }
  Index vocabulary() const { return target_.vocabulary; }
  bool has_limits() const { return has_limits_; }

  void set_limits(Index wanted, Index least, bool fixed) {
    limits_ = limits_of_draft(text_, branches_, wanted, least, most_drafted());
    limits_.fixed = fixed;
    has_limits_ = true;
  }

  DraftLimits reserved_limits() {
    // The draft length was perhaps asked already, for another target.
    limits_.nodes = std::min(limits_.nodes, most_drafted());
    limits_.depth = std::min(limits_.depth, most_drafted());
    text_.reserve(limits_.length() + 1);  // drafters may hold views of the context from here on
    return with_stops(limits_, text_);
  }

  // `known`: the vocabulary size of the draft's rows, or 0.
  Feed make_offer(std::span<const Token> tokens, std::span<const Index> parents, Index known,
                  std::chrono::nanoseconds draft_time) {
    if (!has_limits_) invalid_call("a draft is offered that no limits() were asked for");
    offers_.value = 0;
    Offer offer{tokens, parents_of(tokens, parents), draft_time, {}};
    check_offer(offer, known);
    reserve(branches_ ? offer.size() : limits_.nodes);  // a tree is often much smaller than its limit
    fill_feed(offer);
    offer.made = Clock::now();
    offer_ = offer;
    offers_.value = 1;
    return {feed_.tokens(), cached_, std::ssize(feed_.drafted()) + 1, feed_.parents()};
  }

  void begin_verdict() {
    if (!offers()) invalid_call("accept() has no draft to judge: offer() one, and accept it once");
    offers_.value = 1;
    judged_at_ = Clock::now();
  }
  void end_verdict() {
    judged_in_ = Clock::now() - judged_at_;
    offers_.value = 2;
  }
  void check_weighed() const {
    if (offers_.value != 2) invalid_call("commit() has no verdict to commit: weigh() the offered draft");
  }

  // Rows may be wider than the vocabulary: the verdict is checked. Narrower rows belong to another model: an error.
  void check_width(Index vocab_size) const {
    if (vocab_size < target_.vocabulary)
      invalid_argument("the target's rows are over ", vocab_size, " tokens, fewer than its vocabulary of ",
                       target_.vocabulary);
  }

  void set_verdict(const NodeVerdict& verdict) {
    verdict_ = verdict;
    const TokenTreeView draft(offered().tokens, offered().parents);
    path_.set(draft, verdict.node);
    if (branches_) path_.find_children(draft);
    cut_ = text_.cut();
    for (const Index k : path_.numbers())
      if (!text_.ends(cut_)) cut_ = at(cuts_, k);
    if (!text_.ends(cut_)) text_.add(verdict.token, cut_, [this] { return path_.tokens(); });
    if (cut_.error) std::rethrow_exception(cut_.error);
  }

  Index accepted() const { return std::ssize(path_.numbers()); }

  // What was fed of the draft, as a draft of its own: all but tokens that end the text and the tokens after them. The verdict
  // on it has the same text: if a token was accepted that ends the text, it is the token that the target added.
  std::span<const Token> fed_tokens() const { return feed_.whole() ? offered().tokens : feed_.drafted(); }
  std::span<const Index> fed_parents() const {
    return feed_.whole() || !branches_ ? offered().parents : feed_.above();
  }
  NodeVerdict verdict_on_fed() const {
    if (feed_.whole()) return verdict_;
    Index node = 0;
    for (std::size_t i = 0; i < path_.numbers().size(); ++i) {
      const Index next = feed_.row_after(path_.numbers()[i]);
      if (next == node) return {node, path_.tokens()[i]};
      node = next;
    }
    return {node, verdict_.token};
  }
  // [node]: the number of the row that the rule gets for it; empty if that is the node's own number.
  std::span<const Index> rows_of_nodes() const { return feed_.rows(); }

  // Collects p and q of the tokens of a line, up to one that the target rules out (p = 0) or that ends the text. Returns
  // whether all of them are known. A token may have no valid q if the rule does not need q; then nothing is collected.
  template <class D>
  bool tell(const D& drafted) {
    ps.clear();
    qs.clear();
    if (!drafted.all_looked_up()) return false;
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (!drafted.looked_up(i)) return ps.clear(), qs.clear(), false;
      ps.push_back(drafted.p(i));
      qs.push_back(drafted.q(i));
      if (ps.back() == 0 || i == std::ssize(feed_.drafted())) return true;
    }
    return true;
  }

  // Records the log-probabilities of the tokens that will be emitted.
  template <class D>
  void record(const D& drafted) {
    const LogProbabilityOptions& wanted = options().log_probabilities;
    if (!wanted.any()) return;
    Index node = 0;
    for (Index i = 0; i < cut_.tokens; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const bool drawn_here = i == accepted();
      record_.add(drafted.target(node), drawn_here ? verdict_.token : path_.tokens()[k], wanted);
      if (!drawn_here) node = path_.numbers()[k] + 1;
    }
  }

  // Appends the accepted tokens and Y to the text. Throws nothing.
  std::span<const Token> enter() {
    const Index before = text_.size();
    const std::span<const Token> emitted = text_.append(path_.tokens(), verdict_.token, cut_);
    stats_.verify_time += judged_in_;
    last_ = {
        .asked = limits_.nodes,
        .drafted = offered().size(),
        .accepted = accepted(),
        .fed = std::ssize(feed_.tokens()),
        .survival = view_of(survivals),
        .readings =
            view_of(readings_.of_rows).first(std::min(readings_.of_rows.size(), offered().tokens.size())),
        .draft_time = offered().draft_time,
        .target_time = judged_at_ - offered().made,
        .tree = branches_ ? tree_record() : TreeRecord{},
        .ending = branches_ || feed_.whole() ? -1 : std::ssize(feed_.drafted())};
    stats_.add(last_, std::ssize(emitted));
    // Tokens after the end of the text were drafted in vain, and say nothing of the models.
    const bool ends = last_.ending >= 0;
    const Index judged = ends ? last_.ending + 1 : last_.drafted;
    if (told) stats_.acceptance.add(view_of(ps), view_of(qs), judged, ends ? judged : last_.asked);
    const Index reached = std::min(accepted(), static_cast<Index>(emitted.size()));
    feed_.keep(path_.numbers().first(static_cast<std::size_t>(reached)));
    cached_ = before + feed_.kept_drafted();
    offers_.value = 0;
    has_limits_ = false;
    return emitted;
  }

  void withdraw_offer() { offers_.value = 0; }
  // Drops the log-probabilities of a verdict that was taken back.
  void withdraw_record() { record_.truncate(std::ssize(text_.tokens())); }

  void stop_text() {
    if (!done()) text_.stop();
  }

  // Whether the rule's memory is valid in this context: the context is exactly the text, and the text is unfinished or
  // stopped by the caller.
  bool continues_in(TokenIds context) const {
    return text_.common_length(context) == context.size() && context.size() == text_.size() &&
           !text_.ended_by_itself();
  }

  // Goes on from another context with new options. If it throws, nothing has changed.
  void go_on(TokenIds context, Options options) {
    check_context("context", context, options);
    const Index common = text_.common_length(context);
    std::vector<Token> more;  // a copy of the new tokens, since `context` may be a view of text_
    for (Index i = common; i < context.size(); ++i) more.push_back(static_cast<Token>(context[i]));
    text_.go_on(common, view_of(more), std::move(options));
    offers_.value = 0;  // nothing throws from here on
    has_limits_ = false;
    cached_ = std::min({cached_, common, text_.size() - 1});
    filled_ = std::min(filled_, common);
    of_prompt_ = {};
    owe_prompt();
  }

  // About the step's draft.
  std::vector<double> ps, qs;     // p and q of its tokens, up to one that the target rules out
  bool told = false;              // whether all of these p and q are known
  std::vector<double> survivals;  // see StepRecord::survival

 private:
  // Whether a text without new tokens has not read its prompt yet, and is to tell the log-probabilities of that.
  bool owes_prompt() const { return owes_prompt_ && of_prompt_.end < text_.size() && !text_.is_stopped(); }
  void owe_prompt() {
    const Options& options = text_.options();
    owes_prompt_ =
        options.log_probabilities.prompt && options.max_new_tokens == 0 && cached_ + 1 < text_.size();
  }

  void check_context(const char* name, TokenIds prompt, const Options& options) const {
    check_prompt(name, prompt, options, target_.vocabulary, target_.context);
  }

  // How many tokens may be drafted before the target's context is full. Negative: there is not even room for Y.
  Index room() const { return target_.context - text_.size(); }
  // How many tokens the target can take, and drop again.
  Index most_drafted() const { return std::min(room(), target_.rollback); }

  // A drafter of trees may propose a line with empty parents. A drafter of lines may propose no tree.
  std::span<const Index> parents_of(std::span<const Token> tokens, std::span<const Index> parents) {
    if (!branches_) {
      if (branches(parents))
        invalid_argument("the drafter proposed a tree, and says that it drafts none (drafts_trees)");
      return {};
    }
    if (!parents.empty() || tokens.empty()) return parents;
    make_line(line_, std::ssize(tokens));
    return view_of(line_);
  }

  // A draft is checked before it is used. A token outside the target's vocabulary is valid only if the draft's rows
  // cover it (`known`).
  void check_offer(const Offer& offer, Index known) {
    if (offer.size() > limits_.nodes)
      invalid_argument("the drafter proposed ", offer.size(), " tokens when asked for at most ",
                       limits_.nodes);
    if (branches_) {
      check_parents(offer.tokens, offer.parents);
      depth_ = TokenTreeView(offer.parents).depths(depths_);
      if (depth_ > limits_.depth)
        invalid_argument("the drafter proposed a path of ", depth_, " tokens when asked for at most ",
                         limits_.depth);
    }
    check_tokens("draft", offer.tokens, std::max(target_.vocabulary, known));
  }

  void fill_feed(const Offer& offer) {
    const TokenTreeView draft(offer.tokens, offer.parents);
    resize(cuts_, draft.size());
    const auto ends = [&](Index k, Index parent) {
      Cut& cut = at(cuts_, k) = parent < 0 ? text_.cut() : at(cuts_, parent);
      const auto before = [&] { return path_.set(draft, parent + 1), path_.tokens(); };
      if (draft.token(k) >= target_.vocabulary || cut.tokens < 0) cut.tokens = -1;
      else text_.add(draft.token(k), cut, before);
      return text_.ends(cut);
    };
    feed_.fill(text_.context().subspan(static_cast<std::size_t>(cached_)), draft, target_.vocabulary, ends);
  }

  TreeRecord tree_record() {
    probabilities_.clear();
    if (std::ssize(readings_.of_tokens) == offered().size())
      for (const Index k : path_.children())
        probabilities_.push_back(readings_.of_tokens[static_cast<std::size_t>(k)]);
    return {depth_, path_.ranks(), path_.offered(), view_of(probabilities_), readings_.drawn};
  }

  // Allocates now what the step needs after the verdict, so that nothing can fail there. (Text reserves its own room.)
  void reserve(Index gamma) {
    stats_.reserve(gamma);
    detail::reserve(ps, gamma);
    detail::reserve(qs, gamma);
    detail::reserve(survivals, gamma);
    path_.reserve(gamma);
    detail::reserve(probabilities_, gamma);
  }

  bool branches_;  // whether drafts may branch
  ExternalTarget target_;
  Text text_;
  Index cached_ = 0;  // how many tokens of the text the target's context holds
  Index filled_ = 0;  // how many of these the caller has filled in
  FeedBuffer feed_;
  DraftLimits limits_;       // of the step's draft
  bool has_limits_ = false;  // whether limits() has been called
  Offer offer_;
  DraftReadings readings_;
  std::vector<double> probabilities_;  // of the tokens whose parents were accepted: see TreeRecord
  UncopiedNumber
      offers_;  // 1: a draft is on offer; 2: and weighed. A copy has none: the drafter is not copied
  std::vector<Index> line_;    // the parents of a line
  Index depth_ = 0;            // of the offered tree
  std::vector<Index> depths_;  // of its tokens
  // [k]: of the path to token k. −1 tokens if one of them is outside the target's vocabulary: the path is never accepted.
  std::vector<Cut> cuts_;
  Clock::time_point judged_at_;
  std::chrono::nanoseconds judged_in_{0};
  NodeVerdict verdict_;  // the last one
  AcceptedPath path_;    // the tokens it accepted
  Cut cut_;              // how many of the tokens are emitted
  StepRecord last_;
  LogProbabilityRecord record_;
  PromptRecord of_prompt_;
  bool owes_prompt_ = false;
  Stats stats_;
};

}  // namespace detail
}  // namespace specdec
