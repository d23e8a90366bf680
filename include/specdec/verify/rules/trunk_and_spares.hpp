// Trunk and spares: uses a rule for linear drafts on trees.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>

#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/rules/callable.hpp"
#include "specdec/verify/rules/drafted_trunk.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0 {

/// Verifies a tree by a rule for linear drafts. Lossless if the rule is lossless.
///
/// The trunk is the path of eldest children; all other tokens are spares. The rule judges the trunk, and stops with a token
/// Y. If a spare at this place equals Y, the target call already has the rows after the spare. The rule then judges the
/// trunk that begins after the spare, like the draft of a next step; and so on. So a spare may be any token, chosen or
/// drawn. But the tokens after a spare must be drafted from rows that follow the spare.
///
///   TrunkAndSpares<BlockVerifier>         the best rule for linear drafts, with one more look-up per stop
///   TrunkAndSpares<SampleMatchVerifier>   sample-and-match on a tree: follows the child that equals the target's own draw.
///                                         Optimal for trees of chosen tokens
///   TrunkAndSpares<KeyedVerifier>         sample-and-match with a Keyed: one seed gives one text, whatever is drafted
///   TrunkAndSpares<ArgmaxVerifier>        greedy decoding (T = 0) on a tree, with exactly its tokens
///
/// On a line the verdict is the rule's own. The rule must remember nothing: greedy block verification judges lines.
/// Shapes: see verify.
/// Throws: what verify and the rule throw.
/// Random: the rule's, for each trunk that is judged.
/// Cost: the rule's, for each trunk that is judged. Allocates nothing more (γ <= 64).
template <class V>
class TrunkAndSpares : public detail::Callable<TrunkAndSpares<V>, TokenIds> {
  static_assert(!remembers_sequence<V> && !detail::has_commit<V>,
                "TrunkAndSpares takes a rule that remembers nothing: a rule with a memory, such as greedy "
                "block verification, judges lines");

 public:
  static constexpr bool draws_from_target = specdec::draws_from_target<V>;
  static constexpr bool needs_draft = specdec::needs_draft<V>;
  static constexpr bool draws_keyed = specdec::draws_keyed<V>;
  static constexpr bool repeats_rejected = specdec::repeats_rejected<V>;

  TrunkAndSpares()
    requires std::default_initializable<V>
  = default;
  constexpr explicit TrunkAndSpares(const V& rule) : rule_(rule) {}

  constexpr const V& rule() const& { return rule_; }
  const V& rule() const&& = delete;

  constexpr NodeVerdict judge(const auto& drafted, auto& chance) const {
    for (Index node = 0;;) {
      const DraftedTrunk trunk(drafted, node);
      static_assert(
          requires {
            { rule_.judge(trunk, chance) } -> std::same_as<Verdict>;
          }, "TrunkAndSpares takes a rule for lines, with a judge() that is const: see specdec::Verifier");
      const Verdict verdict = rule_.judge(trunk, chance);
      node = trunk.row(verdict.accepted);
      const Index spare = spare_of(drafted, node, verdict.token);
      if (spare < 0) return {node, verdict.token};
      node = spare + 1;
    }
  }

  friend constexpr bool operator==(const TrunkAndSpares& a, const TrunkAndSpares& b)
    requires std::equality_comparable<V>
  {
    return a.rule_ == b.rule_;
  }

 private:
  // The spare after `node` that equals `token`, or −1. The eldest child is no spare: the trunk after it has been judged.
  static constexpr Index spare_of(const auto& drafted, Index node, Token token) {
    Index k = drafted.first_child(node);
    while (k >= 0 && (k = drafted.next_sibling(k)) >= 0 && drafted.token(k) != token) {
    }
    return k;
  }

  V rule_;
};

}  // namespace specdec
