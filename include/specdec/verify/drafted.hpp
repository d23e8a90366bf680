// The drafted block: everything that a rule judges, checked once.
#pragma once

#include <algorithm>
#include <concepts>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/row_cache.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/links.hpp"

namespace specdec {
namespace detail {

/// Weights and ratios are kept below this, so that products with them stay finite even where q is subnormal.
inline constexpr double largest_weight = 1e300;

inline double bounded(double weight) { return std::min(weight, largest_weight); }

/// Whether the probabilities of tokens, one a row, can be had without reading a row: all at once where the matrix offers
/// that, else one by one.
template <class M>
inline constexpr bool looks_up_together =
    requires(const M& matrix, TokenIds tokens, std::span<double> out) { matrix.probabilities(tokens, out); };
template <class M>
inline constexpr bool cheap_look_ups = looks_up_together<M> || constant_time_probability<RowOf<M>>;

/// What a rule makes of q: whether a drafted token without any is an error.
enum class DraftRows { needed, unused };

/// The tokens and rows of one verification, and what has been looked up in them.
template <class Target, class Draft>
struct DraftedRows {
  DraftedRows(const Target& t, const Draft& d, TokenIds ids, bool known)
      : target(t), draft(d), tokens(ids), p(ids.size()), q(ids.size()), all_looked_up(known) {}

  RowCache<Target> target;
  RowCache<Draft> draft;
  TokenIds tokens;
  mutable Scratch p, q;  // of the tokens; no probability where it is unknown
  mutable bool all_looked_up;
};

}  // namespace detail

/// γ drafted tokens, the rows of the draft model that they were drawn from and the rows of the target that they
/// are judged by. A rule asks it, and nothing else:
///
///   gamma()             how many tokens were drafted
///   token(i)            token i; it was drawn from draft row i. In a linear draft it is judged by target row i
///   p(i), q(i)          its probability in the target row that it is judged by and in draft row i
///   ratio(i)            p(i)/q(i), kept finite
///   race(chance, w, i)  of a linear draft: a token ∝ (w·target row i − draft row i)+, of mass S, with probability
///                       S/(S + 1 − w), else nothing; certain at w = 1. At i = γ, where
///                       there is no draft row, a token of the target row with probability min(1, w)
///   draw(chance, i)     a token from target row i, i <= γ, at the place that is depth(i) tokens after the context
///   depth(i)            how many drafted tokens target row i has before it: i, in a linear draft
///   target(i), draft(i) the rows themselves
///   look_up_all()       has p and q of all tokens known, up to one that the target rules out: for rules that judge a
///                       draft as a whole. Costs nothing where look-ups are cheap; elsewhere the statistics tell
///                       acceptance only of such rules
///
/// Tokens may branch. Target row 0 stands after the context, row k + 1 after token k, and so do the nodes of the tree;
/// draft row k is what token k was drawn from given its elder siblings. Rules for trees ask as well
///
///   parent(k)           the token that token k follows; −1 for the context
///   first_child(node)   the first token that follows the context (node 0) or token node − 1; −1 if none does
///   next_sibling(k)     the next token with token k's parent; −1 if there is none
///
/// A linear draft is the tree without branches, of which token k's parent is k − 1. The tokens from eldest child to eldest
/// child after a node are a linear draft, too: Drafted(tree, node) refers to the tree, shares what is looked up, and
/// row(i) says which row of the tree its row i is.
///
/// Shapes: target (γ+1)×V, draft γ×V', γ tokens and, for a tree, γ parents; γ >= 0, V >= 1. Ids that the drafter alone
/// knows are judged like any other: the target gives them probability 0.
/// Throws: std::invalid_argument, before a rule is asked, on wrong shapes, ids that neither side knows and
/// tokens with q = 0, which cannot have been drawn (where a look-up takes a pass over a row, as it does in rows
/// of logits, it is found when q(i) is asked for, unless the token's own logit tells); on a parent that is not before
/// its child and on siblings that were chosen (q = 1) and are one token; on an index out of range;
/// InvalidDistribution where a number that is asked for is no probability.
/// Cost: the p and q of all tokens are looked up at once, and once; where that takes passes, as they are asked
/// for. No allocation for γ <= 64. Rows are made when they are first needed and keep what they learn.
template <DistributionMatrix Target, DistributionMatrix Draft, class Links = detail::LineLinks>
class Drafted {
  static_assert(has_vocab_size<Target>,
                "the target's rows tell no size of the vocabulary: a target matrix needs vocab_size()");
  static constexpr bool linear = Links::linear, of_a_tree = std::same_as<Links, detail::TrunkLinks>;
  using Rows = detail::DraftedRows<Target, Draft>;
  template <DistributionMatrix, DistributionMatrix, class>
  friend class Drafted;

