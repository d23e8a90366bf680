// What a step does whatever the rule and the rows are: a program with many decoders compiles it once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/accepted_path.hpp"
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
#include "specdec/parents.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// A context that the caller has filled.
struct Filled {
  Index cached = 0;  ///< the target's context holds the first `cached` tokens of the prompt
};

namespace detail {

/// A text in the making, what is offered to follow it, and what was counted. Step adds the rule.
class StepBase {
 public:
  /// Whether the text is complete: there is nothing left to do.
  /// A text that was moved away is done.
  bool done() const { return text_.done() || room() < 0; }

  /// The new tokens so far. The view lives until the next step.
  std::span<const Token> tokens() const& { return text_.tokens(); }
  /// The prompt and the new tokens.
  std::span<const Token> context() const& { return text_.context(); }
  /// Counts and times so far.
  const Stats& stats() const& { return stats_; }
  /// Of the new tokens so far, as Options::log_probabilities asks: in the rows that are sampled, and before they were
  /// processed.
  const LogProbabilities& log_probabilities() const& { return record_.processed; }
  const LogProbabilities& raw_log_probabilities() const& { return record_.raw; }
  /// Which tokens of the last Feed the target keeps, by their numbers, after accept(): the accepted path, and before it what
  /// was not cached.
  std::span<const Index> kept_path() const& { return feed_.kept(); }
  /// What a temporary shows would be gone with it: keep the sequence, or its result().
  std::span<const Token> tokens() const&& = delete;
  std::span<const Token> context() const&& = delete;
  const Stats& stats() const&& = delete;
  const LogProbabilities& log_probabilities() const&& = delete;
  const LogProbabilities& raw_log_probabilities() const&& = delete;
  std::span<const Index> kept_path() const&& = delete;
  /// What has been generated so far, with the reason why it ended if it has.
  Result result() const {
    return {.tokens = {tokens().begin(), tokens().end()},
            .stats = stats_,
            .stop_reason = !text_.done() && room() < 0 ? StopReason::context : text_.stop_reason(),
            .stop_match = text_.stop_match(),
            .log_probabilities = record_.processed,
            .raw_log_probabilities = record_.raw};
  }
  /// How many tokens of the text are cached (the target's context holds them), between steps.
  Index kept() const { return cached_; }
  /// How many of them the caller has filled in.
  Index filled() const { return filled_; }

  /// The draft length may change its mind before the next draft.
  void forget_limits() { limits_.reset(); }
  /// Whether something is offered that is neither accepted nor withdrawn.
  bool offers() const { return offers_.value > 0; }
  /// The step that was taken last. Its views live until the next offer(), and are this object's, not a copy's.
  const StepRecord& last() const { return last_; }
  /// The target's context is empty now.
  void target_is_empty() { cached_ = 0; }

 protected:
  // What was offered. Its views are the drafter's.
  struct Offer {
    std::span<const Token> tokens;
    std::span<const Index> parents;  // none of a line
    std::chrono::nanoseconds draft_time{0};
    Clock::time_point made;

    Index size() const { return std::ssize(tokens); }
  };

  StepBase(bool branches, const ExternalTarget& target, TokenIds prompt, Options options, Filled filled)
      : branches_(branches), target_(target), text_(prompt, std::move(options)) {
    check("prompt", prompt, text_.options());
    if (filled.cached < 0 || filled.cached > prompt.size())
      invalid_argument("cached = ", filled.cached, " is outside 0..", prompt.size(),
                       ", the length of the prompt");
    filled_ = filled.cached;
    cached_ = std::min(filled.cached, prompt.size() - 1);  // the row after the last token is wanted
  }

  const Offer& offered() const { return offer_; }
  const Options& options() const { return text_.options(); }
  Index vocabulary() const { return target_.vocabulary; }
  bool has_limits() const { return limits_.has_value(); }

  void set_limits(Index wanted, Index least) {
    const Index most = options().gamma;
    if (wanted < 0 || wanted > most)
      invalid_argument("the draft-length policy asks for ", wanted, " tokens, outside 0..gamma = ", most);
    limits_ = branches_ ? tree_limits(wanted, least) : line_limits(wanted, least);
  }

  DraftLimits reserved_limits() {
    text_.reserve(limits_->length() + 1);  // drafters may hold views of the context from here on
    return *limits_;
  }

