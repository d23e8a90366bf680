// Trunk and spares: any rule for linear drafts on a tree, by its own look-ups and draws.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/verify/tree_verifier.hpp"

namespace specdec {
namespace detail {

/// How many tokens there are behind a node, from eldest child to eldest child.
template <class D>
Index trunk_length(const D& tree, Index node) {
  Index tokens = 0;
  for (Index k = tree.first_child(node); k >= 0; k = tree.first_child(k + 1)) ++tokens;
  return tokens;
}

/// The linear draft that begins behind a node of a tree and goes on with the eldest child: a Drafted for rules, whose
/// rows and numbers are the tree's. Refers to it.
template <class D>
class Trunk {
 public:
  Trunk(const D& tree, Index node) : tree_(tree), gamma_(trunk_length(tree, node)), nodes_(gamma_ + 1) {
    for (Index i = 0; i <= gamma_; ++i) {
      nodes_[i] = node;
      node = tree.first_child(node) + 1;
    }
  }

  Index gamma() const { return gamma_; }
  Index vocab_size() const { return tree_.vocab_size(); }
  /// The tree's number of the node behind i tokens.
  Index node(Index i) const {
    check_index(i, gamma_ + 1);
    return nodes_[i];
  }

  /// Behind the context, not the trunk's first node.
  Index depth(Index i) const { return tree_.depth(node(i)); }

  Token token(Index i) const { return tree_.token(number(i)); }
  double p(Index i) const { return tree_.p(number(i)); }
  double q(Index i) const { return tree_.q(number(i)); }
  double ratio(Index i) const { return tree_.ratio(number(i)); }
  auto target(Index i) const { return tree_.target(node(i)); }
  auto draft(Index i) const { return tree_.draft(number(i)); }

  std::optional<Token> race(auto& chance, double w, Index i) const {
    const auto p = target(i);
    return p.named([&] { return i == gamma_ ? chance.race(w, p) : chance.race(w, p, draft(i)); });
  }
  Token draw(auto& chance, Index i) const { return tree_.draw(chance, node(i)); }

  void look_up_all() const {
    for (Index i = 0; i < gamma_; ++i)
      if (q(i), p(i) == 0) break;
  }
  bool all_looked_up() const { return tree_.all_looked_up(); }
  auto looked_up(Index i) const { return tree_.looked_up(number(i)); }

 private:
  Index number(Index i) const {
    check_index(i, gamma_);
    return nodes_[i + 1] - 1;
  }
  static void check_index(Index i, Index end) {
    if (i < 0 || i >= end)
      invalid_argument("a rule asks for number ", i, ", outside 0..", end - 1, " of the draft");
  }

  const D& tree_;
  Index gamma_;
  ScratchOf<Index> nodes_;
};

}  // namespace detail

/// Verifies a tree by a rule for linear drafts. The eldest children are the trunk, which the rule judges; all others are
/// spares. Where the rule stops with a Y that is a spare there, the same target call holds the rows behind it, and what
/// comes next is the next step of the loop, judged on the spare's own trunk, and so on. Lossless where the rule is: a
/// loop in which some steps find their rows made already. For that a spare may be there for any reason, be it chosen or
/// drawn; but what follows a spare is to be drafted from the rows behind it, as anything is.
///
///   TrunkAndSpares<BlockVerifier>         the best rule for linear drafts, for one more look-up a stop
///   TrunkAndSpares<SampleMatchVerifier>   sample-and-match on a tree: down to the child that holds the target's own draw.
///                                         It is optimal for trees of chosen tokens
///   TrunkAndSpares<KeyedVerifier>         the same, and the text of a seed is the one without a draft
///   TrunkAndSpares<ArgmaxVerifier>        greedy decoding (T = 0) on a tree, token for token
///
/// A tree without branches gets the very verdict of the rule. A rule that remembers its sequence takes a step for each
/// trunk, and stops where the next one is shorter than it needs (TreeLimits::trunk tells a drafter). What greedy block
/// verification asks of a drafter it asks of every trunk: rows that depend on the context alone, so drawn tokens, and as
/// many as min_draft_length() says.
/// Shapes, Throws: see verify_tree; and what the rule throws. What it remembers is then as it was.
/// Random, Cost: those of the rule, for each trunk that is come to. No allocation but the rule's (γ <= 64).
template <class V>
class TrunkAndSpares : public detail::TreeCallable<TrunkAndSpares<V>> {
  static_assert(Verifier<V>, "TrunkAndSpares takes a rule for linear drafts: see specdec::Verifier");
  // Its judge() may change it.
  static constexpr bool remembers =
      detail::Remembers<V> ||
      !requires(const V& rule,
                const Drafted<DenseRows<RowPointers<double>>, DenseRows<RowPointers<double>>>& drafted,
                RandomChance<SplitMix64>& chance) { rule.judge(drafted, chance); };

 public:
  static constexpr bool draws_from_target = specdec::draws_from_target<V>;
  static constexpr bool needs_draft = specdec::needs_draft<V>;
  static constexpr bool draws_keyed = specdec::draws_keyed<V>;

  TrunkAndSpares()
    requires std::default_initializable<V>
  = default;
  explicit TrunkAndSpares(const V& rule) : rule_(rule), next_(rule) {}

  using detail::TreeCallable<TrunkAndSpares>::operator();
  /// Of a rule that asks for no draft's rows.
  template <Probabilities Target, RandomSource Source>
    requires(!needs_draft && !remembers)
  TreeVerdict operator()(const Target& target, TokenIds tokens, TokenIds parents, Source& source) const {
    return verify_tree(*this, target, OneHotRows(tokens), tokens, parents, source);
  }

  /// The rule, with what it remembers of its sequence.
  const V& rule() const& { return rule_; }
  const V& rule() const&& = delete;

  Index min_draft_length() const
    requires remembers_sequence<V>
  {
    return specdec::min_draft_length(rule_);
  }

  Stop judge(const auto& drafted, auto& chance)
    requires remembers
  {
    next_ = rule_;
    return judge_by(next_, drafted, chance);
  }
  Stop judge(const auto& drafted, auto& chance) const
    requires(!remembers)
  {
    V rule = rule_;
    return judge_by(rule, drafted, chance);
  }

  /// What the rule remembers of the last verdict is live from here on.
  void commit()
    requires remembers
  {
    std::swap(rule_, next_);
  }

  friend bool operator==(const TrunkAndSpares& a, const TrunkAndSpares& b)
    requires std::equality_comparable<V>
  {
    return a.rule_ == b.rule_;
  }

 private:
  static Stop judge_by(V& rule, const auto& drafted, auto& chance) {
    for (Index node = 0;;) {
      const detail::Trunk trunk(drafted, node);
      const Verdict verdict = detail::judge(rule, trunk, chance, drafted.vocab_size());
      detail::commit(rule);
      node = trunk.node(verdict.accepted);
      const Index spare = spare_of(drafted, node, verdict.token);
      if (spare < 0 || detail::trunk_length(drafted, spare + 1) < specdec::min_draft_length(rule))
        return {node, verdict.token};
      node = spare + 1;
    }
  }

  // The eldest child is none: what lies behind it has been judged, and is no fresh draft.
  static Index spare_of(const auto& drafted, Index node, Token token) {
    Index k = drafted.first_child(node);
    while (k >= 0 && (k = drafted.next_sibling(k)) >= 0 && drafted.token(k) != token) {
    }
    return k;
  }

  V rule_;
  V next_;  // the rule in the middle of a verdict
};

}  // namespace specdec
