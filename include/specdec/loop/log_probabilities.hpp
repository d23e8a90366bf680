// Log-probabilities of the tokens of a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Which log-probabilities are recorded. By default none.
struct LogProbabilityOptions {
  bool processed = false;  ///< in the target's rows that tokens are sampled from
  bool raw = false;        ///< in the target's rows before temperature, cuts and hooks
  Index top = 0;           ///< also this many of the likeliest tokens, in each kind of row chosen above

  bool any() const { return processed || raw; }
};

/// A possible token, and the natural logarithm of its probability.
struct TokenLogProbability {
  Token token = 0;
  double value = 0;
};

/// For each token of a text: the natural logarithm of its probability in the target's row at its place. A draft row, a
/// residual or a modified row is never used, even if the token was drawn from it. If asked for, also the likeliest tokens at
/// that place.
class LogProbabilities {
 public:
  /// The number of tokens, or 0 if nothing is recorded.
  Index size() const { return std::ssize(values_); }
  bool empty() const { return values_.empty(); }
  /// The log-probability of token i.
  /// Throws: std::invalid_argument if there is no token i.
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
  /// Throws: std::invalid_argument if there is no token i.
  std::span<const TokenLogProbability> top(Index i) const& {
    check_index(i);
    const Index begin = i == 0 ? 0 : ends_[static_cast<std::size_t>(i) - 1];
    return {top_.data() + begin, static_cast<std::size_t>(ends_[static_cast<std::size_t>(i)] - begin)};
  }
  std::span<const TokenLogProbability> top(Index i) const&& = delete;

  /// Adds a token, and the `top` likeliest tokens of the row.
  /// Throws: what the row throws. Then call truncate(): the token may have been added in part.
  template <Distribution R>
  void add(const R& row, Token token, Index top, TopTokens& likeliest) {
    for (const TopToken& likely : likeliest.of(row, top))
      top_.push_back({likely.token, log_probability(row, likely.token)});
    ends_.push_back(std::ssize(top_));
    values_.push_back(log_probability(row, token));
  }

  /// Keeps the first `size` tokens.
  void truncate(Index size) {
    const auto kept = std::min(static_cast<std::size_t>(size), values_.size());
    values_.resize(kept);
    ends_.resize(kept);
    while (std::ssize(top_) > (kept == 0 ? 0 : ends_.back())) top_.pop_back();
  }

 private:
  void check_index(Index i) const {
    if (i < 0 || i >= size())
      detail::invalid_argument("there is no log-probability of token ", i, ": ", size(), " are recorded");
  }

  std::vector<double> values_;
  std::vector<TokenLogProbability> top_;
  std::vector<Index> ends_;  // where each token's part of top_ ends
};

namespace detail {

inline void check_log_probabilities(const LogProbabilityOptions& options) {
  if (options.top < 0) invalid_argument("log_probabilities.top = ", options.top, " is negative");
  if (options.top > 0 && !options.any())
    invalid_argument("log_probabilities.top = ", options.top,
                     ", but neither processed nor raw rows are asked for");
}

/// The log-probabilities that a sequence records.
struct LogProbabilityRecord {
  LogProbabilities processed, raw;
  TopTokens likeliest;

  /// Adds a token. Errors about the row carry the row's name.
  template <class Named>
  void add(const Named& row, Token token, const LogProbabilityOptions& options) {
    row.named([&] {
      if (options.processed) processed.add(row.unnamed(), token, options.top, likeliest);
      if (options.raw) add_raw(row.unnamed(), token, options.top);
      return 0;
    });
  }

  void truncate(Index size) {
    processed.truncate(size);
    raw.truncate(size);
  }

 private:
  // Needs a row that has unprocessed(): its values before temperature, cuts and hooks.
  template <class R>
  void add_raw(const R& row, Token token, Index top) {
    if constexpr (requires { row.unprocessed(); }) raw.add(row.unprocessed(), token, top, likeliest);
    else
      invalid_argument(
          "log_probabilities.raw is asked for, but the target's rows do not tell what they were before they "
          "were processed: rows of specdec::Logits and specdec::ProcessedRows do");
  }
};

}  // namespace detail
}  // namespace specdec
