// Lookahead decoding without a draft model: drafts from the target's own guesses, by Jacobi iteration and a pool of n-grams.
// SPDX-License-Identifier: MIT
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

/// Keeps the latest n-grams for every first token: at most `most` of them, each once.
class NgramPool {
 public:
  NgramPool(Index ngram, Index most) : rest_(ngram - 1), most_(most) {}

  /// Makes the n-gram the latest of its first token. Drops the oldest one if there is no room.
  void add(std::span<const Token> ngram) {
    std::vector<Token>& rests = rests_[ngram.front()];
    const auto rest = ngram.subspan(1);
    auto at = rests.begin();
    while (at != rests.end() && !std::equal(rest.begin(), rest.end(), at)) at += rest_;
    if (at == rests.end() && std::ssize(rests) / rest_ == most_) at = rests.begin();
    if (at == rests.end()) rests.insert(at, rest.begin(), rest.end());
    else std::copy(rest.begin(), rest.end(), std::rotate(at, at + rest_, rests.end()));
  }

  /// The tokens after `first` in the latest n-gram that begins with `first` and `guess`, or else in the latest one that
  /// begins with `first`; empty if there is none. The view lives until the next n-gram is added.
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
  std::ptrdiff_t rest_;  // tokens of an n-gram after the first
  std::ptrdiff_t most_;
  std::unordered_map<Token, std::vector<Token>> rests_;  // one after another, the latest at the end
};

/// Always drafts gamma tokens. They come from the target's rows after rejected tokens. These rows follow a wrong text, but
/// their argmax is still a better guess for the next place (Jacobi iteration). So it is drafted again at that place, until
/// the text has passed it. Guesses that followed one another, each the target's answer to the one before, become n-grams.
///
/// A draft begins with n-grams of the pool. The first one begins with the last token of the text: the latest n-gram that
/// agrees with the target's guess for the second token, or else the latest one. The next one begins with the last drafted
/// token, and so on. After the last n-gram come the guesses, each at its place. After the guesses, the draft repeats the
/// last gamma tokens as first guesses.
///
/// Needs the loop's observe() after every target call. Without it there are no guesses, and the pool holds only n-grams of
/// the text. Works with any verifier.
///
/// Limits of a linear draft: the paper runs W·(N−1) guesses in their own window and G candidates of the pool in their own
/// branches, in one call with an attention mask. Here candidate and guesses are one linear draft, which any target takes:
///   - guesses after the first rejection are refined on a wrong prefix;
///   - guesses before it become text and are not refined; after full acceptance no guess is left;
///   - there is one candidate instead of G; another one of the pool is used only if it agrees with the guess;
///   - the lookahead is gamma, and a guess lives for at most gamma calls: keep N small.
/// So this drafter gains less than the paper reports, and needs a larger gamma than other drafters.
///
/// Source: Fu et al., "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding", arXiv:2402.02057; Jacobi
/// decoding: Santilli et al., arXiv:2305.10427. The paper's first guesses are random tokens of the prompt. The n-grams of
/// the text go into the pool, as with the authors' option POOL_FROM_PROMPT.
/// Throws: std::invalid_argument unless ngram >= 2 and pool >= 1.
/// Random: none. The draft depends only on what was seen before, so q is one-hot.
/// Cost: an argmax (one pass) of each of the γ − τ target rows after the stop, and O(pool · ngram) a token. Memory:
/// pool · (ngram − 1) tokens for every different token, until clear().
class LookaheadDrafter {
 public:
  struct Options {
    Index ngram = 3;   ///< N: the length of the pool's n-grams
    Index pool = 8;    ///< G: the most n-grams for each first token
    bool text = true;  ///< whether n-grams of the text go into the pool, too
  };

  LookaheadDrafter() : LookaheadDrafter(Options{}) {}

  explicit LookaheadDrafter(const Options& options)
      : options_(checked(options)), pool_(options.ngram, options.pool) {}

  /// Drafts gamma tokens, or none if the context is empty.
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

  /// Learns from the verified draft, which may be another drafter's. `target` has γ+1 rows; row i is the target's
  /// distribution after i drafted tokens. Guesses end at a row that is not a distribution. After the stop this is not an
  /// error: a grammar may allow nothing after a token that it forbids.
  /// Pre: it is called for the context of the last draft(), before truncate().
  /// Throws: std::invalid_argument on another number of rows, and if more was accepted than drafted.
  template <specdec::Probabilities Target>
  void observe(const specdec::Judged<Target>& judged) {
    const auto rows = specdec::distributions(judged.rows);
    const std::span<const Token> drafted = judged.tokens;
    const Index accepted = judged.verdict.node;
    static_assert(specdec::ArgmaxRow<specdec::RowOf<decltype(rows)>>,
                  "the target's rows are no specdec::ArgmaxRow");
    check(rows.rows(), std::ssize(drafted), accepted);
    if (drafted.empty()) return;
    guesses_.clear();
    begin_ = seen_ + accepted + 1;
    try {
      for (Index i = accepted + 1; i <= std::ssize(drafted); ++i)
        refine(trail(drafted, i - 1), rows.row(i).argmax());
    } catch (const specdec::InvalidDistribution&) {  // the guesses so far stand
    }
  }

  /// Drops the guesses, because they were for the old text. The pool stays.
  void truncate(Index length) noexcept {
    if (length >= seen_) return;
    seen_ = std::max<Index>(length, 0);
    guesses_.clear();
  }

  /// Forgets everything that was learnt.
  void clear() { *this = LookaheadDrafter(options_); }

 private:
  // A token and the tokens before it, oldest first, as many as an n-gram needs. Each token is the target's answer to the one
  // before, or follows it in the text.
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

  // The text has grown: drops the guesses for places that are text now.
  void arrive(std::span<const Token> context) {
    truncate(std::ssize(context));
    if (options_.text) pool_text(context);
    const Index grown = std::ssize(context) - begin_;
    if (grown < 0 || grown >= std::ssize(guesses_)) guesses_.clear();
    else guesses_.erase(guesses_.begin(), guesses_.begin() + grown);
    begin_ = seen_ = std::ssize(context);
  }

  // Adds the n-grams that end in the new part of the text.
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

  // The target's guess for place i of the draft.
  std::optional<Token> guess(std::size_t i) const {
    return i < guesses_.size() ? std::optional(guesses_[i].back()) : std::nullopt;
  }

  void propose_guesses(Index gamma) {
    for (auto i = tokens_.size(); i < guesses_.size() && std::ssize(tokens_) < gamma; ++i)
      propose(guesses_[i]);
  }

  // Without guesses, the draft repeats the last gamma tokens.
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

  // The target's answer to a guess is the guess for the next place.
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
  std::vector<Trail> guesses_;  // guesses_[i] is for place begin_ + i of the text
  Index begin_ = 0;
  Index seen_ = 0;             // the length of the context of the last draft()
  std::vector<Token> tokens_;  // the draft
  std::vector<Trail> trails_;  // of the draft's tokens
};

}  // namespace drafters
