// Drafts from the target's own guesses: Jacobi iteration and a pool of n-grams, in one linear draft.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace drafters {

using specdec::Index;
using specdec::Token;

/// For every first token the n-grams that were added last, each once: at most `most` of them.
class NgramPool {
 public:
  NgramPool(Index ngram, Index most) : rest_(ngram - 1), most_(most) {}

  /// Makes the n-gram the latest of its first token; the oldest one has to go where there is no room.
  void add(std::span<const Token> ngram) {
    std::vector<Token>& rests = rests_[ngram.front()];
    const auto rest = ngram.subspan(1);
    auto at = rests.begin();
    while (at != rests.end() && !std::equal(rest.begin(), rest.end(), at)) at += rest_;
    if (at == rests.end() && std::ssize(rests) / rest_ == most_) at = rests.begin();
    if (at == rests.end()) rests.insert(at, rest.begin(), rest.end());
    else std::copy(rest.begin(), rest.end(), std::rotate(at, at + rest_, rests.end()));
  }

  /// What follows `first` in the latest n-gram that begins with `first` and `guess`, else in the latest that
  /// begins with `first`; empty where there is none. The view lives until the next n-gram is added.
  std::span<const Token> rest(Token first, std::optional<Token> guess) const {
    const auto found = rests_.find(first);
    if (found == rests_.end() || found->second.empty()) return {};
    const std::vector<Token>& rests = found->second;
    auto at = rests.end() - rest_;
    while (guess && *at != *guess && at != rests.begin()) at -= rest_;
    if (guess && *at != *guess) at = rests.end() - rest_;
    return {at, at + rest_};
  }

 private:
  std::ptrdiff_t rest_;  // tokens behind the first
  std::ptrdiff_t most_;
  std::unordered_map<Token, std::vector<Token>> rests_;  // one after the other, the latest at the end
};

/// Proposes gamma tokens, always: those that the target's own answers to rejected drafts make likely. The rows
/// of a call that lie behind the stop are answers to a wrong text; still their argmax is a better guess for the
/// place behind (Jacobi iteration), so it is proposed again, in its new place, until it is text or has been
/// passed by. Guesses that followed one another, each the target's answer to the one before, become n-grams.
///
/// First in a proposal comes the pool: of the n-grams that begin with the last token of the text the latest
/// whose second token is the target's guess for that place, else the latest; then likewise one that begins
/// with the last token proposed, and so on. Where the pool ends the guesses stand, each in its place, and
/// behind them first guesses: that the last gamma tokens repeat themselves.
///
/// Needs the loop's observe() after every target call; without it there are no guesses, and the pool is the
/// text's. Which rule verifies makes no difference to it.
///
/// What a linear draft can do, and what not. The paper runs W·(N−1) guesses in a window of their own and G
/// candidates of the pool in branches of their own, in one call with an attention mask for it. Here the
/// candidate and the guesses are one linear draft, as any target takes it:
///   - what lies behind the first rejection is refined on a wrong prefix;
///   - what lies before it is text, and is not refined; after full acceptance no guess is left;
///   - there is one candidate, not G: of the pool's others one is tried where the guess speaks for it;
///   - gamma is all the lookahead there is, and a guess lives for gamma calls at most: keep N small.
/// So it gains less than the paper reports, and wants a larger gamma than other drafters do.
///
/// Source: Fu et al., "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding",
/// arXiv:2402.02057; Jacobi decoding: Santilli et al., arXiv:2305.10427. First guesses are random tokens of
/// the prompt there. The text's own n-grams are pooled as by the authors' option POOL_FROM_PROMPT. The
/// proposal depends on nothing but what was seen before it is made, so q is one-hot.
/// Random: none. Throws: std::invalid_argument unless ngram >= 2 and pool >= 1.
/// Cost: an argmax, which is a pass, of each target row behind the stop, γ − τ of them; apart from that
/// O(pool · ngram) a token. Memory: pool · (ngram − 1) tokens for every different token, until clear().
class LookaheadDrafter {
 public:
  struct Options {
    Index ngram = 3;   ///< N: tokens of an n-gram of the pool
    Index pool = 8;    ///< G: n-grams kept for each first token; the oldest goes
    bool text = true;  ///< the text's own n-grams go into the pool as well
  };

  LookaheadDrafter() : LookaheadDrafter(Options{}) {}

  explicit LookaheadDrafter(const Options& options)
      : options_(checked(options)), pool_(options.ngram, options.pool) {}

