// What a rule has to be, and how one is called by hand.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// A rule that judges what was drafted, a line or a tree:
///
///   struct Mine {
///     specdec::Verdict judge(const auto& drafted, auto& chance) const;
///   };
///   struct MineForTrees {
///     specdec::NodeVerdict judge(const auto& drafted, auto& chance) const;
///   };
///
///   drafted   a Drafted: tokens, rows and their probabilities, checked
///   chance    a source of chance (Chance): all that is random has to come from it, so that a proof can take every
///             branch
///
/// A rule for lines says how many tokens survive. A rule for trees asks what was drafted for its nodes, too, and says at
/// which node it stops. The way to a node is known, so no answer is a wrong path. It judges a line as a tree without
/// branches.
///
/// That is all that verify(), SpecDec, the proofs and the measurements of acceptance (bench/acceptance) ask for. A rule
/// may also offer
///
///   survival(before, p, q)    P(τ > i | x_1..x_{i+1}), where i or more tokens survive with probability `before` and
///                             token i + 1 has probabilities p and q. The statistics then tell acceptance with less
///                             noise than by counting
///   min_draft_length()        of a rule that remembers its sequence: the next draft must not be shorter
///   commit()                  of a rule that remembers: judge() leaves what was remembered as it was, commit() makes
///                             the last verdict part of it, and throws nothing. A rule that has members and no commit()
///                             is copied before every verdict of the loop, which gives it back what it was where the
///                             step fails; verify() does not
///   draws_from_target         a static constant: false if what comes out is not distributed as the target's rows say,
///                             for rules that are lossy or greedy
///   needs_draft               a static constant: false if it never asks for q, the draft's rows or a race: the draft
///                             may then give its tokens no probability
///   draws_keyed               a static constant: true if its chance is to be a Keyed, whose numbers are the draft's, too.
///                             It then asks drafted.draw(chance, i) alone for what is random
///
/// A rule that remembers serves one sequence. The loop starts every sequence with a copy of a fresh one.
template <class R, class D = Drafted<DenseRows<RowPointers<double>>, DenseRows<RowPointers<double>>>,
          class C = RandomChance<SplitMix64>>
concept Verifier = std::copyable<R> && (
                                           requires(R& rule, const D& drafted, C& chance) {
                                             { rule.judge(drafted, chance) } -> std::same_as<Verdict>;
                                           } ||
                                           requires(R& rule, const D& drafted, C& chance) {
                                             { rule.judge(drafted, chance) } -> std::same_as<NodeVerdict>;
                                           });

/// Whether the rule judges trees: whether its verdict is a NodeVerdict.
template <class R, class D = Drafted<DenseRows<RowPointers<double>>, DenseRows<RowPointers<double>>>,
          class C = RandomChance<SplitMix64>>
inline constexpr bool judges_trees = requires(R& rule, const D& drafted, C& chance) {
  { rule.judge(drafted, chance) } -> std::same_as<NodeVerdict>;
};

/// Whether the rule remembers its sequence, and needs a next draft of a least length.
template <class R>
inline constexpr bool remembers_sequence = requires(const R& rule) { rule.min_draft_length(); };

/// The least length that the verifier's next draft may have; 0 for rules that remember nothing.
template <class R>
Index min_draft_length(const R& rule) {
  if constexpr (remembers_sequence<R>) {
    static_assert(detail::Count<decltype(rule.min_draft_length())>,
                  "the verifier's min_draft_length() is no integer");
    return rule.min_draft_length();
  } else {
    return 0;
  }
}

/// Whether the rule tells how likely a draft survives.
template <class R>
inline constexpr bool tells_survival = requires(const R& rule) {
  { rule.survival(1.0, 1.0, 1.0) } -> std::convertible_to<double>;  // NOLINT: static in some
};

/// Whether what the rule writes is distributed as the target's rows say; true where it does not say.
template <class R>
inline constexpr bool draws_from_target = [] {
  if constexpr (requires { R::draws_from_target; }) return static_cast<bool>(R::draws_from_target);
  else return true;
}();

/// Whether the rule asks for what the draft model said; true where it does not say.
template <class R>
inline constexpr bool needs_draft = [] {
  if constexpr (requires { R::needs_draft; }) return static_cast<bool>(R::needs_draft);
  else return true;
}();

/// Whether the rule draws by numbers that the draft was drawn by, too; false where it does not say.
template <class R>
inline constexpr bool draws_keyed = [] {
  if constexpr (requires { R::draws_keyed; }) return static_cast<bool>(R::draws_keyed);
  else return false;
}();