  // Of a draft whose rows are over `known` tokens.
  Feed make_offer(std::span<const Token> tokens, std::span<const Index> parents, Index known,
                  std::chrono::nanoseconds draft_time) {
    if (!limits_) throw std::logic_error("specdec: a draft is offered that no limits() were asked for");
    offers_.value = 0;
    Offer offer{tokens, parents_of(tokens, parents), draft_time, {}};
    check(offer, known);
    reserve(branches_ ? offer.size() : limits_->nodes);  // a tree may be much smaller than it might be
    feed_.fill(text_.context().subspan(static_cast<std::size_t>(cached_)), offer.tokens, offer.parents,
               target_.vocabulary);
    offer.made = Clock::now();
    offer_ = offer;
    offers_.value = 1;
    return {feed_.tokens(), cached_, offer.size() + 1, feed_.parents()};
  }

  void begin_verdict() {
    if (!offers())
      throw std::logic_error("specdec: accept() has no draft to judge: offer() one, and accept it once");
    judged_at_ = Clock::now();
  }

  // Rows over more tokens than the target has are no licence to write these; rows over fewer are another model's.
  void check_width(Index vocab_size) const {
    if (vocab_size < target_.vocabulary)
      invalid_argument("the target's rows are over ", vocab_size, " tokens, fewer than its vocabulary of ",
                       target_.vocabulary);
  }

  void set_verdict(const NodeVerdict& verdict) {
    verdict_ = verdict;
    path_.set(offered().tokens, offered().parents, verdict.node);
    cut_ = text_.cut(path_.tokens(), verdict.token);
  }

  Index accepted() const { return std::ssize(path_.numbers()); }

  // p and q of the tokens, up to one that the target rules out; whether they are known. A token without an honest
  // q, which rules that need none let pass, leaves nothing to tell.
  template <class D>
  bool tell(const D& drafted) {
    ps.clear();
    qs.clear();
    if (!drafted.all_looked_up()) return false;
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (!drafted.looked_up(i)) return ps.clear(), qs.clear(), false;
      ps.push_back(drafted.p(i));
      qs.push_back(drafted.q(i));
      if (ps.back() == 0) return true;
    }
    return true;
  }

  // The log-probabilities of what is about to be emitted.
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

  // What was judged becomes part of the text. Throws nothing.
  std::span<const Token> enter() {
    const Index before = text_.size();
    const std::span<const Token> emitted = text_.append(path_.tokens(), verdict_.token, cut_);
    stats_.verify_time += Clock::now() - judged_at_;
    last_ = {.asked = limits_->nodes,
             .drafted = offered().size(),
             .accepted = accepted(),
             .fed = std::ssize(feed_.tokens()),
             .survival = survivals,
             .draft_time = offered().draft_time,
             .target_time = judged_at_ - offered().made,
             .tree = branches_ ? TreeRecord{depth_, path_.ranks(), path_.offered()} : TreeRecord{}};
    stats_.add(last_, std::ssize(emitted));
    if (told) stats_.acceptance.add(ps, qs, last_.drafted, last_.asked);
    const Index kept = std::min(accepted(), static_cast<Index>(emitted.size()));
    feed_.keep(path_.numbers().first(static_cast<std::size_t>(kept)));
    cached_ = before + kept;
    offers_.value = 0;
    limits_.reset();
    return emitted;
  }

  void withdraw_offer() { offers_.value = 0; }
  // Of a verdict that was taken back.
  void withdraw_record() { record_.truncate(std::ssize(text_.tokens())); }

  void stop_text() {
    if (!done()) text_.stop();
  }

  // Whether what the rule remembers holds in this context: it is the very text, which somebody has stopped.
  bool continues_in(TokenIds context) const {
    return text_.common_length(context) == context.size() && context.size() == text_.size() &&
           !text_.ended_by_itself();
  }

  // Goes on from another context with options of its own, or throws and changes nothing.
  void go_on(TokenIds context, Options options) {
    check("context", context, options);
    const Index common = text_.common_length(context);
    std::vector<Token> more;  // a copy of what is new, for `context` may be a view of ours
    for (Index i = common; i < context.size(); ++i) more.push_back(static_cast<Token>(context[i]));
    text_.go_on(common, more, std::move(options));
    offers_.value = 0;  // nothing throws from here on
    limits_.reset();
    cached_ = std::min({cached_, common, text_.size() - 1});
    filled_ = std::min(filled_, common);
  }