  /// Always gamma tokens, unless the context is empty.
  template <specdec::RandomSource Source>
  specdec::Draft<specdec::OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    arrive(context);
    tokens_.clear();
    trails_.clear();
    propose_from_pool(context, gamma);
    propose_guesses(gamma);
    propose_first_guesses(context, gamma);
    return {tokens_, specdec::OneHotRows(tokens_)};
  }

  /// What became of the draft: `target` are the γ+1 rows, row i the target's distribution after i drafted
  /// tokens. The draft may be another drafter's. Called for the context last shown, before anything is
  /// truncated.
  /// Throws: std::invalid_argument on another number of rows, and where more was accepted than drafted. The
  /// guesses end at a row that is no distribution: behind the stop that is no error (a grammar may allow
  /// nothing behind a token that it rules out).
  template <specdec::Probabilities Target>
  void observe(const Target& target, std::span<const Token> drafted, std::span<const Index>,
               const specdec::NodeVerdict& verdict) {
    const auto rows = specdec::distributions(target);
    static_assert(specdec::ArgmaxRow<specdec::RowOf<decltype(rows)>>,
                  "the target's rows are no specdec::ArgmaxRow");
    check(rows.rows(), std::ssize(drafted), verdict.node);
    if (drafted.empty()) return;
    guesses_.clear();
    begin_ = seen_ + verdict.node + 1;
    try {
      for (Index i = verdict.node + 1; i <= std::ssize(drafted); ++i)
        refine(trail(drafted, i - 1), rows.row(i).argmax());
    } catch (const specdec::InvalidDistribution&) {  // the guesses so far stand
    }
  }

  /// The pool stays; guesses end with the text they were for.
  void truncate(Index length) noexcept {
    if (length >= seen_) return;
    seen_ = std::max<Index>(length, 0);
    guesses_.clear();
  }

  /// Forgets all that was learnt.
  void clear() { *this = LookaheadDrafter(options_); }

 private:
  // A token and what led to it, oldest first, as far as an n-gram needs it: each is what the target said, or
  // the text has, behind the one before.
  using Trail = std::vector<Token>;

  static const Options& checked(const Options& options) {
    if (options.ngram < 2)
      throw std::invalid_argument("lookahead needs ngram >= 2, not ngram = " + std::to_string(options.ngram));
    if (options.pool < 1)
      throw std::invalid_argument("lookahead needs pool >= 1, not pool = " + std::to_string(options.pool));
    return options;
  }

  static void check(Index rows, Index gamma, Index accepted) {
    if (rows != gamma + 1)
      throw std::invalid_argument("lookahead observes " + std::to_string(rows) + " target rows, expected " +
                                  std::to_string(gamma + 1) + ", one more than drafted tokens");
    if (accepted < 0 || accepted > gamma)
      throw std::invalid_argument("lookahead observes " + std::to_string(accepted) + " of " +
                                  std::to_string(gamma) + " drafted tokens accepted");
  }

  // The text has grown: guesses for what is text now are done with.
  void arrive(std::span<const Token> context) {
    truncate(std::ssize(context));
    if (options_.text) pool_text(context);
    const Index grown = std::ssize(context) - begin_;
    if (grown < 0 || grown >= std::ssize(guesses_)) guesses_.clear();
    else guesses_.erase(guesses_.begin(), guesses_.begin() + grown);
    begin_ = seen_ = std::ssize(context);
  }

  // The n-grams that end in what has not been seen of the text.
  void pool_text(std::span<const Token> context) {
    for (Index end = std::max(seen_ + 1, options_.ngram); end <= std::ssize(context); ++end)
      pool_.add(context.subspan(static_cast<std::size_t>(end - options_.ngram),
                                static_cast<std::size_t>(options_.ngram)));
  }

  void propose_from_pool(std::span<const Token> context, Index gamma) {
    if (context.empty()) return;
    const auto used = std::min(context.size(), static_cast<std::size_t>(options_.ngram - 1));
    Trail trail(context.end() - static_cast<std::ptrdiff_t>(used), context.end());
    while (std::ssize(tokens_) < gamma) {
      const auto rest = pool_.rest(trail.back(), guess(tokens_.size()));
      if (rest.empty()) return;
      for (const Token x :
           rest.first(std::min(rest.size(), static_cast<std::size_t>(gamma) - tokens_.size()))) {
        lengthen(trail, x);
        propose(trail);
      }
    }
  }

  // The target's guess for a place of the proposal.
  std::optional<Token> guess(std::size_t i) const {
    return i < guesses_.size() ? std::optional(guesses_[i].back()) : std::nullopt;
  }

  void propose_guesses(Index gamma) {
    for (auto i = tokens_.size(); i < guesses_.size() && std::ssize(tokens_) < gamma; ++i)
      propose(guesses_[i]);
  }

  // Something has to be guessed first: that the last gamma tokens repeat themselves.
  void propose_first_guesses(std::span<const Token> context, Index gamma) {
    const auto period = std::min(context.size(), static_cast<std::size_t>(gamma));
    while (std::ssize(tokens_) < gamma && period > 0) {
      const auto size = tokens_.size();
      propose({size < period ? context[context.size() - period + size] : tokens_[size - period]});
    }
  }

  void propose(const Trail& trail) {
    tokens_.push_back(trail.back());
    trails_.push_back(trail);
  }

  // The trail of a drafted token, which may be another drafter's.
  Trail trail(std::span<const Token> drafted, Index i) const {
    const auto k = static_cast<std::size_t>(i);
    return k < tokens_.size() && tokens_[k] == drafted[k] ? trails_[k] : Trail{drafted[k]};
  }

  // What the target says behind a guess is the next guess for the place behind it.
  void refine(Trail trail, Token answer) {
    trail.push_back(answer);
    if (std::ssize(trail) == options_.ngram) {
      pool_.add(trail);
      trail.erase(trail.begin());
    }
    guesses_.push_back(std::move(trail));
  }

  void lengthen(Trail& trail, Token token) const {
    trail.push_back(token);
    if (std::ssize(trail) == options_.ngram) trail.erase(trail.begin());
  }

  Options options_;
  NgramPool pool_;
  std::vector<Trail> guesses_;  // the first of them for the place begin_ of the text
  Index begin_ = 0;
  Index seen_ = 0;             // the length of the context last shown
  std::vector<Token> tokens_;  // the proposal
  std::vector<Trail> trails_;  // of its tokens
};

}  // namespace drafters