 public:
  template <Probabilities TargetRows, Probabilities DraftRows>
  Drafted(const TargetRows& target, const DraftRows& draft, TokenIds tokens,
          detail::DraftRows use = detail::DraftRows::needed)
    requires(linear && !of_a_tree)
      : rows_(distributions(target), distributions(draft), tokens, p_now && q_now), links_(tokens.size()) {
    check(use);
  }
  /// A tree: tokens[k] follows tokens[parents[k]], or the context where parents[k] = −1.
  template <Probabilities TargetRows, Probabilities DraftRows>
  Drafted(const TargetRows& target, const DraftRows& draft, TokenIds tokens, TokenIds parents,
          detail::DraftRows use = detail::DraftRows::needed)
    requires(!linear)
      : rows_(distributions(target), distributions(draft), tokens, p_now && q_now),
        links_(parents, tokens.size()) {
    check(use);
    if (use == detail::DraftRows::needed) check_chosen();
  }
  /// The trunk of a tree after one of its nodes.
  template <class TreeLinks>
  Drafted(const Drafted<Target, Draft, TreeLinks>& tree, Index node)
    requires(of_a_tree)
      : rows_(tree.rows_), links_(tree, node) {}
  /// Rows, tokens and parents must outlive it: temporaries that own theirs are refused.
  template <class TargetRows, class DraftRows, class Tokens, class... More>
    requires(detail::OwningTemporary<TargetRows> || detail::OwningTemporary<DraftRows> ||
             detail::OwningTemporary<Tokens> || (detail::OwningTemporary<More> || ...))
  Drafted(TargetRows&&, DraftRows&&, Tokens&&, More&&...) = delete;

  Index gamma() const { return links_.gamma(); }
  /// The target's.
  Index vocab_size() const { return rows_.target.matrix().vocab_size(); }
  Token token(Index i) const {
    check_index(i, gamma());
    return token_at(links_.number(i));
  }

  Index depth(Index i) const {
    check_index(i, gamma() + 1);
    return links_.depth(i);
  }
  Index row(Index i) const {
    check_index(i, gamma() + 1);
    return links_.row(i);
  }

  Index parent(Index k) const {
    check_index(k, gamma());
    return links_.parent(k);
  }
  Index first_child(Index node) const {
    check_index(node, gamma() + 1);
    return links_.first_child(node);
  }
  Index next_sibling(Index k) const {
    check_index(k, gamma());
    return links_.next_sibling(k);
  }

  double p(Index i) const {
    check_index(i, gamma());
    const Index k = links_.number(i);
    if (!detail::is_probability(rows_.p[k]))
      rows_.p[k] = specdec::probability(named("target", rows_.target, links_.judged_by(i)), token_at(k));
    return rows_.p[k];
  }
  double q(Index i) const {
    check_index(i, gamma());
    const Index k = links_.number(i);
    if (!drawn(rows_.q[k])) look_up_drawn(k);
    return rows_.q[k];
  }
  double ratio(Index i) const { return detail::bounded(p(i) / q(i)); }

