// How likely the tokens of a text were where they came out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// What is told of the tokens of a text: nothing, unless a row is named.
struct LogProbabilityOptions {
  bool processed = false;  ///< in the target's rows, which tokens are sampled from
  bool raw = false;        ///< in the target's rows before temperature, cuts and hooks
  Index top = 0;           ///< and of so many of the likeliest tokens, in each row that is asked for

  bool any() const { return processed || raw; }
};

/// A token that might have come out, and the natural logarithm of its probability.
struct TokenLogProbability {
  Token token = 0;
  double value = 0;
};

/// Of each token of a text the natural logarithm of its probability in the target's row at its place: never in a draft's, a
/// residual's or a modified row, whatever the token came out of. And, where they are asked for, the likeliest tokens there.
class LogProbabilities {
 public:
  /// As many as there are tokens, or 0 where they are not recorded.
  Index size() const { return std::ssize(values_); }
  bool empty() const { return values_.empty(); }
  /// Of token i. Throws std::invalid_argument where there is none.
  double operator[](Index i) const {
    check(i);
    return values_[static_cast<std::size_t>(i)];
  }
  std::span<const double> values() const& { return values_; }
  std::span<const double> values() const&& = delete;
  /// Of the whole text.
  double sum() const {
    double sum = 0;
    for (const double value : values_) sum += value;
    return sum;
  }
  /// The likeliest tokens where token i came out, the likeliest first, of equals the lower id first: as many as were asked
  /// for, or fewer where fewer can come out.
  std::span<const TokenLogProbability> top(Index i) const& {
    check(i);
    const Index begin = i == 0 ? 0 : ends_[static_cast<std::size_t>(i) - 1];
    return {top_.data() + begin, static_cast<std::size_t>(ends_[static_cast<std::size_t>(i)] - begin)};
  }
  std::span<const TokenLogProbability> top(Index i) const&& = delete;

  /// Enters one more token, and the `top` likeliest of the row. Throws what the row throws; truncate() then makes good
  /// what has been entered in part.
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
  void check(Index i) const {
    if (i < 0 || i >= size())
      detail::invalid_argument("there is no log-probability of token ", i, ": ", size(), " are recorded");
  }

  std::vector<double> values_;
  std::vector<TokenLogProbability> top_;
  std::vector<Index> ends_;  // of each token's part of top_
};

namespace detail {

inline void check_log_probabilities(const LogProbabilityOptions& options) {
  if (options.top < 0) invalid_argument("log_probabilities.top = ", options.top, " is negative");
  if (options.top > 0 && !options.any())
    invalid_argument("log_probabilities.top = ", options.top,
                     ", but neither processed nor raw rows are asked for");
}

/// What a sequence records.
struct LogProbabilityRecord {
  LogProbabilities processed, raw;
  TopTokens likeliest;

  /// One more token that came out of a row that knows its name.
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
  // Of a row that knows what it was before temperature, cuts and hooks.
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
