// One sequence in the making: the outer loop, a step at a time.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft_length.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/acceptance.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/model/model.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/drafted_block.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// How much to generate, and how.
struct Options {
  Index max_new_tokens = 128;           ///< the token budget; 0 generates nothing
  Index gamma = 4;                      ///< tokens drafted per target call, at most; 0 is ordinary decoding
  std::vector<Token> stop_tokens = {};  ///< the output ends with the first of these, which is part of it

  bool stops_at(Token x) const {
    return std::find(stop_tokens.begin(), stop_tokens.end(), x) != stop_tokens.end();
  }
};

/// Why a generation ended.
enum class StopReason {
  length,      ///< the token budget is spent
  context,     ///< the target's context is full: it holds all tokens but the last
  stop_token,  ///< the last token is a stop token
  callback,    ///< the caller said so
};

/// What was generated: the new tokens only.
struct Result {
  std::vector<Token> tokens;
  Stats stats;
  StopReason stop_reason = StopReason::length;
};

/// A sequence in the making on the models of a SpecDec, which must outlive it. generate() is a loop over
/// step(); use this class for a loop of your own.
///
/// Per step: draft x_1..x_γ with their rows q; one target call over what it has not seen and the draft (the
/// first takes the prompt along); verify; c += x_1..x_τ, Y; both models keep exactly the tokens that
/// survived. γ is what the draft-length policy asks for (Options::gamma at most), cut to what the target's
/// context (see context_size) and the budget can still take, the latter except where the verifier needs more
/// (min_draft_length).
///
/// Several sequences of one decoder may take turns: the one that takes over feeds its context anew. (Where
/// the models are used elsewhere in between, release() first.)
/// Throws: what models, drafter and verifier throw. After a throw the sequence, the statistics and both
/// contexts are as before the step, which can be tried again; only the generator has moved on.
template <class Target, class Drafter, class V, class Length = FixedLength>
class Generation {
 public:
  /// What SpecDec::start calls. `turn` counts the sequences of the decoder that have had its models.
  Generation(Target& target, Drafter& drafter, Length& length, V verifier, TokenIds prompt, Options options,
             Index& turn)
      : turn_(&turn),
        target_(&target),
        drafter_(&drafter),
        length_(&length),
        fresh_verifier_(verifier),
        verifier_(std::move(verifier)),
        options_(std::move(options)) {
    check("prompt", prompt, options_);
    context_.reserve(static_cast<std::size_t>(prompt.size()));
    extend(prompt);
    release();
  }

  /// Goes on from another context (the next turn of a conversation, say, or a part of the present one) with options
  /// of its own and a fresh verifier. The models do not take in again what the two contexts begin with in common. The
  /// statistics go on. Throws std::invalid_argument as SpecDec::start, and leaves the sequence as it was.
  void resume(TokenIds context, Options options) {
    check("context", context, options);
    const Index common = common_length(context);
    feed_.clear();  // a copy of what is new, for `context` may be a view of ours
    for (Index i = common; i < context.size(); ++i) feed_.push_back(static_cast<Token>(context[i]));
    context_.reserve(static_cast<std::size_t>(common) + feed_.size());
    V verifier = fresh_verifier_;

    verifier_ = std::move(verifier);  // nothing throws from here on
    options_ = std::move(options);
    stopped_ = false;
    stop_reason_ = StopReason::length;
    context_.resize(static_cast<std::size_t>(common));
    extend(TokenIds(feed_));
    if (*turn_ != my_turn_) return;  // the next step takes everything in
    target_seen_ = std::min({target_seen_, common, size() - 1});
    target_->truncate(target_seen_);
    drafter_->truncate(target_seen_);
  }

  /// Whether the text is complete: step() has nothing left to do.
  bool done() const { return stopped_ || remaining() <= 0 || room() < 0; }