  template <class Chance>
  std::optional<Token> race(Chance& chance, double w, Index i) const {
    static_assert(linear, "what a race in a tree subtracts depends on the siblings that were judged before");
    const auto p = target(i);
    return p.named([&] { return i == gamma() ? chance.race(w, p) : chance.race(w, p, draft(i)); });
  }
  template <class Chance>
  Token draw(Chance& chance, Index i) const {
    const auto p = target(i);
    return p.named([&] { return chance.draw(p, links_.depth(i)); });
  }

  auto target(Index i) const& {
    check_index(i, gamma() + 1);
    return named("target", rows_.target, links_.row(i));
  }
  auto draft(Index i) const& {
    check_index(i, gamma());
    return named("draft", rows_.draft, links_.number(i));
  }
  /// The rows of a temporary would be gone with it.
  void target(Index i) const&& = delete;
  void draft(Index i) const&& = delete;

  void look_up_all() const {
    if (rows_.all_looked_up) return;
    for (Index i = 0; i < gamma(); ++i)
      if (q(i), p(i) == 0 && linear) break;
    if constexpr (!of_a_tree) rows_.all_looked_up = true;
  }

  /// Whether p and q of all tokens, up to one that the target rules out, have been looked up, whatever came of it.
  bool all_looked_up() const { return rows_.all_looked_up; }

  /// Whether p and q of token i have both been looked up and are probabilities with q > 0, so that statistics may use them at
  /// no cost. Looks at no row.
  bool looked_up(Index i) const {
    check_index(i, gamma());
    const Index k = links_.number(i);
    return detail::is_probability(rows_.p[k]) && drawn(rows_.q[k]);
  }

 private:
  static constexpr double unknown = -1;
  // Matrices that look up together do so for token i in row i, which in a tree is not the target's.
  static constexpr bool p_now =
      linear ? detail::cheap_look_ups<Target> : constant_time_probability<RowOf<Target>>;
  static constexpr bool q_now = detail::cheap_look_ups<Draft>;

  template <class Cache>
  static auto named(const char* name, const Cache& rows, Index i) {
    return detail::NamedRow(rows[i], name, i);
  }

  Token token_at(Index k) const { return static_cast<Token>(rows_.tokens[k]); }

  static void check_index(Index i, Index end) {
    if (i < 0 || i >= end)
      detail::invalid_argument("a rule asks for number ", i, ", outside 0..", end - 1, " of the draft");
  }

  void check(detail::DraftRows use) {
    check_shapes();
    detail::check_tokens("tokens", rows_.tokens, known_ids());
    look_up(use == detail::DraftRows::needed);
  }

  void check_shapes() const {
    if (vocab_size() < 1) detail::invalid_argument("target has an empty vocabulary");
    const Index drafts = rows_.draft.matrix().rows(), targets = rows_.target.matrix().rows();
    if (drafts != gamma())
      detail::invalid_argument("draft has ", drafts, " rows, expected gamma = ", gamma(), ", one per token");
    if (targets == gamma() + 1) return;
    if (!linear && targets > 0 && targets <= gamma())
      detail::invalid_argument("target has ", targets, " rows, expected gamma + 1 = ", gamma() + 1,
                               ": the one after tokens[", targets - 1, "] is missing");
    detail::invalid_argument("target has ", targets, " rows, expected gamma + 1 = ", gamma() + 1);
  }

  // Of siblings that were chosen the second of two equal ones could never come out: a mistake of the drafter. Nor could
  // that of two draws from a row that gives one token all its probability. O(siblings²).
  void check_chosen() const {
    const auto chosen = [&](Index k) { return rows_.q[k] == 1; };
    for (Index k = 0; k < gamma(); ++k)
      for (Index next = links_.next_sibling(k); chosen(k) && next >= 0; next = links_.next_sibling(next))
        if (chosen(next) && token_at(next) == token_at(k))
          detail::invalid_argument("tokens[", next, "] = ", token_at(next),
                                   " has q = 1, and so has its sibling tokens[", k,
                                   "], the same token: leave out what cannot come out");
  }

  // Ids that the drafter alone knows are judged, and rejected, by probability 0. To drop them from the draft
  // instead would look at the outcome of a draw and bias the text.
  Index known_ids() const {
    if constexpr (has_vocab_size<Draft>)
      return std::max<Index>(vocab_size(), rows_.draft.matrix().vocab_size());
    else return vocab_size();
  }

