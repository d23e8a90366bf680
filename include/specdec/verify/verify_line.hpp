// What a rule is, and verify() for a linear draft. Trees: specdec/verify/verifier.hpp, which includes this header.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/rules/callable.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// An example of a draft.
using DraftOfDoubles = Drafted<DenseRows<RowPointers<double>>, DenseRows<RowPointers<double>>>;

/// A rule that can be asked, and what it answers.
template <class R, class D, class C>
concept HasJudge = requires(R& rule, const D& drafted, C& chance) { rule.judge(drafted, chance); };
template <class R, class D, class C, class Answer>
concept Answers = requires(R& rule, const D& drafted, C& chance) {
  { rule.judge(drafted, chance) } -> std::same_as<Answer>;
};
template <class R, class D, class C>
concept ReturnsVerdict = Answers<R, D, C, Verdict> || Answers<R, D, C, NodeVerdict>;

}  // namespace detail

/// A rule that judges a draft, which is a line or a tree:
///
///   struct Mine {
///     specdec::Verdict judge(const auto& drafted, auto& chance) const;
///   };
///   struct MineForTrees {
///     specdec::NodeVerdict judge(const auto& drafted, auto& chance) const;
///   };
///
///   drafted   a Drafted: tokens, rows and their probabilities, checked
///   chance    a source of chance (Chance). All randomness must come from it, so that a proof can try every outcome
///
/// A rule for lines returns how many tokens survive. A rule for trees returns the node at which it stops; the node fixes
/// the path. A rule for trees judges a line as a tree without branches.
///
/// Given the tokens of a path, the probability that a rule accepts it must follow from the tokens and rows of this path alone,
/// however many tokens come after it. For drafts end where a draft length says so, and after a stop token (DraftLimits::ends_at),
/// so that their lengths depend on what was drafted. A rule that needs lengths that are fixed before has min_draft_length().
///
/// verify(), SpecDec, the proofs and bench/acceptance need no more. A rule may also offer
///
///   survival(before, p, q)    P(τ > i | x_1..x_{i+1}): `before` is the probability that at least i tokens survive, p and q
///                             are the probabilities of token i + 1. Acceptance statistics then have less noise than counts
///   min_draft_length()        for a rule that remembers its sequence: the next draft must not be shorter
///   is_fresh()                for a rule that remembers: whether it remembers nothing yet. A text of a loop begins with such a rule
///   commit()                  for a rule that remembers: judge() must not change the memory; commit() adds the last verdict
///                             to it, and must not throw. If a rule has members and no commit(), the loop copies it before
///                             every verdict, and restores the copy if the step fails. verify() makes no copy
///   draws_from_target         a static constant: false if the output does not follow the target's rows (a lossy or a
///                             greedy rule)
///   needs_draft               a static constant: false if the rule never asks for q, the draft's rows or a race. A drafted
///                             token may then have q = 0
///   draws_keyed               a static constant: true if the rule's chance must be a Keyed, which the drafter may use, too.
///                             The rule then takes randomness from drafted.draw(chance, i) only
///   repeats_rejected          a static constant: true if Y may be a drafted token that the verdict rejects (a wasteful rule)
///
/// A rule that remembers serves one sequence. The loop starts every sequence with a fresh copy.
///
/// A judge() that is constexpr also runs in constant expressions and in code for a GPU, there with another `drafted`: the rules in
/// verify/rules/ are so. They read no row, and take memory from drafted.scratch() only.
template <class R, class D = detail::DraftOfDoubles, class C = RandomChance<SplitMix64>>
concept Verifier = std::copyable<R> && detail::ReturnsVerdict<R, D, C>;

/// Whether the rule judges trees: its verdict is then a NodeVerdict.
template <class R, class D = detail::DraftOfDoubles, class C = RandomChance<SplitMix64>>
inline constexpr bool judges_trees = detail::Answers<R, D, C, NodeVerdict>;

/// Whether the rule has survival().
template <class R>
inline constexpr bool tells_survival = requires(const R& rule) {
  { rule.survival(1.0, 1.0, 1.0) } -> std::convertible_to<double>;  // NOLINT: static in some
};

