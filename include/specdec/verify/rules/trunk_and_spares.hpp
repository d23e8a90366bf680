// Trunk and spares: uses a rule for linear drafts on trees.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <optional>

#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/rules/callable.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0 {

/// The linear draft that begins after a node of a drafted tree and follows the eldest children. It answers what a rule for lines
/// asks of a Drafted; row(i) is the tree's number of its row i. It refers to the tree and shares the tree's look-ups.
/// Throws: what the tree throws; InvalidArgument on an index out of range.
/// Cost: one scratch() of the tree.
template <class Tree>
class DraftedTrunk {
 public:
  constexpr DraftedTrunk(const Tree& tree, Index node) : tree_(tree), rows_(tree.scratch()) {
    for (Index k = tree.first_child(node); k >= 0; k = tree.first_child(k + 1)) {
      rows_[gamma_++] = static_cast<double>(node);
      node = k + 1;
    }
    rows_[gamma_] = static_cast<double>(node);
  }
  DraftedTrunk(const Tree&&, Index) = delete;  // the reference would dangle

  constexpr Index gamma() const { return gamma_; }
  constexpr Index vocab_size() const { return tree_.vocab_size(); }
  constexpr Index row(Index i) const { return refuse_beyond(i, gamma_), static_cast<Index>(rows_[i]); }
  constexpr Index depth(Index i) const { return tree_.depth(row(i)); }
  constexpr Index parent(Index k) const { return refuse_beyond(k, gamma_ - 1), k - 1; }
  constexpr Index first_child(Index node) const {
    return refuse_beyond(node, gamma_), node < gamma_ ? node : -1;
  }
  constexpr Index next_sibling(Index k) const { return refuse_beyond(k, gamma_ - 1), Index{-1}; }

  constexpr Token token(Index k) const { return tree_.token(number(k)); }
  constexpr double p(Index k) const { return tree_.p(number(k)); }
  constexpr double q(Index k) const { return tree_.q(number(k)); }
  constexpr double ratio(Index k) const { return tree_.ratio(number(k)); }
  constexpr double p(Index i, Token x) const { return tree_.p(row(i), x); }
  constexpr double q(Index k, Token x) const { return tree_.q(number(k), x); }
  constexpr void look_up_all() const {
    for (Index k = 0; k < gamma_ && q(k) > 0 && p(k) > 0;) ++k;
  }

  constexpr auto target(Index i) const { return tree_.target(row(i)); }
  constexpr auto draft(Index k) const { return tree_.draft(number(k)); }
  constexpr Token argmax(Index i) const { return tree_.argmax(row(i)); }
  template <class Chance>
  constexpr Token draw(Chance& chance, Index i) const {
    return tree_.draw(chance, row(i));
  }
  template <class Chance>
  constexpr std::optional<Token> race(Chance& chance, double w, Index i) const {
    const auto p = target(i);
    return i == gamma_ ? chance.race(w, p) : chance.race(w, p, draft(i));
  }

  template <class... Mass>
  constexpr auto residual(Index i, double b, Index k, Mass... mass) const {
    return tree_.residual(row(i), b, number(k), mass...);
  }
  constexpr auto scratch() const { return tree_.scratch(); }
  constexpr void refuse_unless(bool holds, const auto&... words) const {
    tree_.refuse_unless(holds, words...);
  }

 private:
  constexpr void refuse_beyond(Index i, Index last) const {
    tree_.refuse_unless(i >= 0 && i <= last, "a rule asks for number ", i, ", outside 0..", last,
                        " of the draft");
  }
  // The tree's number of token k.
  constexpr Index number(Index k) const {
    refuse_beyond(k, gamma_ - 1);
    return static_cast<Index>(rows_[k + 1]) - 1;
  }

  const Tree& tree_;
  Index gamma_ = 0;
  decltype(tree_.scratch()) rows_;
};

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
