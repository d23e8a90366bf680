// The drafted block: everything that a rule judges, checked once.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/dense.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/row_cache.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/token_ids.hpp"

namespace specdec {
namespace detail {

/// Weights and ratios are kept below this, so that products with them stay finite even where q is subnormal.
inline constexpr double largest_weight = 1e300;

inline double bounded(double weight) { return std::min(weight, largest_weight); }

/// Whether the probabilities of tokens, one a row, can be had without reading a row: all at once where the
/// matrix offers that, else one by one.
template <class M>
concept LooksUpTogether =
    requires(const M& matrix, TokenIds tokens, std::span<double> out) { matrix.probabilities(tokens, out); };
template <class M>
inline constexpr bool cheap_look_ups = LooksUpTogether<M> || constant_time_probability<RowOf<M>>;

/// What a rule makes of q: whether a drafted token without any is an error.
enum class DraftRows { needed, unused };

}  // namespace detail

/// γ drafted tokens, the rows of the draft model that they were drawn from and the rows of the target that they
/// are judged by. A rule asks it, and nothing else:
///
///   gamma()             how many tokens were drafted
///   token(i)            token i; it was drawn from draft row i and is judged by target row i, i < γ
///   p(i), q(i)          its probability in target row i and in draft row i
///   ratio(i)            p(i)/q(i), kept finite
///   race(chance, w, i)  a token ∝ (w·target row i − draft row i)+, of mass S, with probability S/(S + 1 − w),
///                       else nothing; certain at w = 1. At i = γ, where
///                       there is no draft row, a token of the target row with probability min(1, w)
///   draw(chance, i)     a token from target row i, i <= γ
///   target(i), draft(i) the rows themselves
///   look_up_all()       has p and q of all tokens known, up to one that the target rules out: for rules that judge a
///                       draft as a whole. Costs nothing where look-ups are cheap; elsewhere the statistics tell
///                       acceptance only of such rules
///
/// Shapes: target (γ+1)×V, draft γ×V', γ tokens; γ >= 0, V >= 1. Ids that the drafter alone knows are judged
/// like any other: the target gives them probability 0.
/// Throws: std::invalid_argument, before a rule is asked, on wrong shapes, ids that neither side knows and
/// tokens with q = 0, which cannot have been drawn (where a look-up takes a pass over a row, as it does in rows
/// of logits, it is found when q(i) is asked for, unless the token's own logit tells); on an index out of range;
/// InvalidDistribution where a number that is asked for is no probability.
/// Cost: the p and q of all tokens are looked up at once, and once; where that takes passes, as they are asked
/// for. No allocation for γ <= 32. Rows are made when they are first needed and keep what they learn.
template <SizedDistributionMatrix Target, DistributionMatrix Draft>
class Drafted {
 public:
  template <Probabilities TargetRows, Probabilities DraftRows>
  Drafted(const TargetRows& target, const DraftRows& draft, TokenIds tokens,
          detail::DraftRows use = detail::DraftRows::needed)
      : target_(distributions(target)),
        draft_(distributions(draft)),
        tokens_(tokens),
        p_(tokens.size()),
        q_(tokens.size()) {
    check_shapes();
    detail::check_tokens("tokens", tokens_, known_ids());
    look_up(use == detail::DraftRows::needed);
  }
  /// Rows and tokens must outlive it: temporaries that own theirs are refused.
  template <class TargetRows, class DraftRows, class Tokens, class... Use>
    requires(detail::OwningTemporary<TargetRows> || detail::OwningTemporary<DraftRows> ||
             detail::OwningTemporary<Tokens>)
  Drafted(TargetRows&&, DraftRows&&, Tokens&&, Use...) = delete;

  Index gamma() const { return tokens_.size(); }
  /// The target's.
  Index vocab_size() const { return target_.matrix().vocab_size(); }
  Token token(Index i) const {
    check_index(i, gamma());
    return token_at(i);
  }

  double p(Index i) const {
    check_index(i, gamma());
    if (!detail::is_probability(p_[i])) p_[i] = specdec::probability(row("target", target_, i), token_at(i));
    return p_[i];
  }
  double q(Index i) const {
    check_index(i, gamma());
    if (!drawn(q_[i])) look_up_drawn(i);
    return q_[i];
  }
  double ratio(Index i) const { return detail::bounded(p(i) / q(i)); }

  template <class Chance>
  std::optional<Token> race(Chance& chance, double w, Index i) const {
    const auto p = target(i);
    return p.named([&] { return i == gamma() ? chance.race(w, p) : chance.race(w, p, draft(i)); });
  }
  template <class Chance>
  Token draw(Chance& chance, Index i) const {
    const auto p = target(i);
    return p.named([&] { return chance.draw(p); });
  }

  auto target(Index i) const& {
    check_index(i, gamma() + 1);
    return row("target", target_, i);
  }
  auto draft(Index i) const& {
    check_index(i, gamma());
    return row("draft", draft_, i);
  }
  /// The rows of a temporary would be gone with it.
  void target(Index i) const&& = delete;
  void draft(Index i) const&& = delete;

