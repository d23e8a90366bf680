// Does a drafter really draw its tokens from the rows that it reports? A statistical audit of a run.
//
// A q that the tokens were not drawn from (the raw row beside a draw from the processed one, the row of
// another position) raises no error: it biases the text, quietly. Two questions are put to the tokens x and
// their rows q, and neither needs a second run or a look into the drafter:
//
//   Are the tokens likelier, or rarer, than q says? M_β = Π q(x)^(β−1) / Σ_y q(y)^β is the likelihood of the
//   tokens at temperature 1/β over that under q. If x ~ q it is a martingale of mean 1, whatever the rows and
//   however each depends on the past, so that it, or a mixture of several, ever exceeds 1/a with a
//   probability of at most a (Ville, 1939; Shafer, Shen, Vereshchagin, Vovk, "Test martingales, Bayes factors
//   and p-values", Statistical Science 26(1), 2011). Rows that are one-hot or flat leave it as it is. For β
//   near 1 it is the test of Σ (log q(x) − E log q), but exact for any number of tokens.
//
//   Is U = Σ_{q(y) > q(x)} q(y) + V·Σ_{q(y) = q(x)} q(y), V uniform, uniform on [0, 1), and independent of
//   the U before it? It is if x ~ q (Rosenblatt, "Remarks on a multivariate transformation", 1952; randomised
//   where q is discrete, and testing forecasts by it, as in Diebold, Gunther, Tay, 1998). Ordered by
//   decreasing q, U feels what temperature, top-k and argmax do; in pairs it also feels rows that are right
//   on average only.
//
// A tree is a series of tokens, too, in the order of their numbers: q of a token is its law given its elder siblings, and
// what else was drawn before it, ancestors apart, tells nothing about it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/testing/chi_square.hpp"
#include "specdec/testing/draft_audit_report.hpp"
#include "specdec/testing/row_reading.hpp"
#include "specdec/types.hpp"

namespace specdec::testing {

/// How an audit is done.
struct AuditOptions {
  double false_alarm = 1e-4;  ///< the probability that an honest drafter is convicted, at most
  std::uint64_t seed = 1;     ///< of the V that U is randomised by
};

namespace detail {

/// The test martingales: log M_β, and how large their mixtures have ever been.
class LikelihoodRatios {
 public:
  void add(const RowReading& row) {
    const double value = std::log(row.value()), total = std::log(row.total());
    for (std::size_t k = 0; k < exponents.size(); ++k)
      logs_[k] += (exponents[k] - 1) * value + total - std::log(row.power(k));
    likelier_ = std::max(likelier_, mixture(std::span(logs_).first(sharper)));
    rarer_ = std::max(rarer_, mixture(std::span(logs_).subspan(sharper)));
  }

  double likelier() const { return likelier_; }
  double rarer() const { return rarer_; }

  /// Whether the flattest alternative explains the tokens best.
  bool as_flat_as_can_be() const {
    return logs_.back() >= *std::max_element(logs_.begin() + sharper, logs_.end());
  }

 private:
  // The log of the mean.
  static double mixture(std::span<const double> logs) {
    const double largest = *std::max_element(logs.begin(), logs.end());
    double sum = 0;
    for (const double log : logs) sum += std::exp(log - largest);
    return largest + std::log(sum / static_cast<double>(logs.size()));
  }

  std::array<double, exponents.size()> logs_ = {};
  double likelier_ = 0, rarer_ = 0;
};

/// Tests counts of equally likely outcomes; empty where a cell expects fewer than 10.
inline std::optional<SampledReport> check_uniform(std::span<const Index> counts, double false_alarm) {
  const auto cells = static_cast<Index>(counts.size());
  const Index samples = std::accumulate(counts.begin(), counts.end(), Index{0});
  if (samples < 10 * cells) return std::nullopt;
  Law law;
  for (Token cell = 0; cell < cells; ++cell) law[{cell}] = 1.0 / static_cast<double>(cells);
  Token cell = 0;
  Index told = 0;
  const auto next = [&] {
    for (; told == counts[static_cast<std::size_t>(cell)]; ++cell) told = 0;
    ++told;
    return std::vector<Token>{cell};
  };
  return check_sampled(next, law, samples, false_alarm);
}

}  // namespace detail

/// The audit itself, for loops of your own: add() the rows and tokens of every draft, then ask for the
/// report().
///
/// Convicts an honest drafter with a probability of at most `false_alarm` (as far as X² has its limiting
/// law), a quarter of it each for tokens likelier and rarer than q, for the cells of U and for their pairs.
/// The first two hold for all moments of a run at once, the others for one report. A token of probability 0
/// and a row that is no distribution convict by themselves. Of rows that are one-hot or flat only that is
/// checked, so of chosen tokens only that they are what their rows name. Rows that are wrong, but right on average and in the order of successive tokens, go unnoticed.
/// Convicts by likelihood from the first token on, by U from 160 informative tokens, by pairs from 320;
/// acquits from 320. (An informative token is one whose row has an order and is not all but one-hot.)
/// Source: the top of this file. Throws: std::invalid_argument unless 0 < false_alarm < 1.
/// Random: a generator of its own, one number per informative token.
class DraftAudit {
 public:
  explicit DraftAudit(const AuditOptions& options = {}) : options_(options), state_(options.seed) {
    if (!(options.false_alarm > 0 && options.false_alarm < 1))
      specdec::detail::invalid_argument("false_alarm = ", options.false_alarm, " is outside (0, 1)");
  }

