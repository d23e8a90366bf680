// A draft with its rows: everything that a rule judges, checked once.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>

#include "specdec/chance/race_rounds.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/rows/read/sum_check.hpp"
#include "specdec/rows/row_cache.hpp"
#include "specdec/token_ids.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Whether the matrix returns the probabilities of tokens without a pass over a row, in one call or one by one.
template <class M>
inline constexpr bool cheap_look_ups = looks_up_together<M> || constant_time_probability<RowOf<M>>;

/// Whether the rule needs q. Only then a drafted token with q = 0 is an error.
enum class DraftRows { needed, unused };

/// The links of a linear draft: token k follows token k − 1; token 0 follows the context. TreeLinks (drafted_tree.hpp) link
/// a tree. judged_by(k) is the target row that judges token k; all else is told in Drafted.
class LineLinks {
 public:
  static constexpr bool linear = true;

  explicit LineLinks(Index tokens) : tokens_(tokens) {}
  Index gamma() const { return tokens_; }
  Index judged_by(Index i) const { return i; }
  Index depth(Index i) const { return i; }
  Index parent(Index k) const { return k - 1; }
  Index first_child(Index node) const { return node < tokens_ ? node : -1; }
  Index next_sibling(Index) const { return -1; }

 private:
  Index tokens_;
};

}  // namespace detail

/// γ drafted tokens, the draft rows that they were drawn from, and the target rows that judge them: all that a rule reads.
///
///   gamma()             how many tokens were drafted
///   token(i)            token i; it was drawn from draft row i. In a linear draft, target row i judges it
///   p(i), q(i)          the probability of token i in the target row that judges it, and in draft row i
///   ratio(i)            p(i)/q(i), kept finite
///   race(chance, w, i)  linear drafts only: a race of weight w (race.hpp) between target row i and draft row i. Returns the
///                       winner, or nothing if the race is lost; at w = 1 it is never lost. At i = γ there is no draft row:
///                       a token of the target row with probability min(1, w), else nothing
///   draw(chance, i)     a token from target row i, i <= γ, for the place depth(i) tokens after the context
///   depth(i)            how many drafted tokens stand before target row i; i in a linear draft
///   argmax(i)           the most probable token of target row i, the lowest id among equals
///   target(i), draft(i) the rows themselves. An error about a row, or about what is computed from it, names the row
///   look_up_all()       looks up p and q of all tokens, up to one that the target rules out. For rules that judge a draft
///                       as a whole. Free where look-ups are cheap. If a look-up needs a pass over the row (logits), there
///                       are statistics of acceptance only for rules that call this
///   scratch()           γ+1 numbers (double) for the rule's own use, not initialised
///   refuse_unless(holds, ...)
///                       throws InvalidArgument with the words that follow unless `holds`: for what the rule cannot judge
///
/// A draft may be a tree. Node 0 is the context, node k + 1 stands after token k; target row i belongs to node i. Draft
/// row k is the distribution of token k given its elder siblings. Rules for trees also use
///
///   parent(k)           the token that token k follows; −1 for the context
///   first_child(node)   the first token after the node; −1 if there is none
///   next_sibling(k)     the next token with token k's parent; −1 if there is none
///
/// A linear draft is a tree without branches: token k's parent is k − 1. A DraftedTrunk is a line of a tree.
/// Shapes: target (γ+1)×V, draft γ×V', γ tokens and, for a tree, γ parents; γ >= 0, V >= 1. A token that only the draft's
/// vocabulary has gets the target probability 0. The loop gives fewer target rows where a token ends the text (OfferedDraft),
/// and then the number of each node's row in rows_of_nodes.
/// Throws: InvalidArgument, before the rule runs, on wrong shapes, on ids outside both vocabularies, on tokens that
/// cannot have been drawn (q = 0), on a parent that is not before its child, and on equal siblings that were both chosen
/// (q = 1). If a look-up needs a pass over the row, q = 0 is found later, when q(i) is asked for, unless the token's logit
/// shows it. Now and then, as check_every() says: InvalidDistribution if a row does not sum to 1. Later: InvalidArgument on an
/// index out of range; InvalidDistribution if a number that is asked for is no probability, or if a row cannot be drawn from.
/// Cost: p and q of all tokens are looked up once, at the start; where a look-up needs a pass, on demand. Rows are made on
/// first use, and cache their results. No allocation for γ <= 64.
template <DistributionMatrix Target, DistributionMatrix Draft, class Links = detail::LineLinks>
class Drafted {
  static_assert(has_vocab_size<Target>,
                "the target's rows tell no size of the vocabulary: a target matrix needs vocab_size()");
  static constexpr bool linear = Links::linear;