  /// The new tokens so far. The view lives until the next step.
  std::span<const Token> tokens() const { return std::span(context_).subspan(prompt_size_); }
  /// The prompt and the new tokens.
  std::span<const Token> context() const { return context_; }
  /// Counts and times so far.
  const Stats& stats() const { return stats_; }
  /// The sequence's own copy of the verifier, with its state.
  const V& verifier() const { return verifier_; }
  /// What has been generated so far, with the reason why it ended if it has.
  Result result() const { return {{tokens().begin(), tokens().end()}, stats_, stop_reason()}; }

  /// Generates the tokens of one target call and returns those emitted; none when done(). The view lives
  /// until the next step.
  template <RandomSource Source>
  std::span<const Token> step(Source& source) {
    if (done()) return {};
    auto&& chance = as_chance(source);
    if (*turn_ != my_turn_) release();
    const Index gamma = draft_length();
    reserve(gamma);
    try {
      return speculate(gamma, chance);
    } catch (...) {
      target_->truncate(target_seen_);
      drafter_->truncate(size());
      throw;
    }
  }

  /// Ends the sequence here.
  void stop() {
    if (!done()) stop_reason_ = StopReason::callback;
    stopped_ = true;
  }

  /// Clears the contexts of both models; the next step takes the whole sequence in again.
  void release() {
    my_turn_ = ++*turn_;  // another sequence that had the models has to notice
    target_->truncate(0);
    drafter_->truncate(0);
    target_seen_ = 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void check(const char* name, TokenIds prompt, const Options& options) const {
    if (prompt.empty()) detail::invalid_argument(name, " is empty: there is nothing to continue");
    detail::check_tokens(name, prompt, target_->vocab_size());
    if (prompt.size() > context_size(*target_))
      detail::invalid_argument(name, " has ", prompt.size(), " tokens, but the target's context holds ",
                               context_size(*target_));
    if (options.max_new_tokens < 0)
      detail::invalid_argument("max_new_tokens = ", options.max_new_tokens, " is negative");
    if (options.gamma < 0) detail::invalid_argument("gamma = ", options.gamma, " is negative");
  }

  // How many tokens the prompt and the present context begin with in common.
  Index common_length(TokenIds prompt) const {
    const Index most = std::min(prompt.size(), size());
    Index length = 0;
    while (length < most && prompt[length] == context_[static_cast<std::size_t>(length)]) ++length;
    return length;
  }

  // All of the context is prompt from here on. There has to be room.
  void extend(TokenIds prompt) {
    for (Index i = 0; i < prompt.size(); ++i) context_.push_back(static_cast<Token>(prompt[i]));
    prompt_size_ = context_.size();
  }

  Index size() const { return static_cast<Index>(context_.size()); }
  Index remaining() const { return options_.max_new_tokens - static_cast<Index>(tokens().size()); }

  // How many tokens may be drafted before the target's context is full; negative: it cannot even take in Y.
  Index room() const { return context_size(*target_) - size(); }

  StopReason stop_reason() const {
    const bool ran_out = stop_reason_ == StopReason::length && remaining() > 0 && room() < 0;
    return ran_out ? StopReason::context : stop_reason_;
  }

  Index draft_length() {
    const Index wanted = length_->next(options_.gamma);
    if (wanted < 0 || wanted > options_.gamma)
      detail::invalid_argument("the draft-length policy asks for ", wanted,
                               " tokens, outside 0..gamma = ", options_.gamma);
    return std::min(std::max(std::min(wanted, remaining() - 1), min_draft_length(verifier_)), room());
  }

  // All allocation of a step that could fail after the verdict happens here. (The context is not to move
  // while a drafter may hold views of it.)
  void reserve(Index gamma) {
    const auto needed = context_.size() + static_cast<std::size_t>(gamma) + 1;
    if (context_.capacity() < needed) context_.reserve(2 * needed);
    stats_.reserve(gamma);
    probabilities_.reserve(static_cast<std::size_t>(gamma));
    survival_.reserve(static_cast<std::size_t>(gamma));
  }

  // Asks for gamma tokens; where both sides can, the policy may end the draft at a row.
  template <class C>
  auto draft(Index gamma, C& chance) {
    const std::span<const Token> context(context_);
    const auto ask = [this](const auto& row, Index i) { return this->goes_on(row, i); };
    if constexpr (requires { drafter_->draft(context, gamma, chance, ask); })
      return drafter_->draft(context, gamma, chance, ask);
    else return drafter_->draft(context, gamma, chance);
  }

  template <class Row>
  bool goes_on(const Row& row, Index i) {
    if constexpr (requires { length_->goes_on(row, i); }) {
      static_assert(
          !requires(const V& verifier) { verifier.min_draft_length(); },
          "a verifier with state needs a draft length that does not depend on what was drafted");
      return length_->goes_on(row, i);
    } else {
      return true;
    }
  }

  template <class C>
  std::span<const Token> speculate(Index gamma, C& chance) {
    const auto start = Clock::now();
    const auto draft = this->draft(gamma, chance);
    const std::span<const Token> drafted = draft.tokens;
    check_draft(draft, gamma);
    const auto drafting_done = Clock::now();
    prepare_feed(drafted);
    const auto& rows =
        target_->forward(std::span<const Token>(feed_), static_cast<Index>(drafted.size()) + 1);
    const auto target_done = Clock::now();
    static_assert(
        Verifier<V, std::remove_cvref_t<decltype(rows)>, std::remove_cvref_t<decltype(draft.rows)>, C>,
        "the verifier is no specdec::Verifier for these rows");
    const Verdict verdict = verify(rows, draft.rows, drafted, chance);
    if constexpr (requires { drafter_->observe(rows, drafted, verdict); })
      drafter_->observe(rows, drafted, verdict);
    stats_.verify_time += Clock::now() - target_done;
    return commit(drafted, verdict,
                  {.asked = gamma,
                   .drafted = static_cast<Index>(drafted.size()),
                   .accepted = verdict.accepted,
                   .fed = static_cast<Index>(feed_.size()),
                   .survival = survival_,
                   .draft_time = drafting_done - start,
                   .target_time = target_done - drafting_done});
  }

  // The verdict. Verifiers of the library judge a block that the loop makes, so that its rows, with what they
  // have learnt, can serve the statistics.
  template <class TargetRows, class DraftRows, class C>
  Verdict verify(const TargetRows& rows, const DraftRows& draft_rows, std::span<const Token> drafted,
                 C& chance) {
    using Block = decltype(detail::drafted_block(rows, draft_rows, drafted));
    probabilities_.clear();
    looked_up_ = false;
    Verdict verdict;
    if constexpr (requires(const Block& block) { verifier_.judge(block, chance); }) {
      const Block block = detail::drafted_block(rows, draft_rows, drafted);
      verdict = verifier_.judge(block, chance);
      check_verdict(verdict, drafted);
      if constexpr (Block::constant_time_probabilities || reads_every_ratio<V>) {
        look_up(block);
        looked_up_ = drafted.empty() || !probabilities_.empty();
      }
    } else {
      verdict = verifier_(rows, draft_rows, drafted, chance);
      check_verdict(verdict, drafted);
    }
    tell_survival(verdict.accepted, static_cast<Index>(drafted.size()));
    return verdict;
  }

  // p and q of the drafted tokens, up to one that the target rules out, behind which nobody looks. Rows that
  // gave a token no honest q (rules that need none let them pass) tell nothing.
  template <class Block>
  void look_up(const Block& block) {
    for (Index i = 0; i < block.gamma(); ++i) {
      const auto [p, q] = block.unchecked_probabilities(i);
      if (!(p >= 0 && q > 0)) return probabilities_.clear();
      probabilities_.emplace_back(p, q);
      if (p == 0) return;
    }
  }

  // P(τ > i | x_1..x_{i+1}) under the rule in use if it says how, else what happened.
  void tell_survival(Index accepted, Index drafted) {
    survival_.assign(static_cast<std::size_t>(drafted), 0.0);
    if constexpr (TellsSurvival<V>) {
      double survival = 1;
      for (std::size_t i = 0; i < probabilities_.size(); ++i)
        survival_[i] = survival =
            verifier_.survival(survival, probabilities_[i].first, probabilities_[i].second);
      if (!probabilities_.empty()) return;
    }
    std::fill_n(survival_.begin(), accepted, 1.0);
  }

  // What the target has not seen of the context, and the draft. An id that only the drafter knows cannot be
  // fed to the target; since the target gives it probability 0, it and what lies behind it will be rejected,
  // and the target's rows behind it decide nothing: any token does in its place.
  void prepare_feed(std::span<const Token> drafted) {
    feed_.assign(context_.begin() + target_seen_, context_.end());
    for (const Token x : drafted) feed_.push_back(x < target_->vocab_size() ? x : Token{0});
  }

  // What drafters and verifiers of others return is checked before it is used. Only rows over a vocabulary of
  // their own can honestly propose a token that the target does not know.
  template <class D>
  void check_draft(const D& draft, Index gamma) const {
    const std::span<const Token> drafted = draft.tokens;
    if (static_cast<Index>(drafted.size()) > gamma)
      detail::invalid_argument("the drafter proposed ", drafted.size(), " tokens when asked for at most ",
                               gamma);
    Index known = target_->vocab_size();
    const auto rows = distributions(draft.rows);
    if constexpr (SizedDistributionMatrix<decltype(rows)>) known = std::max<Index>(known, rows.vocab_size());
    detail::check_tokens("draft", drafted, known);
  }

  void check_verdict(const Verdict& verdict, std::span<const Token> drafted) const {
    if (verdict.accepted < 0 || verdict.accepted > std::ssize(drafted))
      detail::invalid_argument("the verifier accepted ", verdict.accepted, " of ", drafted.size(),
                               " drafted tokens");
    detail::check_tokens("accepted", drafted.first(static_cast<std::size_t>(verdict.accepted)),
                         target_->vocab_size());
    detail::check_tokens("verdict token", std::span(&verdict.token, 1), target_->vocab_size());
  }

  // c += x_1..x_τ, Y, up to a stop token or the end of the budget; what lies behind never happened.
  std::span<const Token> commit(std::span<const Token> drafted, const Verdict& verdict,
                                const StepRecord& step) {
    const Index before = size();
    for (Index i = 0; i <= verdict.accepted && !done(); ++i) {
      const Token x = i < verdict.accepted ? drafted[static_cast<std::size_t>(i)] : verdict.token;
      context_.push_back(x);
      if (!options_.stops_at(x)) continue;
      stop_reason_ = StopReason::stop_token;
      stopped_ = true;
    }
    const Index emitted = size() - before, accepted = std::min(verdict.accepted, emitted);
    target_seen_ = before + accepted;
    target_->truncate(target_seen_);
    drafter_->truncate(target_seen_);
    stats_.add(step, emitted);
    if (looked_up_) stats_.acceptance.add(probabilities_, step.drafted, step.asked);
    length_->observe(step);
    return std::span<const Token>(context_).last(static_cast<std::size_t>(emitted));
  }

  Index* turn_;  // whose context the models hold
  Index my_turn_ = 0;
  Target* target_;
  Drafter* drafter_;
  Length* length_;
  V fresh_verifier_, verifier_;
  Options options_;
  std::size_t prompt_size_ = 0;
  std::vector<Token> context_;
  Index target_seen_ = 0;  // how many tokens of context_ the target's context holds
  std::vector<Token> feed_;
  std::vector<std::pair<double, double>> probabilities_;  // of the step's drafted tokens: p and q
  bool looked_up_ = false;                                // whether they are known
  std::vector<double> survival_;                          // see StepRecord
  Stats stats_;
  StopReason stop_reason_ = StopReason::length;
  bool stopped_ = false;
};

}  // namespace specdec
