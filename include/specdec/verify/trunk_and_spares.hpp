// Trunk and spares: any rule for linear drafts on a tree, by its own look-ups and draws.
#pragma once

#include <concepts>
#include <utility>

#include "specdec/verify/drafted.hpp"
#include "specdec/verify/links.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// Verifies a tree by a rule for linear drafts. The eldest children are the trunk, which the rule judges; all others are
/// spares. Where the rule stops with a Y that is a spare there, the same target call holds the rows after it, and what
/// comes next is the next step of the loop, judged on the spare's own trunk, and so on. Lossless where the rule is: a
/// loop in which some steps find their rows made already. For that a spare may be there for any reason, be it chosen or
/// drawn; but what follows a spare is to be drafted from the rows after it, as anything is.
///
///   TrunkAndSpares<BlockVerifier>         the best rule for linear drafts, for one more look-up a stop
///   TrunkAndSpares<SampleMatchVerifier>   sample-and-match on a tree: down to the child that holds the target's own draw.
///                                         It is optimal for trees of chosen tokens
///   TrunkAndSpares<KeyedVerifier>         the same, and the text of a seed is the one without a draft
///   TrunkAndSpares<ArgmaxVerifier>        greedy decoding (T = 0) on a tree, token for token
///
/// A tree without branches gets the very verdict of the rule. A rule that remembers its sequence takes a step for each
/// trunk, and stops where the next one is shorter than it needs (DraftLimits::trunk tells a drafter). What greedy block
/// verification asks of a drafter it asks of every trunk: rows that depend on the context alone, so drawn tokens, and as
/// many as min_draft_length() says.
/// Shapes, Throws: see verify; and what the rule throws. What it remembers is then as it was.
/// Random, Cost: those of the rule, for each trunk that is come to. No allocation but the rule's (γ <= 64).
template <class V>
class TrunkAndSpares : public detail::Callable<TrunkAndSpares<V>> {
  static_assert(Verifier<V> && !judges_trees<V>,
                "TrunkAndSpares takes a rule for lines: see specdec::Verifier");
  // Its judge() may change it.
  static constexpr bool remembers =
      detail::has_commit<V> ||
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

  /// The rule, with what it remembers of its sequence.
  const V& rule() const& { return rule_; }
  const V& rule() const&& = delete;

  Index min_draft_length() const
    requires remembers_sequence<V>
  {
    return specdec::min_draft_length(rule_);
  }

  NodeVerdict judge(const auto& drafted, auto& chance)
    requires remembers
  {
    next_ = rule_;
    return judge_by(next_, drafted, chance);
  }
  NodeVerdict judge(const auto& drafted, auto& chance) const
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
  static NodeVerdict judge_by(V& rule, const auto& drafted, auto& chance) {
    for (Index node = 0;;) {
      const Drafted trunk(drafted, node);
      const Verdict verdict = detail::judge(rule, trunk, chance, drafted.vocab_size());
      detail::commit(rule);
      node = trunk.row(verdict.accepted);
      const Index spare = spare_of(drafted, node, verdict.token);
      if (spare < 0 || detail::trunk_length(drafted, spare + 1) < specdec::min_draft_length(rule))
        return {node, verdict.token};
      node = spare + 1;
    }
  }

  // The eldest child is none: what follows it has been judged, and is no fresh draft.
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