namespace detail {

template <class R>
inline constexpr DraftRows draft_rows_for = needs_draft<R> ? DraftRows::needed : DraftRows::unused;

/// For an error message: the p and q of the first drafted tokens, if they have been looked up.
template <class D>
std::string told_probabilities(const D& drafted) {
  constexpr Index most = 8;
  std::string text;
  for (Index i = 0; i < std::min(drafted.gamma(), most); ++i) {
    const bool known = drafted.looked_up(i);
    text += message(i == 0 ? " " : ", ", "tokens[", i, "] with ");
    text += known ? message("p = ", drafted.p(i), ", q = ", drafted.q(i)) : "p and q not looked up";
  }
  return text + (drafted.gamma() > most ? ", ..." : "");
}

/// Calls the rule. An InvalidDistribution that names no row is about a number of the rule itself, such as a coin's
/// probability. Its message gets the p and q of the drafted tokens.
template <class R, class D, class C>
auto ask(R& rule, const D& drafted, C& chance) {
  static_assert(draws_keyed<R> || !is_keyed<C>,
                "the numbers of a specdec::Keyed are those that the draft was drawn by, and this rule would "
                "bias the text with them: use KeyedVerifier");
  static_assert(!draws_keyed<R> || is_keyed<C>,
                "KeyedVerifier draws by the numbers that the draft was drawn by: its source of chance is a "
                "specdec::Keyed, not a generator");
  const auto with_probabilities = [&](const InvalidDistribution& error) {
    if (error.row() >= 0) return error;
    return InvalidDistribution(message("specdec: ", error.complaint(), ", where a rule judges",
                                       drafted.gamma() == 0 ? " no tokens" : told_probabilities(drafted)));
  };
  return with_error([&] { return rule.judge(drafted, chance); }, with_probabilities);
}

/// Compiles only if the rule has judge(); the error says what it takes and returns.
template <class R, class D, class C>
consteval bool fits_judge() {
  static_assert(HasJudge<R, D, C>,
                "the verifier has no judge(const auto& drafted, auto& chance): see specdec::Verifier");
  static_assert(!HasJudge<R, D, C> || ReturnsVerdict<R, D, C>,
                "the verifier's judge(drafted, chance) returns no specdec::Verdict, and for trees no "
                "specdec::NodeVerdict: see specdec::Verifier");
  return true;
}

/// Compiles only if V is a Verifier; the error names what is missing.
template <class V>
consteval bool fits_verifier() {
  if constexpr (!Verifier<V>) {
    static_assert(std::copyable<V>,
                  "the verifier cannot be copied and assigned, and each text begins with a fresh copy of it: "
                  "see specdec::Verifier");
    fits_judge<V, DraftOfDoubles, RandomChance<SplitMix64>>();
  }
  return true;
}

/// Returns where a verdict on a draft of `size` tokens stops; in a line the node is τ. Throws unless it stops in the draft, and all
/// that it emits is in the target's vocabulary. Errors name `of` before what is wrong.
template <class Answer, class D>
NodeVerdict checked(const Answer& verdict, const D& draft, Index size, Index vocab_size,
                    std::string_view of) {
  const auto& [node, token] = verdict;
  if (node < 0 || node > size)
    invalid_argument(of, std::same_as<Answer, Verdict> ? "accepted = " : "node = ", node, " is outside 0..",
                     size, ", the number of drafted tokens");
  for (Index k = node - 1; k >= 0; k = draft.parent(k))
    if (draft.token(k) >= vocab_size)
      invalid_argument(of == "verdict." ? "the " : of, "accepted tokens[", k, "] = ", draft.token(k),
                       " is outside the vocabulary 0..", vocab_size - 1);
  if (token < 0 || token >= vocab_size)
    invalid_argument(of, "token = ", token, " is outside the vocabulary 0..", vocab_size - 1);
  return {node, token};
}

/// Calls any rule, and checks its verdict.
template <class R, class D, class C>
NodeVerdict judge_at_node(R& rule, const D& drafted, C& chance, Index vocab_size) {
  return checked(ask(rule, drafted, chance), drafted, drafted.gamma(), vocab_size, "verdict.");
}

template <class R>
void commit(R& rule) {
  if constexpr (has_commit<R>) rule.commit();
}

/// Compiles only if the target can return such rows; the error says what to pass.
template <class Rows>
consteval bool fits_target_rows() {
  fits_rows<Rows>();
  static_assert(Probabilities<Rows> || ComputedExpression<Rows>,
                "the target's rows are no matrix of probabilities: pass an Eigen matrix, RowVectors, "
                "RowPointers or another specdec::DistributionMatrix, with one row more than drafted tokens");
  return true;
}

/// A compile error that names the argument, if an argument is no matrix of distributions.
template <class Target, class Draft>
consteval bool rows_are_probabilities() {
  constexpr bool ids =
      std::convertible_to<const Target&, TokenIds> || std::convertible_to<const Draft&, TokenIds>;
  static_assert(!ids,
                "token ids in the place of rows: the order of the arguments is (target, draft, tokens, rng)");
  if constexpr (!ids) {
    fits_target_rows<Target>();
    fits_rows<Draft>();
    static_assert(Probabilities<Draft> || ComputedExpression<Draft>,
                  "the draft's rows are no matrix of probabilities: pass an Eigen matrix, RowVectors, "
                  "RowPointers or another specdec::DistributionMatrix, with a row for each drafted token");
  }
  return true;
}

/// Calls the rule, checks its verdict, and commits its memory.
template <class R, class D, class Source>
NodeVerdict verify_at_node(R& rule, const D& drafted, Source& source) {
  auto&& chance = as_chance(source);
  static_assert(fits_judge<R, D, std::remove_cvref_t<decltype(chance)>>());
  const NodeVerdict verdict = judge_at_node(rule, drafted, chance, drafted.vocab_size());
  commit(rule);
  return verdict;
}

/// A compile error with a message if a rule that remembers is called on a temporary.
template <class R>
consteval bool can_be_called() {
  static_assert(std::is_lvalue_reference_v<R> || !has_commit<std::remove_cvref_t<R>>,
                "a rule that remembers its sequence is called on a variable, one for a sequence");
  return true;
}

}  // namespace detail