  // All that costs no pass. A drafted token cannot have been drawn from a row that gives it no probability: to
  // accept it, or to guess a q for it, would bias the output.
  void look_up(bool needs_draft) {
    for (Index i = 0; i < gamma(); ++i) {  // so that the cache misses of the look-ups overlap
      if constexpr (constant_time_probability<RowOf<Draft>>)
        prefetch(rows_.draft.matrix().row(i), token_at(i));
      if constexpr (constant_time_probability<RowOf<Target>>)
        prefetch(rows_.target.matrix().row(links_.judged_by(i)), token_at(i));
    }
    look_up<q_now, true>("draft", rows_.draft, rows_.q, [](Index i) { return i; });
    look_up<p_now, linear>("target", rows_.target, rows_.p, [this](Index i) { return links_.judged_by(i); });
    for (Index i = 0; needs_draft && i < gamma(); ++i)
      if (q_now ? !drawn(rows_.q[i]) : !draft(i).possible(token_at(i)))
        look_up_drawn(i);  // throws, and tells NaN from 0
  }

  // Token i in row row_of(i), which is i where rows are asked `in_order`. Unchecked: a number that is none is an error
  // where it is asked for.
  template <bool now, bool in_order, class Cache, class RowNumber>
  void look_up(const char* name, const Cache& rows, detail::Scratch& out, const RowNumber& row_of) const {
    using Matrix = std::remove_cvref_t<decltype(rows.matrix())>;
    if constexpr (!now) {
      std::fill_n(out.data(), gamma(), unknown);
    } else if constexpr (in_order && detail::looks_up_together<Matrix>) {
      rows.matrix().probabilities(rows_.tokens,
                                  std::span<double>(out.data(), static_cast<std::size_t>(gamma())));
    } else {
      for (Index i = 0; i < gamma(); ++i) {
        const Index number = row_of(i);
        const auto here = rows.matrix().row(number);
        out[i] = detail::NamedRow(here, name, number).named([&] {
          return specdec::probability(here, token_at(i));
        });
      }
    }
  }

  // Whether a token with this q can have been drawn.
  static bool drawn(double q) { return q > 0 && detail::is_probability(q); }

  void look_up_drawn(Index k) const {
    double& known = rows_.q[k];
    if (known != 0) known = specdec::probability(named("draft", rows_.draft, k), token_at(k));
    if (known != 0) return;
    if constexpr (ListedRow<RowOf<Draft>>) {  // one that is out of order hides its tokens
      const auto q = named("draft", rows_.draft, k);
      q.named([&] { detail::check_list(q); });
    }
    detail::invalid_argument("tokens[", k, "] = ", token_at(k), " has probability 0 in draft row ", k,
                             ", so it was not drawn from it");
  }

  std::conditional_t<of_a_tree, const Rows&, Rows> rows_;
  Links links_;
};

template <Probabilities Target, Probabilities Draft>
Drafted(const Target&, const Draft&, TokenIds)
    -> Drafted<decltype(distributions(std::declval<const Target&>())),
               decltype(distributions(std::declval<const Draft&>()))>;

template <Probabilities Target, Probabilities Draft>
Drafted(const Target&, const Draft&, TokenIds, detail::DraftRows)
    -> Drafted<decltype(distributions(std::declval<const Target&>())),
               decltype(distributions(std::declval<const Draft&>()))>;

template <Probabilities Target, Probabilities Draft, class... Use>
Drafted(const Target&, const Draft&, TokenIds, TokenIds, Use...)
    -> Drafted<decltype(distributions(std::declval<const Target&>())),
               decltype(distributions(std::declval<const Draft&>())), detail::TreeLinks>;

template <class Target, class Draft, class Links>
Drafted(const Drafted<Target, Draft, Links>&, Index) -> Drafted<Target, Draft, detail::TrunkLinks>;

}  // namespace specdec