 public:
  template <Probabilities TargetRows, Probabilities DraftRows>
  Drafted(const TargetRows& target, const DraftRows& draft, TokenIds tokens,
          detail::DraftRows use = detail::DraftRows::needed, std::span<const Index> rows_of_nodes = {})
    requires(linear)
      : Drafted(GivenDraft{distributions(target), distributions(draft), tokens, rows_of_nodes, use}) {}
  /// A tree: tokens[k] follows tokens[parents[k]], or the context if parents[k] = −1.
  template <Probabilities TargetRows, Probabilities DraftRows>
  Drafted(const TargetRows& target, const DraftRows& draft, TokenIds tokens, TokenIds parents,
          detail::DraftRows use = detail::DraftRows::needed, std::span<const Index> rows_of_nodes = {})
    requires(!linear)
      : Drafted(GivenDraft{distributions(target), distributions(draft), tokens, rows_of_nodes, use},
                parents) {
    if (use == detail::DraftRows::needed) check_chosen();
  }
  /// Rows, tokens and parents must outlive the Drafted: temporaries that own their data are refused.
  template <class TargetRows, class DraftRows, class Tokens, class... More>
    requires(detail::OwningTemporary<TargetRows> || detail::OwningTemporary<DraftRows> ||
             detail::OwningTemporary<Tokens> || (detail::OwningTemporary<More> || ...))
  Drafted(TargetRows&&, DraftRows&&, Tokens&&, More&&...) = delete;

  Index gamma() const { return links_.gamma(); }
  /// The size of the target's vocabulary.
  Index vocab_size() const { return target_.matrix().vocab_size(); }
  Token token(Index i) const {
    check_index(i, gamma());
    return token_at(i);
  }

  Index depth(Index i) const {
    check_index(i, gamma() + 1);
    return links_.depth(i);
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
    if (!detail::is_probability(p_[i]))
      p_[i] = specdec::probability(named("target", target_, row_of(links_.judged_by(i))), token_at(i));
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
    static_assert(linear, "what a race in a tree subtracts depends on the siblings that were judged before");
    const auto p = target(i);
    return i == gamma() ? chance.race(w, p) : chance.race(w, p, draft(i));
  }
  template <class Chance>
  Token draw(Chance& chance, Index i) const {
    return chance.draw(target(i), links_.depth(i));
  }

  Token argmax(Index i) const {
    const auto row = target(i);
    static_assert(ArgmaxRow<decltype(row)>, "the target's rows are no specdec::ArgmaxRow");
    return row.argmax();
  }

  auto target(Index i) const& {
    check_index(i, gamma() + 1);
    return named("target", target_, row_of(i));
  }
  auto draft(Index i) const& {
    check_index(i, gamma());
    return named("draft", draft_, i);
  }
  /// The rows of a temporary would dangle.
  void target(Index i) const&& = delete;
  void draft(Index i) const&& = delete;

  void look_up_all() const {
    if (all_looked_up_) return;
    for (Index i = 0; i < gamma(); ++i) {
      (void)q(i);
      if (p(i) == 0 && linear) break;
    }
    all_looked_up_ = true;
  }

  detail::Scratch scratch() const { return detail::Scratch(gamma() + 1); }

  /// Throws InvalidArgument with these words unless `holds`.
  template <class... Words>
  void refuse_unless(bool holds, const Words&... words) const {
    if (!holds) [[unlikely]]
      detail::invalid_argument(words...);
  }

  // For rules that take multiples of draft rows away from target rows.

  /// The probability of any token in target row i, and in draft row i.
  double p(Index i, Token x) const { return specdec::probability(target(i), x); }
  double q(Index i, Token x) const { return specdec::probability(draft(i), x); }

