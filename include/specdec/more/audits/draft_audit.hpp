// Does a drafter really draw its tokens from the rows that it reports? A statistical audit of a run.
//
// If the tokens were not drawn from q, no error is raised: the text is biased, quietly. Examples: a raw q with a draw from
// the processed row, or the row of another position. Two tests on the tokens x and their rows q find this. A third
// finds draws that are not random. None needs a second run or access to the drafter.
//
//   Are the tokens likelier, or rarer, than q says? M_β = Π q(x)^(β−1) / Σ_y q(y)^β is a likelihood ratio: the tokens at
//   temperature 1/β against the tokens under q. If x ~ q, M_β is a martingale of mean 1, for any rows and any dependence
//   on the past. So the probability that M_β, or a mixture of several, ever exceeds 1/a is at most a (Ville, 1939; Shafer,
//   Shen, Vereshchagin, Vovk, "Test martingales, Bayes factors and p-values", Statistical Science 26(1), 2011). One-hot
//   and flat rows do not change M_β. For β near 1 it is the test of Σ (log q(x) − E log q), but exact for any number of
//   tokens.
//
//   Let U = Σ_{q(y) > q(x)} q(y) + V·Σ_{q(y) = q(x)} q(y) with V uniform. Is U uniform on [0, 1), and independent of the
//   last U? It is if x ~ q (Rosenblatt, "Remarks on a multivariate transformation", 1952; randomised for discrete q; used
//   to test forecasts by Diebold, Gunther, Tay, 1998). U orders tokens by decreasing q, so it detects a wrong temperature,
//   top-k or argmax. Pairs of U also detect rows that are right only on average.
//
//   Let W = Σ_{y < x} q(y) + V·q(x), the sum over smaller ids. Is W uniform? It is if x ~ q. Most samplers return the token
//   where the cumulative sum passes a random number, so W is near this number. If a sampler starts from its seed again
//   before each draft, its few numbers come again and again, and W falls into few cells. The tokens are as likely as q says,
//   and U may be uniform, since the order by q changes from row to row.
//
// A tree counts as a series of tokens, in the order of their numbers. The q of a token is its law given its elder siblings.
// Tokens before it, other than its ancestors, tell nothing about it.
// SPDX-License-Identifier: MIT
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
#include "specdec/lists.hpp"
#include "specdec/more/audits/draft_audit_report.hpp"
#include "specdec/more/audits/place_bet.hpp"
#include "specdec/more/audits/row_reading.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/testing/chi_square.hpp"
#include "specdec/types.hpp"

#ifndef __cpp_exceptions
#error "specdec/testing needs exceptions: compile the tests without -fno-exceptions"
#endif

namespace specdec::inline v0_2_0::testing {

/// Options of an audit.
struct AuditOptions {
  double false_alarm = 1e-4;  ///< the largest probability that an honest drafter is convicted
  std::uint64_t seed = 1;     ///< of the V in U
};

namespace detail {

/// The test martingales: log M_β, and the largest values that their mixtures have had.
class LikelihoodRatios {
 public:
  void add(const RowReading& row) {
    const double value = std::log(row.value()), total = std::log(row.total());
    for (std::size_t k = 0; k < exponents.size(); ++k)
      logs_[k] += (exponents[k] - 1) * value + total - std::log(row.power(k));
    likelier_ = std::max(likelier_, log_mean(std::span(logs_).first(sharper)));
    rarer_ = std::max(rarer_, log_mean(std::span(logs_).subspan(sharper)));
  }

  double likelier() const { return likelier_; }
  double rarer() const { return rarer_; }

  /// Whether the flattest alternative explains the tokens best.
  bool as_flat_as_can_be() const {
    return logs_.back() >= *std::max_element(logs_.begin() + sharper, logs_.end());
  }

 private:
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
    for (; told == specdec::detail::at(counts, cell); ++cell) told = 0;
    ++told;
    return std::vector<Token>{cell};
  };
  return check_sampled(next, law, samples, false_alarm);
}

}  // namespace detail

