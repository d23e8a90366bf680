// What token and block verification accept in expectation, from the drafts that a run judged anyway.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/token.hpp"

namespace specdec {

/// A number and its standard error.
struct Estimate {
  double value = 0;
  double standard_error = 0;
};

/// Where a number lies with some confidence.
struct Interval {
  double low = 0;
  double high = 1;
};

namespace detail {

/// One more for each of the first `length` positions.
inline void count(std::vector<Index>& positions, Index length) {
  positions.resize(std::max(positions.size(), static_cast<std::size_t>(length)));
  for (Index i = 0; i < length; ++i) ++positions[static_cast<std::size_t>(i)];
}

/// a += b, element by element; a grows to the size of b.
template <class Number>
void add_elements(std::vector<Number>& a, const std::vector<Number>& b) {
  a.resize(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < b.size(); ++i) a[i] += b[i];
}

}  // namespace detail

/// Estimates from the probabilities of drafted tokens alone, whatever rule was used: no pass over a row, and
/// less noise than counting what was accepted.
///
/// Source: Sun et al., arXiv:2403.10444, Lemma 3: w_i is P(τ >= i | x_1..x_i) under block verification; Π
/// min(1, p/q) is the same for token verification (Leviathan et al., arXiv:2211.17192). Their means over
/// drafts are unbiased, and since the i-th depends on the first i tokens only, they hold for every draft
/// length up to the one drafted.
struct Acceptance {
  Index steps = 0;                   ///< drafts seen, empty ones too
  std::vector<Index> asked;          ///< [i]: drafts that were asked for an (i+1)-th token
  std::vector<Index> drafted;        ///< [i]: drafts with an (i+1)-th token
  std::vector<double> token, block;  ///< [i]: Σ over drafts of P(τ > i | the draft) under the rule

  /// Makes room for drafts of gamma tokens, without a change to see.
  void reserve(Index gamma) {
    detail::check_drafted("gamma", gamma);
    const auto size = static_cast<std::size_t>(gamma);
    asked.reserve(size);
    drafted.reserve(size);
    token.reserve(size);
    block.reserve(size);
  }

  /// Enters a draft of `length` tokens, where `wanted` were asked for: p and q of each under its own prefix, up to
  /// one with p = 0 at least. Allocates nothing after reserve(wanted). Throws std::invalid_argument on more
  /// probabilities than tokens, and on numbers that no draft has; nothing has been entered then.
  void add(std::span<const double> p, std::span<const double> q, Index length, Index wanted) {
    detail::check_drafted("length", length);
    detail::check_drafted("wanted", wanted);
    if (p.size() != q.size())
      detail::invalid_argument("there are ", p.size(), " probabilities under the target, but ", q.size(),
                               " under the drafter");
    if (std::ssize(p) > length)
      detail::invalid_argument("there are probabilities of ", p.size(),
                               " tokens for a draft of length = ", length);
    ++steps;
    detail::count(asked, std::max(wanted, length));
    detail::count(drafted, length);
    token.resize(drafted.size());
    block.resize(drafted.size());
    double token_survival = 1, block_survival = 1, accepted = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      token_survival = TokenVerifier::survival(token_survival, p[i], q[i]);
      block_survival = BlockVerifier::survival(block_survival, p[i], q[i]);
      token[i] += token_survival;
      block[i] += block_survival;
      accepted += std::min(1.0, p[i] / q[i]);
    }
    add_rate(accepted, static_cast<double>(p.size()));
  }

  /// Enters the drafts of another run.
  Acceptance& operator+=(const Acceptance& other) {
    steps += other.steps;
    detail::add_elements(asked, other.asked);
    detail::add_elements(drafted, other.drafted);
    detail::add_elements(token, other.token);
    detail::add_elements(block, other.block);
    drafts_ += other.drafts_;
    accepted_ += other.accepted_;
    tokens_ += other.tokens_;
    accepted_squared_ += other.accepted_squared_;
    product_ += other.product_;
    tokens_squared_ += other.tokens_squared_;
    return *this;
  }

  /// Expected accepted tokens a step under token and under block verification, had each judged all the
  /// drafts.
  double expected_token() const { return per_step(token); }
  double expected_block() const { return per_step(block); }

  /// [i]: P(τ > i) under token and under block verification where more than i tokens are asked for.
  std::vector<double> token_survival() const { return per(asked, token); }
  std::vector<double> block_survival() const { return per(asked, block); }

  /// [i]: P(τ > i) under token and under block verification where an (i+1)-th token was drafted.
  std::vector<double> token_acceptance() const { return per(drafted, token); }
  std::vector<double> block_acceptance() const { return per(drafted, block); }

  /// The acceptance rate α = E Σ min(p, q): the mean of min(1, p/q) over drafted tokens (but for tokens after
  /// one that the target rules out), and its standard error with the tokens of a draft taken
  /// together (ratio estimator), since they are not independent.
  Estimate rate() const {
    if (tokens_ == 0) return {};
    const double alpha = accepted_ / tokens_;
    const double squares = accepted_squared_ - 2 * alpha * product_ + alpha * alpha * tokens_squared_;
    return {alpha, std::sqrt(std::max(squares, 0.0)) / tokens_};
  }

  /// Where α lies, `z` standard errors to both sides: 1.96 for a confidence of 95 %. Wilson's interval, for as many
  /// coins as would have this standard error (as there are drafts, where it is 0), so that it stays within
  /// [0, 1] and is no point at its ends. Throws std::invalid_argument unless 0 <= z <= 1e100.
  Interval rate_interval(double z = 1.96) const {
    if (!(z >= 0 && z <= 1e100)) detail::invalid_argument("z = ", z, " is outside [0, 1e100]");
    const auto [alpha, error] = rate();
    const double variance = alpha * (1 - alpha);
    const double coins = error > 0 && variance > 0 ? variance / (error * error) : drafts_;
    if (coins == 0) return {};
    const double n = coins + z * z, middle = (coins * alpha + z * z / 2) / n;
    const double half = z / n * std::sqrt(coins * variance + z * z / 4);
    return {std::max(middle - half, 0.0), std::min(middle + half, 1.0)};
  }

 private:
  void add_rate(double accepted, double tokens) {
    if (tokens > 0) ++drafts_;
    accepted_ += accepted;
    tokens_ += tokens;
    accepted_squared_ += accepted * accepted;
    product_ += accepted * tokens;
    tokens_squared_ += tokens * tokens;
  }

  double per_step(const std::vector<double>& sums) const {
    double sum = 0;
    for (const double s : sums) sum += s;
    return steps == 0 ? 0 : sum / static_cast<double>(steps);
  }

  static std::vector<double> per(const std::vector<Index>& drafts, const std::vector<double>& sums) {
    std::vector<double> mean(drafts.size());
    for (std::size_t i = 0; i < sums.size(); ++i) mean[i] = sums[i] / static_cast<double>(drafts[i]);
    return mean;
  }

  double drafts_ = 0;  // with a token
  // Σ over drafts of A = Σ_i min(1, p/q), of n = tokens, and of A², A·n, n².
  double accepted_ = 0, tokens_ = 0, accepted_squared_ = 0, product_ = 0, tokens_squared_ = 0;
};

}  // namespace specdec