  /// Row i is what tokens[i] is said to be drawn from; in a tree, given its elder siblings. A draft of a wrong shape is read as far as it goes: to
  /// complain is up to the loop. A throw leaves the audit as it was.
  /// Cost: a pass over each row, of its support where it lists it. No allocation.
  template <Probabilities Rows>
  void add(const Rows& reported, std::span<const Token> tokens) {
    const auto rows = distributions(reported);
    State next = state_;
    for (Index i = 0; i < std::min<Index>(rows.rows(), std::ssize(tokens)); ++i)
      next.add(rows.row(i), tokens[static_cast<std::size_t>(i)]);
    state_ = next;
  }

  /// Cost: some 0.1 µs for each informative token seen.
  DraftAuditReport report() const {
    const double share = options_.false_alarm / 4;
    DraftAuditReport report{.tokens = state_.tokens,
                            .informative = state_.informative,
                            .impossible = state_.impossible,
                            .bad_rows = state_.bad_rows,
                            .likelier = state_.ratios.likelier(),
                            .rarer = state_.ratios.rarer(),
                            .threshold = -std::log(share),
                            .order = detail::check_uniform(state_.cells, share),
                            .pairs = detail::check_uniform(state_.pairs, share)};
    report.fault = fault(report);
    return report;
  }

 private:
  struct State {
    explicit State(std::uint64_t seed) : generator(seed) {}

    template <Distribution R>
    void add(const R& row, Token x) {
      ++tokens;
      try {
        if (x < 0 || !(specdec::probability(row, x) > 0)) ++impossible;
        else enter(detail::RowReading(row, x));
      } catch (const InvalidDistribution&) {
        ++bad_rows;
      }
    }

    void enter(const detail::RowReading& row) {
      if (!row.is_distribution()) {
        ++bad_rows;
      } else if (row.value() > 0) {  // blocks of logits may have 0 for what is all but 0
        ratios.add(row);
        if (row.is_informative()) place(row.position(uniform01(generator)));
      }
    }

    // Pairs do not overlap, so that they are independent of one another.
    void place(double u) {
      const auto cell = std::min(static_cast<std::size_t>(u * 16), std::size_t{15});
      ++cells[cell];
      if (informative++ % 2 == 1) ++pairs[4 * (last / 4) + cell / 4];
      last = cell;
    }

    SplitMix64 generator;
    Index tokens = 0, informative = 0, impossible = 0, bad_rows = 0;
    detail::LikelihoodRatios ratios;
    std::array<Index, 16> cells = {}, pairs = {};
    std::size_t last = 0;
  };

  // Most faults trip several tests; which likelihood they raise tells them apart.
  DraftFault fault(const DraftAuditReport& report) const {
    if (report.bad_rows > 0) return DraftFault::bad_row;
    if (report.impossible > 0) return DraftFault::impossible;
    const auto rejected = [](const auto& test) { return test && !test->accepted; };
    const bool by_likelihood = std::max(report.likelier, report.rarer) > report.threshold;
    if (!by_likelihood && !rejected(report.order) && !rejected(report.pairs)) return DraftFault::none;
    constexpr double clearly = 3;
    if (report.likelier > report.rarer + clearly) return DraftFault::likelier;
    if (report.rarer > report.likelier + clearly && !state_.ratios.as_flat_as_can_be())
      return DraftFault::rarer;
    return DraftFault::unrelated;
  }

  AuditOptions options_;
  State state_;
};

}  // namespace specdec::testing
