// What a rule for trees has to be, and how one is called by hand.
#pragma once

#include <algorithm>
#include <concepts>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// A rule that judges a tree of drafted tokens:
///
///   struct Mine {
///     specdec::Stop judge(const auto& drafted, auto& chance) const;
///   };
///
/// It asks the drafted tree (Drafted) for its nodes, tokens and rows, leaves all that is random to `chance`, and says
/// at which node it stops and what follows there. The way to a node is known, so no answer is a wrong path. A linear
/// draft is a tree without branches, and is judged by the same lines. What Verifier says of commit(),
/// draws_from_target and needs_draft holds here, too.
template <class R, class D = Drafted<DenseRows<RowPointers<double>>, DenseRows<RowPointers<double>>>,
          class C = RandomChance<SplitMix64>>
concept TreeVerifier = std::copyable<R> && requires(R& rule, const D& drafted, C& chance) {
  { rule.judge(drafted, chance) } -> std::same_as<Stop>;
};

namespace detail {

/// Calls visit(k) for the tokens on the way from the context to the node, the last one first.
template <class D, class Visit>
void each_before(const D& drafted, Index node, const Visit& visit) {
  for (Index k = node - 1; k >= 0; k = drafted.parent(k)) visit(k);
}

/// Where the rule stops, if that can be on a target of this vocabulary.
template <class R, class D, class C>
Stop judge_tree(R& rule, const D& drafted, C& chance, Index vocab_size) {
  const Stop stop = ask(rule, drafted, chance);
  if (stop.node < 0 || stop.node > drafted.gamma())
    invalid_argument("the verifier stopped at node ", stop.node, ", outside 0..", drafted.gamma(),
                     ", the number of drafted tokens");
  each_before(drafted, stop.node, [&](Index k) {
    if (drafted.token(k) >= vocab_size)
      invalid_argument("the accepted tokens[", k, "] = ", drafted.token(k), " is outside the vocabulary 0..",
                       vocab_size - 1);
  });
  if (stop.token < 0 || stop.token >= vocab_size)
    invalid_argument("the verifier's token = ", stop.token, " is outside the vocabulary 0..", vocab_size - 1);
  return stop;
}

/// The way to where the rule stopped, from the context outward.
template <class D>
TreeVerdict verdict_at(const D& drafted, const Stop& stop) {
  TreeVerdict verdict{{}, stop.token};
  each_before(drafted, stop.node, [&](Index k) { verdict.path.push_back(k); });
  std::reverse(verdict.path.begin(), verdict.path.end());
  return verdict;
}

}  // namespace detail

/// Calls a rule for trees by hand. tokens[k] follows tokens[parents[k]], or the context where parents[k] = −1; parents
/// come before their children, and siblings are judged in the order of their numbers.
///
/// Shapes: target (γ+1)×V, its row 0 behind the context and row k + 1 behind tokens[k]; draft γ×V', its row k what
/// tokens[k] was drawn from given its elder siblings (one-hot where it was chosen); γ tokens and γ parents.
/// Throws what Drafted throws, and what the rule throws: what it remembers is then as it was, if it has commit().
template <class R, Probabilities Target, Probabilities Draft, RandomSource Source>
TreeVerdict verify_tree(R&& rule, const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                        Source& source) {
  using Rule = std::remove_cvref_t<R>;
  static_assert(
      requires { distributions(target).vocab_size(); },
      "a target matrix needs vocab_size(): see SizedDistributionMatrix");
  const Drafted drafted(target, draft, tokens, parents, detail::draft_rows_for<Rule>);
  static_assert(std::is_lvalue_reference_v<R> || !detail::Remembers<Rule>,
                "a rule that remembers its sequence is called on a variable, one for a sequence");
  auto&& chance = as_chance(source);
  TreeVerdict verdict =
      detail::verdict_at(drafted, detail::judge_tree(rule, drafted, chance, drafted.vocab_size()));
  detail::commit(rule);
  return verdict;
}

namespace detail {

/// Gives a rule for trees its call: rule(target, draft, tokens, parents, source) is verify_tree(rule, ...).
template <class R>
struct TreeCallable {
  template <Probabilities Target, Probabilities Draft, RandomSource Source>
    requires(!Remembers<R>)
  TreeVerdict operator()(const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                         Source& source) const {
    return verify_tree(static_cast<const R&>(*this), target, draft, tokens, parents, source);
  }
  template <Probabilities Target, Probabilities Draft, RandomSource Source>
    requires Remembers<R>
  TreeVerdict operator()(const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                         Source& source) & {
    return verify_tree(static_cast<R&>(*this), target, draft, tokens, parents, source);
  }
  template <Probabilities Target, Probabilities Draft, RandomSource Source>
    requires Remembers<R>
  [[deprecated(
      "a temporary forgets what the next tokens of its sequence depend on: keep one verifier a "
      "sequence")]] TreeVerdict
  operator()(const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents, Source& source) && {
    return verify_tree(static_cast<R&>(*this), target, draft, tokens, parents, source);
  }

  /// What does not fit fails with a word that says why.
  template <class Target, class Draft, RandomSource Source>
    requires(!Probabilities<Target> || !Probabilities<Draft>)
  TreeVerdict operator()(const Target&, const Draft&, TokenIds, TokenIds, Source&) const {
    static_assert(rows_are_probabilities<Target, Draft>());
    return {};
  }

  friend bool operator==(const TreeCallable&, const TreeCallable&) = default;
};

}  // namespace detail
}  // namespace specdec