namespace detail {

template <class R>
inline constexpr DraftRows draft_rows_for = needs_draft<R> ? DraftRows::needed : DraftRows::unused;

/// The p and q of the first drafted tokens, as far as they have been looked up, for a message.
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

/// What the rule says. A complaint that names no row is about a number of the rule's own, a coin's probability, say:
/// it is told with what the rule was judging. Costs nothing where nothing is thrown.
template <class R, class D, class C>
auto ask(R& rule, const D& drafted, C& chance) {
  static_assert(draws_keyed<R> || !is_keyed<C>,
                "the numbers of a specdec::Keyed are those that the draft was drawn by, and this rule would "
                "bias the text with them: use KeyedVerifier");
  static_assert(!draws_keyed<R> || is_keyed<C>,
                "KeyedVerifier draws by the numbers that the draft was drawn by: its source of chance is a "
                "specdec::Keyed, not a generator");
  try {
    return rule.judge(drafted, chance);
  } catch (const InvalidDistribution& error) {
    if (error.row() >= 0) throw;
    throw InvalidDistribution(message("specdec: ", error.complaint(), ", where a rule judges",
                                      drafted.gamma() == 0 ? " no tokens" : told_probabilities(drafted)));
  }
}

/// Calls visit(k) for the tokens on the way from the context to the node, the last one first.
template <class D, class Visit>
void each_before(const D& drafted, Index node, const Visit& visit) {
  for (Index k = node - 1; k >= 0; k = drafted.parent(k)) visit(k);
}

/// Refuses an accepted token that a target of this vocabulary cannot write.
inline void check_accepted(Index i, Token token, Index vocab_size) {
  if (token >= vocab_size)
    invalid_argument("the accepted tokens[", i, "] = ", token, " is outside the vocabulary 0..",
                     vocab_size - 1);
}

/// Refuses a Y that a target of this vocabulary cannot write.
inline void check_added(Token token, Index vocab_size) {
  if (token < 0 || token >= vocab_size)
    invalid_argument("verdict.token = ", token, " is outside the vocabulary 0..", vocab_size - 1);
}

/// What a rule for lines says, if that can be on a target of this vocabulary.
template <class R, class D, class C>
Verdict judge(R& rule, const D& drafted, C& chance, Index vocab_size) {
  const Verdict verdict = ask(rule, drafted, chance);
  if (verdict.accepted < 0 || verdict.accepted > drafted.gamma())
    invalid_argument("the verifier accepted ", verdict.accepted, " of ", drafted.gamma(), " drafted tokens");
  for (Index i = 0; i < verdict.accepted; ++i) check_accepted(i, drafted.token(i), vocab_size);
  check_added(verdict.token, vocab_size);
  return verdict;
}

/// Where any rule stops, if that can be on a target of this vocabulary. In a line the node is τ.
template <class R, class D, class C>
NodeVerdict judge_at_node(R& rule, const D& drafted, C& chance, Index vocab_size) {
  if constexpr (judges_trees<R, D, C>) {
    const NodeVerdict verdict = ask(rule, drafted, chance);
    if (verdict.node < 0 || verdict.node > drafted.gamma())
      invalid_argument("the verifier stopped at node ", verdict.node, ", outside 0..", drafted.gamma(),
                       ", the number of drafted tokens");
    each_before(drafted, verdict.node, [&](Index k) { check_accepted(k, drafted.token(k), vocab_size); });
    check_added(verdict.token, vocab_size);
    return verdict;
  } else {
    const Verdict verdict = judge(rule, drafted, chance, vocab_size);
    return {verdict.accepted, verdict.token};
  }
}

/// The way to where a rule stops, from the context outward.
template <class D>
TreeVerdict verdict_at(const D& drafted, const NodeVerdict& stop) {
  TreeVerdict verdict{{}, stop.token};
  each_before(drafted, stop.node, [&](Index k) { verdict.path.push_back(k); });
  std::reverse(verdict.path.begin(), verdict.path.end());
  return verdict;
}

/// Whether the rule remembers its sequence, and says so.
template <class R>
inline constexpr bool has_commit = requires(R& rule) { rule.commit(); };

template <class R>
void commit(R& rule) {
  if constexpr (has_commit<R>) rule.commit();
}

/// Says which argument of a verifier is no matrix of distributions, and what would be one.
template <class Target, class Draft>
consteval bool rows_are_probabilities() {
  static_assert(
      Probabilities<Target>,
      "the target's rows are no matrix of probabilities: pass an Eigen matrix, RowVectors, RowPointers or "
      "another specdec::DistributionMatrix, with a row for each drafted token and one more");
  static_assert(
      Probabilities<Draft>,
      "the draft's rows are no matrix of probabilities: pass an Eigen matrix, RowVectors, RowPointers or "
      "another specdec::DistributionMatrix, with a row for each drafted token");
  return true;
}

/// Asks the rule where it stops, and commits what it remembers.
template <class R, class D, class Source>
NodeVerdict verify_at_node(R& rule, const D& drafted, Source& source) {
  auto&& chance = as_chance(source);
  static_assert(
      requires { rule.judge(drafted, chance); }, "the rule has no judge(drafted, chance)");
  const NodeVerdict verdict = judge_at_node(rule, drafted, chance, drafted.vocab_size());
  commit(rule);
  return verdict;
}

/// Says whether a rule can be called so.
template <class R>
consteval bool can_be_called() {
  static_assert(std::is_lvalue_reference_v<R> || !has_commit<std::remove_cvref_t<R>>,
                "a rule that remembers its sequence is called on a variable, one for a sequence");
  return true;
}

}  // namespace detail

