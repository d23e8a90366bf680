// Is the text that an engine writes now the text of its target? A test by betting: it needs no second run, no prompt that
// repeats, and may be read at any time.
// Experimental: may change in any version. See .github/CHANGELOG.md.
//
// Gamblers start with 1 each and bet on every token before it comes, at the odds of the target's row. A bet multiplies a
// gambler's wealth by b(token), where Σ_y p(y)·b(y) = 1. If every token is drawn from its row, no bet has an advantage: the mean
// E of the gamblers' wealth reaches 1/α with probability α at most, at any time, for ever (Ville 1939; Shafer, "Testing by
// betting", J. R. Stat. Soc. A 184, 2021; Ramdas, Grünwald, Vovk, Shafer, "Game-theoretic statistics and safe anytime-valid
// inference", Stat. Sci. 38, 2023). If the tokens come from another law, a gambler who learns it grows rich.
//
//   by rank           u = the mass of likelier tokens + U · the mass of equally likely ones; the token itself is one of these
//   by id             u = the mass of smaller ids + U · the token's own
//   by ratio          u in the order of r(y)/p(y). r is a reference row: the draft model's row after this text, above all
//   by two numbers    b = 1 − ε + ε·r(y)/p(y), for ε = 0.05 and 0.3. It needs p and r of the token alone
//
// The first three bet on bins of u, which is uniform (PlaceBet). U is a uniform number of the audit's own.
//
// What is tested (the null hypothesis): each token is drawn from its row, given the text before it. **The trap**: what is
// passed to the audit beside the token must be a function of the text before it, and never of the step that emitted it. That is:
//
//   - Add every token of a text, or choose by the text alone. Do not add only accepted, only replaced, or only first tokens. A
//     right rule has the target's law over the text. Given where a step ended, the law is another one, and right rules would be
//     convicted.
//   - The row is the target's after the text, processed as what is drawn from (temperature, cuts, penalties): never a residual,
//     never a row that greedy block verification has modified.
//   - A reference row is a function of the text, too: pass one for every token, or choose by the text. The rows that a drafter made
//     within steps do not cover every place, so they will not do. A model that reads the finished text will.
//   - End a text by its tokens, or by a length that was settled before. Where it is cut for other reasons, add it only up to
//     a place that was settled before.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "specdec/chance/philox.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/more/audits/place_bet.hpp"
#include "specdec/more/audits/row_places.hpp"
#include "specdec/more/audits/text_audit_report.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {

/// Options of an audit of a text.
struct TextAuditOptions {
  /// By how much the logarithm of a probability may be wrong, in natural logarithms. Each factor of a bet is divided by
  /// e^tolerance: so rows that are right within this keep the guarantee. The default is for rows that were drawn from; rows
  /// that are computed again by other kernels need more, 1e-3 for example. It does not help at the edge of a cut (top-k, top-p,
  /// min-p): a token that is inside in one computation may be outside in the other, and p = 0 convicts. Audit rows that are
  /// computed again before they are cut, or cut them to the tokens that were kept.
  double tolerance = 1e-6;
  std::uint64_t seed = 1;    ///< of U
  std::uint64_t stream = 0;  ///< of U: audits that will be merged need streams of their own
};

/// The audit: add() each token of each text with its row, then ask.
///
///   testing::TextAudit audit;
///   audit.add(row, token);                  // row: the target's, from which the token should have been drawn
///   audit.add(row, token, reference);       // convicts more mistakes, sooner
///   audit.add(p, r);                        // two probabilities of the token: the target's and the reference's
///   if (audit.convicts(1e-6)) std::cerr << audit.report();
///
/// **The trap** is at the top of this file: what you pass must depend on the text, never on the step.
/// Random: one number U for each token with a row. Token n of the audit takes number n of a Philox whose key is mixed from the
/// seed: so U belongs to a place, and is independent of an engine's numbers, also of a Philox of this seed. A `Source` of
/// your own must be independent of all coins and draws of the engine.
/// Cost: a pass over the row, and over the reference; with two numbers, O(1). No allocation. 650 bytes. No exceptions are needed.
/// Copies go on alone. Distinct audits may be used in distinct threads, and merge().
/// Numeric: a row counts as if it were normalised; the report names rows that do not sum to 1.
template <RandomBitGenerator Source = Philox>
class BasicTextAudit {
 public:
  /// Throws: InvalidArgument unless the tolerance is 0 or more and finite.
  explicit BasicTextAudit(const TextAuditOptions& options = {})
    requires std::same_as<Source, Philox>
      : BasicTextAudit(Source(SplitMix64(options.seed ^ 0x7465787461756474u)(), 0, options.stream), options) {
  }
  explicit BasicTextAudit(Source source, const TextAuditOptions& options = {})
      : source_(std::move(source)), tolerance_(options.tolerance) {
    if (!(tolerance_ >= 0 && tolerance_ <= std::numeric_limits<double>::max()))
      specdec::detail::invalid_argument("tolerance = ", tolerance_, " is negative or not finite");
  }

