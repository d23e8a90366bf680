// What is drafted: a proposal, how large it may be, and what the target made of it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0 {

/// A proposal: the drafted tokens, and for each token the distribution that it was really drawn from (its row).
///
/// Without parents the draft is a line: each token follows the one before it. With parents it may be a tree: tokens[k] follows
/// tokens[parents[k]], or the context where parents[k] = −1; parents[k] < k. Siblings have one parent; an elder one has a smaller
/// number. A verifier judges siblings in this order. Row k is the distribution of tokens[k] given its elder siblings:
///
///   drawn independently of them       the row after the parent. Siblings may be equal tokens. Where one token has all the
///                                     probability of the row, there is one child
///   drawn without replacement         the row after the parent without the elder siblings, renormalised
///   chosen, not drawn                 one-hot; chosen siblings differ from one another and from drawn elders
///
/// Put drawn siblings before chosen ones: more is accepted than in the other order (see DrawnThenLikeliest). No token may be in the
/// tree, or be left out, because of what its younger siblings are, or the tokens after it or them: this biases the text.
///
/// All members are views that live until the drafter's next call.
template <Probabilities Rows>
struct Draft {
  std::span<const Token> tokens;
  Rows rows;
  std::span<const Index> parents = {};
};

/// Stands for the target's rows where a verdict was made elsewhere: who reads rows does not compile.
struct NoRows {
  Index rows() const { return 0; }
  template <class Number>
  auto row(Number) const {  // not void: so a concept that asks for a row says this, too
    static_assert(std::same_as<Number, void>,
                  "the target's rows are read here, and a verdict that was made elsewhere has none: "
                  "accept(rows, chance) in place of settle(verdict)");
  }
};

/// What the target made of a draft, for drafters that learn. Tokens that were drafted but not fed (Feed) are left out; if one of
/// them ended the text, it is verdict.token. The views live as long as the call with them. A later version may add fields.
template <class Rows>
struct Judged {
  const Rows& rows;                ///< the target's γ + 1 rows, or NoRows
  std::span<const Token> tokens;   ///< the γ drafted tokens
  std::span<const Index> parents;  ///< of these tokens; empty for a line
  NodeVerdict verdict;  ///< where the rule stopped: in a line, verdict.node is the number of accepted tokens
};

/// How large a draft may be. A limit below 1 leaves room for no token.
struct DraftLimits {
  Index nodes = unlimited;  ///< how many tokens it may have
  Index depth = unlimited;  ///< how many tokens a path may have, counted from the context
  /// Whether the length of a line must not depend on rows after drawn tokens, for verifiers that remember their sequence
  /// (GreedyBlockVerifier). A drafter whose row is a dead end (rows/read/dead_end.hpp) then goes on with a row of its own
  /// choice, which depends on the context only and which it reports. Else it ends the path there.
  bool fixed = false;
  /// Tokens that end the text if they are accepted, from a depth of `stops_from` tokens on: what follows them in a draft is in
  /// vain. Empty where the length of the draft is fixed.
  TokenIds stop_tokens = {};
  Index stops_from = 0;
  /// The most tokens in one call of a draft model for many texts, as far as it reads what was written. Of requests that are made
  /// together all have one such limit. A Batch hands down its BatchOptions::tokens_per_call.
  Index tokens_per_call = unlimited;

  /// How many tokens a line within the limits may have.
  Index length() const { return std::min(nodes, depth); }

  /// Whether a path may end with token x, which `before` other tokens of the path precede. This leaves every lossless rule
  /// lossless whose probability to accept a path depends on the tokens and rows of the path only, not on what was drafted after
  /// it: the text that such a rule writes up to x is the same, and after x there is none. x itself must stay in the draft.
  bool ends_at(Token x, Index before) const {
    if (before < stops_from) return false;
    for (Index i = 0; i < stop_tokens.size(); ++i)
      if (stop_tokens[i] == x) return true;
    return false;
  }
};

namespace detail {

/// How many tokens a line may have where the model has room for `room` of them. The last token need not enter the model.
inline Index longest_line(Index room) { return room < 0 ? 0 : room == unlimited ? room : room + 1; }

struct AlwaysKeepDrafting {
  bool more(const auto&, Index) const { return true; }
};

/// A draft of tokens that were chosen, not drawn. The lists must outlive it.
inline Draft<OneHotRows> chosen(const std::vector<Token>& tokens, const std::vector<Index>& parents = {}) {
  return {view_of(tokens), OneHotRows(view_of(tokens)), view_of(parents)};
}

/// The parents of a draft's tokens; empty for a draft type without parents.
std::span<const Index> parents_of(const auto& draft) {
  if constexpr (requires { draft.parents; }) return draft.parents;
  else return {};
}

}  // namespace detail

}  // namespace specdec
