// The expected acceptance of token and block verification, estimated from the drafts of a run.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/rules/block.hpp"
#include "specdec/verify/rules/token.hpp"

namespace specdec::inline v0_2_0 {

/// A number and its standard error.
struct Estimate {
  double value = 0;
  double standard_error = 0;
};

/// Estimates of acceptance from the probabilities of the drafted tokens alone, for any rule in use. They need no pass over a
/// row, and have less noise than a count of the accepted tokens.
/// Source: Sun et al., arXiv:2403.10444, Lemma 3: w_i is P(τ >= i | x_1..x_i) under block verification. Under token
/// verification this probability is Π min(1, p/q) (Leviathan et al., arXiv:2211.17192). Their means over drafts are
/// unbiased. The i-th estimate depends on the first i tokens of drafts only.
///
/// All estimates are of the places of the texts where this run began its drafts. Another draft length begins them at other
/// places. Where easy and hard stretches of a text alternate, long drafts pass over the easy places. So a run with long drafts
/// foretells too few tokens for short drafts: 11 % too few where stretches of ten tokens alternate (tests/more/analysis/acceptance.cpp).
/// A run with the other length shows the truth.
struct Acceptance {
  Index steps = 0;                   ///< drafts seen, empty drafts included
  std::vector<Index> asked;          ///< [i]: drafts that were asked for an (i+1)-th token of the text
  std::vector<Index> drafted;        ///< [i]: drafts with an (i+1)-th token
  std::vector<double> token, block;  ///< [i]: Σ over drafts of P(τ > i | the draft) under the rule

  /// Allocates memory for drafts of gamma tokens. Changes no value.
  void reserve(Index gamma) {
    detail::check_drafted("gamma", gamma);
    detail::reserve(asked, gamma);
    detail::reserve(drafted, gamma);
    detail::reserve(token, gamma);
    detail::reserve(block, gamma);
    detail::reserve(token_reached_, gamma);
    detail::reserve(block_reached_, gamma);
  }

  /// Adds a draft of `length` tokens; `wanted` tokens were asked for. p and q are the probabilities of the drafted tokens,
  /// each under its own prefix. They may end early, after a token with p = 0. If the text would end with a drafted token, tokens
  /// after it belong to no text: `length` and `wanted` both count the tokens up to this one.
  /// Throws: InvalidArgument if there are more probabilities than tokens, if p and q differ in size, or if a length is
  /// impossible. Nothing is added then.
  /// Cost: no allocation after reserve(wanted).
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
    detail::resize(token, std::ssize(drafted));
    detail::resize(block, std::ssize(drafted));
    detail::resize(token_reached_, std::ssize(asked));
    detail::resize(block_reached_, std::ssize(asked));
    double token_survival = 1, block_survival = 1, accepted = 0;
    for (std::size_t i = 0; i <= p.size() && static_cast<Index>(i) < std::max(wanted, length); ++i) {
      token_reached_[i] += token_survival;
      block_reached_[i] += block_survival;
      if (i == p.size()) break;  // no token was proposed here, or p = 0 before
      token_survival = TokenVerifier::survival(token_survival, p[i], q[i]);
      block_survival = BlockVerifier::survival(block_survival, p[i], q[i]);
      token[i] += token_survival;
      block[i] += block_survival;
      accepted += std::min(1.0, p[i] / q[i]);
    }
    const double tokens = static_cast<double>(p.size());
    rate_ +=
        {p.empty() ? 0.0 : 1.0, accepted, tokens, accepted * accepted, accepted * tokens, tokens * tokens};
  }

  /// Adds the drafts of another run.
  Acceptance& operator+=(const Acceptance& other) {
    steps += other.steps;
    detail::add_elements(asked, other.asked);
    detail::add_elements(drafted, other.drafted);
    detail::add_elements(token, other.token);
    detail::add_elements(block, other.block);
    detail::add_elements(token_reached_, other.token_reached_);
    detail::add_elements(block_reached_, other.block_reached_);
    rate_ += other.rate_;
    return *this;
  }

  /// The expected number of accepted tokens per step under token and under block verification of all these drafts.
  double expected_token() const { return per_step(token); }
  double expected_block() const { return per_step(block); }

  /// [i]: P(τ > i) under token and under block verification, in a text that goes on: see detail::survival_of. The list ends
  /// where no draft came so far.
  std::vector<double> token_survival() const { return detail::survival_of(token, token_reached_); }
  std::vector<double> block_survival() const { return detail::survival_of(block, block_reached_); }

  /// The acceptance rate α = E Σ min(p, q): the mean of min(1, p/q) over drafted tokens. Tokens after a token with p = 0 are
  /// left out. The tokens of a draft are not independent. So the standard error comes from a ratio estimator over drafts.
  Estimate rate() const {
    const auto& [drafts, accepted, tokens, accepted_squared, product, tokens_squared] = rate_;
    if (tokens == 0) return {};
    const double alpha = accepted / tokens;
    const double squares = accepted_squared - 2 * alpha * product + alpha * alpha * tokens_squared;
    return {alpha, std::sqrt(std::max(squares, 0.0)) / tokens};
  }

  /// The confidence interval of α, `z` standard errors to both sides; z = 1.96 has a confidence of 95 %.
  /// Source: Wilson's interval for n coins. n is the number of coins that would have this standard error. If the error is 0,
  /// n is the number of drafts. So the interval stays within [0, 1], and is not a single point at 0 or 1.
  /// Throws: InvalidArgument unless 0 <= z <= 1e100.
  Interval rate_interval(double z = 1.96) const {
    if (!(z >= 0 && z <= 1e100)) detail::invalid_argument("z = ", z, " is outside [0, 1e100]");
    const auto [alpha, error] = rate();
    const double variance = alpha * (1 - alpha);
    const double coins = error > 0 && variance > 0 ? variance / (error * error) : rate_.drafts;
    if (coins == 0) return {};
    const double n = coins + z * z, middle = (coins * alpha + z * z / 2) / n;
    const double half = z / n * std::sqrt(coins * variance + z * z / 4);
    return {std::max(middle - half, 0.0), std::min(middle + half, 1.0)};
  }

 private:
  // Of the drafts with at least one probability: their number, and the sums of A = Σ_i min(1, p/q), of n = tokens, and of A²,
  // A·n, n².
  struct RateSums {
    double drafts = 0, accepted = 0, tokens = 0, accepted_squared = 0, product = 0, tokens_squared = 0;

    void operator+=(const RateSums& other) {
      drafts += other.drafts;
      accepted += other.accepted;
      tokens += other.tokens;
      accepted_squared += other.accepted_squared;
      product += other.product;
      tokens_squared += other.tokens_squared;
    }
  };

  double per_step(const std::vector<double>& sums) const {
    double sum = 0;
    for (const double s : sums) sum += s;
    return steps == 0 ? 0 : sum / static_cast<double>(steps);
  }

  // [i]: Σ over the drafts that were asked for an (i+1)-th token of the text, of P(τ >= i | the draft).
  std::vector<double> token_reached_, block_reached_;
  RateSums rate_;
};

}  // namespace specdec