  /// The row (p − b·q)+ of target row i and draft row k, to be raced, drawn from, or asked for its mass(), which may be given.
  template <std::same_as<double>... Mass>
  auto residual(Index i, double b, Index k, Mass... mass) const& {
    const auto p = target(i);
    return ResidualRow(1.0, p, b, draft(k), mass...);
  }
  /// The rows of a temporary would dangle.
  void residual(const auto&...) const&& = delete;

  /// Whether p and q of all tokens, up to one that the target rules out, have been looked up. The values may be invalid.
  bool all_looked_up() const { return all_looked_up_; }

  /// Whether p and q of token i have been looked up and are valid, with q > 0: free for statistics. Reads no row.
  bool looked_up(Index i) const {
    check_index(i, gamma());
    return detail::is_probability(p_[i]) && drawn(q_[i]);
  }

 private:
  static constexpr double unknown = -1;
  // A matrix that looks up together reads token i in row i. In a tree, another target row judges token i.
  static constexpr bool p_now =
      linear ? detail::cheap_look_ups<Target> : constant_time_probability<RowOf<Target>>;
  static constexpr bool q_now = detail::cheap_look_ups<Draft>;

  // What a constructor is given, but for parents.
  struct GivenDraft {
    Target target;
    Draft draft;
    TokenIds tokens;
    std::span<const Index> rows_of_nodes;
    detail::DraftRows use;
  };
  template <class... Parents>
  explicit Drafted(const GivenDraft& of, Parents... parents)
      : target_(of.target),
        draft_(of.draft),
        tokens_(compared(of.tokens, of.target, of.draft)),
        rows_of_nodes_(of.rows_of_nodes),
        p_(tokens_.size()),
        q_(tokens_.size()),
        links_(parents..., tokens_.size()) {
    check_shapes();
    detail::check_tokens("tokens", tokens_, known_ids());
    look_up(of.use == detail::DraftRows::needed);
    if (detail::checks_sums()) [[unlikely]]
      detail::check_a_sum(target_.matrix(), draft_.matrix(), of.use == detail::DraftRows::needed);
  }

  // Before there is memory for all tokens: what is wrong may be their number.
  static TokenIds compared(TokenIds tokens, const Target& target, const Draft& draft) {
    if (const Index rows = draft.rows(), gamma = tokens.size(); rows != gamma)
      detail::invalid_argument(
          "draft has ", rows, " rows, expected gamma = ", gamma, ", one per token",
          rows == gamma + 1 && target.rows() == gamma ? ": are target and draft swapped?" : "");
    return tokens;
  }

  template <class Cache>
  static auto named(const char* name, const Cache& rows, Index i) {
    // A row may check itself as it is made.
    return detail::in_row(name, i, [&] { return detail::NamedRow(rows[i], name, i); });
  }

  // The target row of a node.
  Index row_of(Index node) const { return rows_of_nodes_.empty() ? node : detail::at(rows_of_nodes_, node); }
  // How many target rows there must be.
  Index wanted_rows() const {
    Index most = rows_of_nodes_.empty() ? gamma() : 0;
    for (const Index row : rows_of_nodes_) most = std::max(most, row);
    return most + 1;
  }

  Token token_at(Index k) const { return static_cast<Token>(tokens_[k]); }

  static void check_index(Index i, Index end) {
    if (i < 0 || i >= end)
      detail::invalid_argument("a rule asks for number ", i, ", outside 0..", end - 1, " of the draft");
  }

  void check_shapes() const {
    if (vocab_size() < 1) detail::invalid_argument("target has an empty vocabulary");
    const Index targets = target_.matrix().rows();
    if (targets == wanted_rows()) return;
    if (!rows_of_nodes_.empty())
      detail::invalid_argument("target has ", targets, " rows, expected ", wanted_rows());
    if (!linear && targets > 0 && targets <= gamma())
      detail::invalid_argument("target has ", targets, " rows, expected gamma + 1 = ", gamma() + 1,
                               ": the one after tokens[", targets - 1, "] is missing");
    detail::invalid_argument("target has ", targets, " rows, expected gamma + 1 = ", gamma() + 1);
  }