  /// Adds a token and the row after the text before it. A token outside the vocabulary has probability 0. A row that holds NaN or
  /// negative numbers, or has no mass, leaves its token out, and is counted.
  /// Throws: what a row of your own throws, unless it is InvalidDistribution. The audit is then unchanged. (Without exceptions, a
  /// row of logits that holds NaN goes to the error handler.)
  template <Distribution P>
  void add(const P& row, Token token) {
    enter(token < row.vocab_size(), token, [&] { return detail::RowPlaces(row, token); });
  }
  template <Distribution P, Distribution R>
  void add(const P& row, Token token, const R& reference) {
    enter(token < row.vocab_size(), token, [&] { return detail::RowPlaces(row, token, reference); });
  }

  /// The row, and the reference, as Eigen expressions of one row.
  template <Probabilities P>
    requires(!Distribution<P>)
  void add(const P& row, Token token) {
    add(distributions(row).row(0), token);
  }
  template <Probabilities P, Probabilities R>
    requires(!Distribution<P> && !Distribution<R>)
  void add(const P& row, Token token, const R& reference) {
    add(distributions(row).row(0), token, distributions(reference).row(0));
  }

  /// Adds a token by its probabilities in the target's row and in the reference row. Both rows must be normalised. A p that is no
  /// probability leaves the token out. An r that is none counts as 0: if it left the token out, a reference that is unreadable
  /// for some tokens would bet on the others at too good odds.
  void add(double p, double r) {
    const auto is_probability = [](double x) { return x >= 0 && x <= 1 + 0x1p-8; };
    ++seen_.tokens;
    if (!is_probability(p)) {
      ++seen_.unreadable;
    } else if (p == 0) {
      ++seen_.impossible;
    } else {
      if (!is_probability(r)) ++seen_.unreadable_references;
      bet_on_ratio(is_probability(r) ? r / p : 0);
    }
    remember();
  }

  /// Adds the tokens of another audit, as if they had been added here. It must have seen other tokens, and U of another stream or
  /// seed.
  /// Throws: InvalidArgument if the tolerances differ, or if the audits have the same numbers U (a copy, for example).
  void merge(const BasicTextAudit& other) {
    if (tolerance_ != other.tolerance_)
      specdec::detail::invalid_argument("audits of tolerances ", tolerance_, " and ", other.tolerance_,
                                        " do not merge");
    if constexpr (std::same_as<Source, Philox>)
      if (source_.seed() == other.source_.seed() && source_.stream() == other.source_.stream())
        specdec::detail::invalid_argument(
            "audits of one seed and one stream do not merge: give each its own TextAuditOptions::stream");
    rank_.merge(other.rank_, tolerance_);
    id_.merge(other.id_, tolerance_);
    ratio_.merge(other.ratio_, tolerance_);
    for (std::size_t k = 0; k < stakes.size(); ++k) two_numbers_[k] += other.two_numbers_[k];
    seen_.tokens += other.seen_.tokens;
    seen_.impossible += other.seen_.impossible;
    seen_.unreadable += other.seen_.unreadable;
    seen_.unreadable_references += other.seen_.unreadable_references;
    seen_.bad_sums += other.seen_.bad_sums;
    seen_.least_sum = std::min(seen_.least_sum, other.seen_.least_sum);
    seen_.largest_sum = std::max(seen_.largest_sum, other.seen_.largest_sum);
    remember();
  }