  void look_up_all() const {
    if (all_looked_up_) return;
    for (Index i = 0; i < gamma(); ++i)
      if (q(i), p(i) == 0) break;
    all_looked_up_ = true;
  }

  /// Whether p and q of all tokens, up to one that the target rules out, have been looked up, whatever came of it.
  bool all_looked_up() const { return all_looked_up_; }

  /// p and q of token i where both have been looked up and are probabilities with q > 0. Looks at no row: what
  /// statistics may use at no cost.
  std::optional<std::pair<double, double>> looked_up(Index i) const {
    check_index(i, gamma());
    if (!detail::is_probability(p_[i]) || !drawn(q_[i])) return {};
    return std::pair(p_[i], q_[i]);
  }

 private:
  static constexpr double unknown = -1;

  template <class Rows>
  static auto row(const char* name, const Rows& rows, Index i) {
    return detail::NamedRow(rows[i], name, i);
  }

  Token token_at(Index i) const { return static_cast<Token>(tokens_[i]); }

  static void check_index(Index i, Index end) {
    if (i < 0 || i >= end)
      detail::invalid_argument("a rule asks for number ", i, ", outside 0..", end - 1, " of the draft");
  }

  void check_shapes() const {
    if (vocab_size() < 1) detail::invalid_argument("target has an empty vocabulary");
    if (draft_.matrix().rows() != gamma())
      detail::invalid_argument("draft has ", draft_.matrix().rows(), " rows, expected gamma = ", gamma(),
                               ", one per token");
    if (target_.matrix().rows() != gamma() + 1)
      detail::invalid_argument("target has ", target_.matrix().rows(),
                               " rows, expected gamma + 1 = ", gamma() + 1);
  }

  // Ids that the drafter alone knows are judged, and rejected, by probability 0. To drop them from the draft
  // instead would look at the outcome of a draw and bias the text.
  Index known_ids() const {
    if constexpr (SizedDistributionMatrix<Draft>)
      return std::max<Index>(vocab_size(), draft_.matrix().vocab_size());
    else return vocab_size();
  }

  // All that costs no pass. A drafted token cannot have been drawn from a row that gives it no probability: to
  // accept it, or to guess a q for it, would bias the output.
  void look_up(bool needs_draft) {
    constexpr bool q_now = detail::cheap_look_ups<Draft>;
    for (Index i = 0; i < gamma(); ++i) {  // so that the cache misses of the look-ups overlap
      if constexpr (constant_time_probability<RowOf<Draft>>) prefetch(draft_.matrix().row(i), token_at(i));
      if constexpr (constant_time_probability<RowOf<Target>>) prefetch(target_.matrix().row(i), token_at(i));
    }
    look_up("draft", draft_, q_);
    look_up("target", target_, p_);
    for (Index i = 0; needs_draft && i < gamma(); ++i)
      if (q_now ? !drawn(q_[i]) : !draft(i).possible(token_at(i)))
        look_up_drawn(i);  // throws, and tells NaN from 0
  }

  // Unchecked: a number that is none is an error where it is asked for.
  template <class Rows>
  void look_up(const char* name, const Rows& rows, detail::Scratch& out) const {
    using Matrix = std::remove_cvref_t<decltype(rows.matrix())>;
    if constexpr (!detail::cheap_look_ups<Matrix>) {
      std::fill_n(out.data(), gamma(), unknown);
    } else if constexpr (detail::LooksUpTogether<Matrix>) {
      rows.matrix().probabilities(tokens_, std::span<double>(out.data(), static_cast<std::size_t>(gamma())));
    } else {
      for (Index i = 0; i < gamma(); ++i) {
        const auto here = rows.matrix().row(i);
        out[i] =
            detail::NamedRow(here, name, i).named([&] { return specdec::probability(here, token_at(i)); });
      }
    }
  }

  // Whether a token with this q can have been drawn.
  static bool drawn(double q) { return q > 0 && detail::is_probability(q); }

  void look_up_drawn(Index i) const {
    if (q_[i] != 0) q_[i] = specdec::probability(draft(i), token_at(i));
    if (q_[i] == 0)
      detail::invalid_argument("tokens[", i, "] = ", token_at(i), " has probability 0 in draft row ", i,
                               ", so it was not drawn from it");
  }

  detail::RowCache<Target> target_;
  detail::RowCache<Draft> draft_;
  TokenIds tokens_;
  mutable detail::Scratch p_, q_;  // of the tokens; no probability where it is unknown
  mutable bool all_looked_up_ = detail::cheap_look_ups<Target> && detail::cheap_look_ups<Draft>;
};

template <Probabilities Target, Probabilities Draft, class... Use>
Drafted(const Target&, const Draft&, TokenIds, Use...)
    -> Drafted<decltype(distributions(std::declval<const Target&>())),
               decltype(distributions(std::declval<const Draft&>()))>;

}  // namespace specdec