  // Of two equal siblings with q = 1 (chosen, or drawn from a one-hot row), the second can never be accepted. O(siblings²).
  void check_chosen() const {
    const auto chosen = [&](Index k) { return q_[k] == 1; };
    for (Index k = 0; k < gamma(); ++k)
      for (Index next = links_.next_sibling(k); chosen(k) && next >= 0; next = links_.next_sibling(next))
        if (chosen(next) && token_at(next) == token_at(k))
          detail::invalid_argument("tokens[", next, "] = ", token_at(next),
                                   " has q = 1, and so has its sibling tokens[", k,
                                   "], the same token: leave out what cannot come out");
  }

  // A token that only the draft's vocabulary has is judged with p = 0, and rejected. It cannot be dropped from the draft:
  // this would depend on the outcome of a draw, and bias the text.
  Index known_ids() const {
    if constexpr (has_vocab_size<Draft>) return std::max<Index>(vocab_size(), draft_.matrix().vocab_size());
    else return vocab_size();
  }

  // Looks up what can be looked up without a pass over a row. A token with q = 0 cannot have been drawn from its row:
  // accepting it, or guessing a q, would bias the output.
  void look_up(bool needs_draft) {
    for (Index i = 0; i < gamma(); ++i) {  // cache misses of the look-ups overlap
      if constexpr (constant_time_probability<RowOf<Draft>>) prefetch(draft_.matrix().row(i), token_at(i));
      if constexpr (constant_time_probability<RowOf<Target>>)
        prefetch(target_.matrix().row(row_of(links_.judged_by(i))), token_at(i));
    }
    look_up<q_now, true>("draft", draft_, q_, [](Index i) { return i; });
    look_up<p_now, linear>("target", target_, p_, [this](Index i) { return row_of(links_.judged_by(i)); });
    for (Index i = 0; needs_draft && i < gamma(); ++i)
      if (q_now ? !drawn(q_[i]) : !draft(i).possible(token_at(i)))
        look_up_drawn(i);  // throws, with different messages for NaN and 0
  }

  // Looks up token i in row row_of(i); `in_order` says that row_of(i) = i. The values are checked when a rule asks for them.
  template <bool now, bool in_order, class Cache, class RowNumber>
  void look_up(const char* name, const Cache& rows, detail::Scratch& out, const RowNumber& row_of) const {
    using Matrix = std::remove_cvref_t<decltype(rows.matrix())>;
    if constexpr (!now) {
      std::fill_n(out.data(), gamma(), unknown);
    } else if constexpr (in_order && detail::looks_up_together<Matrix>) {
      // Tokens after the end of the text share their rows, and are looked up on demand.
      const Index count = std::min<Index>(gamma(), rows.matrix().rows());
      std::fill_n(out.data() + count, gamma() - count, unknown);
      rows.matrix().probabilities(tokens_.segment(0, count),
                                  std::span<double>(out.data(), static_cast<std::size_t>(count)));
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
    double& known = q_[k];
    if (known != 0) known = specdec::probability(named("draft", draft_, k), token_at(k));
    if (known != 0) return;
    if constexpr (ListedRow<RowOf<Draft>>) {  // in an unsorted list a look-up misses tokens
      const auto q = named("draft", draft_, k);
      q.named([&] { detail::check_list(q); });
    }
    detail::invalid_argument("tokens[", k, "] = ", token_at(k), " has probability 0 in draft row ", k,
                             ", so it was not drawn from it");
  }

  detail::RowCache<Target> target_;
  detail::RowCache<Draft> draft_;
  TokenIds tokens_;
  std::span<const Index> rows_of_nodes_;
  mutable detail::Scratch p_, q_;  // of the tokens; outside [0, 1] where unknown
  mutable bool all_looked_up_ = p_now && q_now;
  Links links_;
};

template <Probabilities Target, Probabilities Draft>
Drafted(const Target&, const Draft&, TokenIds) -> Drafted<DistributionsOf<Target>, DistributionsOf<Draft>>;

template <Probabilities Target, Probabilities Draft, class... Nodes>
Drafted(const Target&, const Draft&, TokenIds, detail::DraftRows, Nodes...)
    -> Drafted<DistributionsOf<Target>, DistributionsOf<Draft>>;

}  // namespace specdec
