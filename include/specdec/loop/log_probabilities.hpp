// Log-probabilities of the tokens of a text.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Which log-probabilities are recorded. By default none.
struct LogProbabilityOptions {
  bool processed = false;       ///< in the target's rows that tokens are sampled from
  bool raw = false;             ///< in the target's rows before temperature, cuts and hooks
  Index top = 0;                ///< also this many of the likeliest tokens, in each kind of row chosen above
  std::vector<Token> ids = {};  ///< also these tokens, at each place, in each kind of row chosen above
  /// Also at the places of the prompt's tokens: see Result::prompt_log_probabilities. The target then reads the prompt by a call
  /// of its own, before the first step, which returns a row for each token. If a row rules out the token that follows, the
  /// first step reads the prompt again from that token on: processors may not have processed the rows after it.
  bool prompt = false;

  bool any() const { return processed || raw; }
  friend bool operator==(const LogProbabilityOptions&, const LogProbabilityOptions&) = default;
};

/// A possible token, and the natural logarithm of its probability.
struct TokenLogProbability {
  Token token = 0;
  double value = 0;
};

/// For each token of a text: the natural logarithm of its probability in the target's row at its place, never in a draft row, a
/// residual or a modified row, even if drawn from it. If asked for, also of the likeliest tokens there, and of given ids.
class LogProbabilities {
 public:
  /// The number of tokens, or 0 if nothing is recorded.
  Index size() const { return std::ssize(values_); }
  bool empty() const { return values_.empty(); }
  /// The log-probability of token i.
  /// Throws: InvalidArgument if there is no token i.
  double operator[](Index i) const {
    check_index(i);
    return values_[static_cast<std::size_t>(i)];
  }
  std::span<const double> values() const& { return detail::view_of(values_); }
  std::span<const double> values() const&& = delete;
  /// The log-probability of the whole text.
  double sum() const {
    double sum = 0;
    for (const double value : values_) sum += value;
    return sum;
  }
  /// The likeliest tokens at the place of token i: the likeliest first, equal ones by ascending id. There are as many as
  /// were asked for, or fewer if fewer have a probability above 0.
  /// Throws: InvalidArgument if there is no token i.
  std::span<const TokenLogProbability> top(Index i) const& { return others(i).subspan(ids_); }
  std::span<const TokenLogProbability> top(Index i) const&& = delete;
  /// The tokens of LogProbabilityOptions::ids at the place of token i, in their order; −inf for a token that cannot come there.
  /// Throws: InvalidArgument if there is no token i.
  std::span<const TokenLogProbability> of_ids(Index i) const& { return others(i).first(ids_); }
  std::span<const TokenLogProbability> of_ids(Index i) const&& = delete;

  /// Adds a token. Also these ids, as many for each token, and then the likeliest tokens. log_probability(x) is that of token x.
  /// Throws: what log_probability throws. Then call truncate(): the token may have been added in part.
  void add(Token token, std::span<const Token> ids, const auto& likeliest, const auto& log_probability) {
    const auto tell = [&](Token x) { others_.push_back({x, log_probability(x)}); };
    ids_ = ids.size();
    for (const Token x : ids) tell(x);
    for (const auto& likely : likeliest) tell(likely.token);
    ends_.push_back(std::ssize(others_));
    values_.push_back(log_probability(token));
  }

  /// Keeps the first `size` tokens.
  void truncate(Index size) {
    const auto kept = std::min(static_cast<std::size_t>(size), values_.size());
    values_.resize(kept);
    ends_.resize(kept);
    while (std::ssize(others_) > (kept == 0 ? 0 : ends_.back())) others_.pop_back();
  }

 private:
  std::span<const TokenLogProbability> others(Index i) const {
    check_index(i);
    const Index begin = i == 0 ? 0 : detail::at(ends_, i - 1);
    return detail::part(others_, begin, detail::at(ends_, i) - begin);
  }
  void check_index(Index i) const {
    if (i < 0 || i >= size())
      detail::invalid_argument("there is no log-probability of token ", i, ": ", size(), " are recorded");
  }

  std::vector<double> values_;
  std::vector<TokenLogProbability> others_;  // for each token: of ids, then the likeliest
  std::vector<Index> ends_;                  // where each token's part of others_ ends
  std::size_t ids_ = 0;
};

namespace detail {

inline void check_log_probabilities(const LogProbabilityOptions& options, Index vocab_size) {
  if (options.top < 0) invalid_argument("log_probabilities.top = ", options.top, " is negative");
  check_tokens("log_probabilities.ids", options.ids, vocab_size);
  if (!options.any() && (options.top > 0 || !options.ids.empty() || options.prompt))
    invalid_argument("log_probabilities has top = ", options.top, ", ", options.ids.size(),
                     " ids and prompt = ", options.prompt, ", but asks for neither processed nor raw rows");
}

}  // namespace detail
}  // namespace specdec