/// The audit itself, for your own loop: add() the rows and tokens of every draft, then ask for the report().
///
/// Convicts an honest drafter with a probability of at most `false_alarm` (as far as X² has its limiting law). Each of five
/// tests gets a fifth: tokens likelier than q, tokens rarer than q, cells of U, pairs of U, cells of W. The first two tests
/// may be read at any time of a run, again and again; the other three are valid for one report. A token of probability 0,
/// or a row that is no distribution, convicts by itself. In one-hot and flat rows nothing else is checked: a chosen token
/// must be the token of its row. Wrong rows go unnoticed if they are right on average and in pairs of successive tokens.
///
/// A token is informative if its row has unequal probabilities and is not nearly one-hot. The likelihood tests can convict
/// from the first token on, U and W from 160 informative tokens, pairs from 320. An acquittal needs 320.
/// Source: the top of this file.
/// Throws: InvalidArgument unless 0 < false_alarm < 1.
/// Random: one number per informative token, from the audit's own generator; U and W share it.
class DraftAudit {
 public:
  explicit DraftAudit(const AuditOptions& options = {}) : options_(options), state_(options.seed) {
    if (!(options.false_alarm > 0 && options.false_alarm < 1))
      specdec::detail::invalid_argument("false_alarm = ", options.false_alarm, " is outside (0, 1)");
  }

  /// Adds a draft. Row i is the row that the drafter reports for tokens[i]; in a tree, given the token's elder siblings. If
  /// the numbers of rows and tokens differ, the common part is read; the loop reports the error. After a throw the audit is
  /// unchanged.
  /// Cost: a pass over each row; over the listed tokens of a sparse row. No allocation.
  template <Probabilities Rows>
  void add(const Rows& reported, std::span<const Token> tokens) {
    const auto rows = distributions(reported);
    State next = state_;
    for (Index i = 0; i < std::min<Index>(rows.rows(), std::ssize(tokens)); ++i)
      next.add(rows.row(i), specdec::detail::at(tokens, i));
    state_ = next;
  }

  /// Cost: some 0.1 µs for each informative token seen.
  DraftAuditReport report() const {
    const double share = options_.false_alarm / 5;
    DraftAuditReport report{.tokens = state_.tokens,
                            .informative = state_.informative,
                            .impossible = state_.impossible,
                            .bad_rows = state_.bad_rows,
                            .likelier = state_.ratios.likelier(),
                            .rarer = state_.ratios.rarer(),
                            .threshold = -std::log(share),
                            .order = detail::check_uniform(state_.cells, share),
                            .pairs = detail::check_uniform(state_.pairs, share),
                            .ids = detail::check_uniform(state_.ids, share)};
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
      } else if (row.value() > 0) {  // blocks of logits may round a tiny probability to 0
        ratios.add(row);
        if (!row.is_informative()) return;
        const double v = uniform01(generator);
        place(row.by_rank(v));
        ++ids[cell_of(row.by_id(v))];
      }
    }

    static std::size_t cell_of(double position) {
      return std::min(static_cast<std::size_t>(position * 16), std::size_t{15});
    }

    // Pairs do not overlap, so that they are independent.
    void place(double u) {
      const std::size_t cell = cell_of(u);
      ++cells[cell];
      if (informative++ % 2 == 1) ++pairs[4 * (last / 4) + cell / 4];
      last = cell;
    }

    SplitMix64 generator;
    Index tokens = 0, informative = 0, impossible = 0, bad_rows = 0;
    detail::LikelihoodRatios ratios;
    std::array<Index, 16> cells = {}, pairs = {}, ids = {};
    std::size_t last = 0;
  };

  // Most faults fail several tests. The likelihoods tell the faults apart.
  DraftFault fault(const DraftAuditReport& report) const {
    if (report.bad_rows > 0) return DraftFault::bad_row;
    if (report.impossible > 0) return DraftFault::impossible;
    const auto rejected = [](const auto& test) { return test && !test->accepted; };
    const bool by_likelihood = std::max(report.likelier, report.rarer) > report.threshold;
    if (!by_likelihood && !rejected(report.order) && !rejected(report.pairs))
      return rejected(report.ids) ? DraftFault::repeated : DraftFault::none;
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