  // Of the step's draft.
  std::vector<double> ps, qs;     // p and q of its tokens, as far as they could survive
  bool told = false;              // whether all of these are known
  std::vector<double> survivals;  // see StepRecord::survival

 private:
  void check(const char* name, TokenIds prompt, const Options& options) const {
    check_prompt(name, prompt, options, target_.vocabulary, target_.context);
  }

  // How many tokens may be drafted before the target's context is full; negative: it cannot even take in Y.
  Index room() const { return target_.context - text_.size(); }

  DraftLimits line_limits(Index wanted, Index least) const {
    const Index asked = std::min(std::max(std::min(wanted, text_.remaining() - 1), least), room());
    if (asked > longest_draft)
      invalid_argument("gamma = ", options().gamma, " and nothing else keeps drafts to ", longest_draft,
                       " tokens, neither the draft length nor max_new_tokens = ", options().max_new_tokens,
                       " nor the target's context");
    return {.nodes = asked, .depth = asked};
  }

  // All tokens of a tree have to find room in the target's context, and a path in the budget.
  DraftLimits tree_limits(Index wanted, Index least) const {
    return {.nodes = std::min({std::max(wanted, least), room(), longest_draft}),
            .depth = std::min({std::max(text_.remaining() - 1, least), room(), longest_draft}),
            .trunk = least};
  }

  // A drafter of trees may propose a line without saying so; a drafter of lines no tree.
  std::span<const Index> parents_of(std::span<const Token> tokens, std::span<const Index> parents) {
    if (!branches_) {
      if (branches(parents))
        invalid_argument("the drafter proposed a tree, and says that it drafts none (drafts_trees)");
      return {};
    }
    if (!parents.empty() || tokens.empty()) return parents;
    line_.resize(tokens.size());
    for (std::size_t k = 0; k < line_.size(); ++k) line_[k] = static_cast<Index>(k) - 1;
    return line_;
  }

  // What drafters of others return is checked before it is used. Only rows over a vocabulary of their own can
  // honestly propose a token that the target does not know.
  void check(const Offer& offer, Index known) {
    const DraftLimits& limits = *limits_;
    if (offer.size() > limits.nodes)
      invalid_argument("the drafter proposed ", offer.size(), " tokens when asked for at most ",
                       limits.nodes);
    if (branches_) {
      check_parents(offer.tokens, offer.parents);
      depth_ = depth(offer.parents, depths_);
      if (depth_ > limits.depth)
        invalid_argument("the drafter proposed a path of ", depth_, " tokens when asked for at most ",
                         limits.depth);
    }
    check_tokens("draft", offer.tokens, std::max(target_.vocabulary, known));
  }

  // All allocation of a step that could fail after the verdict happens here, but for the text's.
  void reserve(Index gamma) {
    stats_.reserve(gamma);
    ps.reserve(static_cast<std::size_t>(gamma));
    qs.reserve(static_cast<std::size_t>(gamma));
    survivals.reserve(static_cast<std::size_t>(gamma));
    path_.reserve(gamma);
  }

  bool branches_;  // whether drafts may branch
  ExternalTarget target_;
  Text text_;
  Index cached_ = 0;  // how many tokens of the text the target's context holds
  Index filled_ = 0;  // how many of them the caller has filled in
  FeedBuffer feed_;
  std::optional<DraftLimits> limits_;  // of the step's draft, once they have been asked for
  Offer offer_;
  UncopiedNumber offers_;      // 1 where there is one: its views are of a drafter that a copy does not have
  std::vector<Index> line_;    // who follows whom in a line
  Index depth_ = 0;            // of the tree that is offered
  std::vector<Index> depths_;  // and of its tokens
  Clock::time_point judged_at_;
  NodeVerdict verdict_;  // the last one
  AcceptedPath path_;    // and what it accepted
  Cut cut_;              // and how much of that is emitted
  StepRecord last_;
  LogProbabilityRecord record_;
  Stats stats_;
};

}  // namespace detail
}  // namespace specdec