  /// log10 of E, as it is now. Infinite after a token of probability 0.
  double evidence() const {
    if (seen_.impossible > 0) return std::numeric_limits<double>::infinity();
    const std::array logs{rank_.log_wealth(), id_.log_wealth(), ratio_.log_wealth(), two_numbers_[0],
                          two_numbers_[1]};
    return detail::log_mean(logs) / ln10;
  }
  /// log10 of the largest E that there was since the audit began. (After a merge: of this audit's tokens first, and then those of
  /// the other one.)
  double largest_evidence() const { return seen_.largest_evidence; }
  /// Whether the text is not its rows': wrongly with probability alpha at most, over all times that one asks.
  /// Throws: InvalidArgument unless 0 < alpha < 1.
  bool convicts(double alpha) const { return seen_.convicts(alpha); }
  Index tokens() const { return seen_.tokens; }

  /// In words what the text looks like.
  TextFault fault() const {
    if (seen_.impossible > 0) return TextFault::impossible;
    const double two = by_two_numbers();
    const double most = std::max({rank_.log_wealth(), id_.log_wealth(), ratio_.log_wealth(), two});
    if (most < ln10) return TextFault::none;
    if (most == two) return TextFault::liked_often;
    if (most == ratio_.log_wealth()) return ratio_.low() ? TextFault::liked_often : TextFault::liked_seldom;
    if (most == rank_.log_wealth()) return rank_.low() ? TextFault::likely_often : TextFault::likely_seldom;
    return TextFault::ids;
  }

  TextAuditReport report() const {
    TextAuditReport report = seen_;
    report.fault = fault();
    report.evidence = evidence();
    report.by_rank = rank_.log_wealth() / ln10;
    report.by_id = id_.log_wealth() / ln10;
    report.by_ratio = ratio_.log_wealth() / ln10;
    report.by_two_numbers = by_two_numbers() / ln10;
    return report;
  }

 private:
  static constexpr double ln10 = 2.302585092994046;
  static constexpr std::array<double, 2> stakes{0.05, 0.3};

  // A token takes its U whatever its row is.
  template <class Read>
  void enter(bool known, Token token, const Read& read) {
    const bool possible = known && token >= 0;
    const auto places = possible ? read_by(read) : std::nullopt;
    const double v = uniform01(source_);
    ++seen_.tokens;
    if (!possible) ++seen_.impossible;
    else if (!places || !places->is_readable()) ++seen_.unreadable;
    else bet(*places, v);
    remember();
  }

  // Rows of the library throw where they hold no distribution.
  template <class Read>
  static std::optional<detail::RowPlaces> read_by(const Read& read) {
#ifdef __cpp_exceptions
    try {
      return read();
    } catch (const InvalidDistribution&) {
      return std::nullopt;
    }
#else
    return read();
#endif
  }

  void bet(const detail::RowPlaces& places, double v) {
    if (!places.is_normalised()) ++seen_.bad_sums;
    seen_.least_sum = std::min(seen_.least_sum, places.total());
    seen_.largest_sum = std::max(seen_.largest_sum, places.total());
    if (places.value() == 0) {
      ++seen_.impossible;
      return;
    }
    if (places.is_informative()) {
      rank_.take(places.by_rank(v), tolerance_);
      id_.take(places.by_id(v), tolerance_);
    }
    if (!places.has_reference()) return;
    if (!places.is_readable_reference()) {
      ++seen_.unreadable_references;
      return;
    }
    if (places.is_informative_reference()) ratio_.take(places.by_ratio(v), tolerance_);
    bet_on_ratio(places.ratio());
  }

  // A bet that is worth less than b is fair as well: so a ratio that overflows may be cut.
  void bet_on_ratio(double ratio) {
    for (std::size_t k = 0; k < stakes.size(); ++k)
      two_numbers_[k] += std::log(1 - stakes[k] + stakes[k] * std::min(ratio, 1e300)) - tolerance_;
  }

  double by_two_numbers() const { return std::max(two_numbers_[0], two_numbers_[1]); }

  void remember() { seen_.largest_evidence = std::max(seen_.largest_evidence, evidence()); }

  Source source_;
  double tolerance_;
  detail::PlaceBet rank_, id_, ratio_;
  std::array<double, stakes.size()> two_numbers_ = {};  // logs of wealth
  // Counts, the range of the sums of rows, and the largest evidence.
  TextAuditReport seen_{.least_sum = std::numeric_limits<double>::infinity(), .largest_sum = 0};
};

using TextAudit = BasicTextAudit<>;

}  // namespace specdec::testing