/// Calls a rule by hand, and checks its input (see Drafted) and its verdict. The order of the arguments is the paper's: ps,
/// qs, drafts. `source` is a random bit generator or a source of chance.
/// Shapes: target (γ+1)×V, draft γ×V', γ tokens.
/// Throws: what Drafted and the rule throw. A rule with commit() then keeps its old memory.
template <class R, Probabilities Target, Probabilities Draft, class Source = detail::MissingGenerator>
[[nodiscard]] Verdict verify(R&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                             Source&& source = {}) {
  static_assert(detail::can_be_called<R>());
  NodeVerdict verdict;
  constexpr auto needed = detail::draft_rows_for<std::remove_cvref_t<R>>;
  if constexpr (detail::fits_source<Source>())
    verdict = detail::verify_at_node(rule, Drafted(target, draft, tokens, needed), source);
  return {verdict.node, verdict.token};
}

/// Arguments that are no rows: a compile error that says why.
template <class R, class Target, class Draft, class... More>
  requires(!Probabilities<Target> || !Probabilities<Draft>)
std::conditional_t<sizeof...(More) == 2, Verdict, TreeVerdict> verify(R&&, const Target&, const Draft&,
                                                                      const More&...) {
  static_assert(detail::rows_are_probabilities<Target, Draft>());
  return {};
}

namespace detail {

/// verify() without draft rows, for a rule that needs none. If the target's rows are no rows, verify() says why.
template <class R, class Target, class... More>
auto verify_undrafted(R&& rule, const Target& target, TokenIds tokens, More&&... more) {
  return verify(rule, target, OneHotRows(tokens), tokens, std::forward<More>(more)...);
}

}  // namespace detail
}  // namespace specdec