/// Calls a rule by hand: target (γ+1)×V, draft γ×V', γ tokens, and a random bit generator or a source of chance.
/// The argument order is the paper's: ps, qs, drafts. All that Drafted checks is checked before the rule is
/// asked, and its verdict before it is returned.
///
/// Throws what Drafted throws, and what the rule throws: what it remembers is then as it was, if it has commit().
template <class R, Probabilities Target, Probabilities Draft, RandomSource Source>
[[nodiscard]] Verdict verify(R&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                             Source& source) {
  static_assert(detail::can_be_called<R>());
  const Drafted drafted(target, draft, tokens, detail::draft_rows_for<std::remove_cvref_t<R>>);
  const NodeVerdict verdict = detail::verify_at_node(rule, drafted, source);
  return {verdict.node, verdict.token};
}

/// Calls a rule for trees by hand. tokens[k] follows tokens[parents[k]], or the context where parents[k] = −1; parents
/// come before their children, and siblings are judged in the order of their numbers.
///
/// Shapes: target (γ+1)×V, its row 0 after the context and row k + 1 after tokens[k]; draft γ×V', its row k what
/// tokens[k] was drawn from given its elder siblings (one-hot where it was chosen); γ tokens and γ parents.
/// Throws what Drafted throws, and what the rule throws: what it remembers is then as it was, if it has commit().
template <class R, Probabilities Target, Probabilities Draft, RandomSource Source>
[[nodiscard]] TreeVerdict verify(R&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                                 TokenIds parents, Source& source) {
  static_assert(detail::can_be_called<R>());
  static_assert(
      judges_trees<std::remove_cvref_t<R>>,
      "this rule judges lines, no trees: try specdec::TraversalVerifier, or specdec::TrunkAndSpares "
      "of it");
  const Drafted drafted(target, draft, tokens, parents, detail::draft_rows_for<std::remove_cvref_t<R>>);
  return detail::verdict_at(drafted, detail::verify_at_node(rule, drafted, source));
}

/// What does not fit fails with a word that says why.
template <class R, class Target, class Draft, class... More>
  requires(!Probabilities<Target> || !Probabilities<Draft>)
std::conditional_t<sizeof...(More) == 2, Verdict, TreeVerdict> verify(R&&, const Target&, const Draft&,
                                                                      const More&...) {
  static_assert(detail::rows_are_probabilities<Target, Draft>());
  return {};
}

namespace detail {

/// Gives a rule of the library its call: rule(target, draft, tokens, source) is verify(rule, ...), and of a rule for trees
/// rule(target, draft, tokens, parents, source); a rule that asks for no draft's rows may be called without. A rule that
/// remembers its sequence is a variable: a temporary would forget what the next tokens of its sequence depend on.
template <class R>
class Callable {
 public:
  template <class Target, class Draft, RandomSource Source>
    requires(!has_commit<R> && !judges_trees<R>)
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source& source) const {
    return verify(self(), target, draft, tokens, source);
  }
  template <class Target, class Draft, RandomSource Source>
    requires(!has_commit<R> && judges_trees<R>)
  TreeVerdict operator()(const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                         Source& source) const {
    return verify(self(), target, draft, tokens, parents, source);
  }
  template <class Target, class Draft, RandomSource Source>
    requires(has_commit<R> && !judges_trees<R>)
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source& source) & {
    return verify(self(), target, draft, tokens, source);
  }
  template <class Target, class Draft, RandomSource Source>
    requires(has_commit<R> && judges_trees<R>)
  TreeVerdict operator()(const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                         Source& source) & {
    return verify(self(), target, draft, tokens, parents, source);
  }
  template <class Target, RandomSource Source>
    requires(!has_commit<R> && !judges_trees<R> && !needs_draft<R>)
  Verdict operator()(const Target& target, TokenIds tokens, Source& source) const {
    return verify(self(), target, OneHotRows(tokens), tokens, source);
  }
  template <class Target, RandomSource Source>
    requires(!has_commit<R> && judges_trees<R> && !needs_draft<R>)
  TreeVerdict operator()(const Target& target, TokenIds tokens, TokenIds parents, Source& source) const {
    return verify(self(), target, OneHotRows(tokens), tokens, parents, source);
  }

  friend bool operator==(const Callable&, const Callable&) = default;

 private:
  const R& self() const { return static_cast<const R&>(*this); }
  R& self() { return static_cast<R&>(*this); }
};

}  // namespace detail
}  // namespace specdec
