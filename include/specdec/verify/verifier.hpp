// verify(): calls any rule on a line or a tree. What a rule is: specdec/verify/verify_line.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/lists.hpp"
#include "specdec/parents.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/drafted_tree.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Calls a rule for trees, and sets the verdict. The path gets its memory before the rule is asked, so that nothing can fail
/// after the rule's commit(). A path that was as long before keeps its memory.
template <class R, Probabilities Target, Probabilities Draft, class Source>
void verify_tree(R&& rule, const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                 Source& source, TreeVerdict& verdict) {
  using Rule = std::remove_cvref_t<R>;
  static_assert(can_be_called<R>());
  static_assert(
      judges_trees<Rule>,
      "this rule judges lines, no trees: try specdec::TraversalVerifier, or specdec::TrunkAndSpares of it");
  const Drafted drafted(target, draft, tokens, parents, draft_rows_for<Rule>);
  std::vector<Index>& path = verdict.path;
  path.clear();
  reserve(path, drafted.gamma());
  const NodeVerdict stop = verify_at_node(rule, drafted, source);
  each_back(drafted, stop.node - 1, [&](Index k) { path.push_back(k); });
  std::reverse(path.begin(), path.end());
  verdict.token = stop.token;
}

}  // namespace detail

/// Calls a rule for trees by hand. tokens[k] follows tokens[parents[k]], or the context if parents[k] = −1. Parents come
/// before their children. Siblings are judged in the order of their numbers.
/// Shapes: target (γ+1)×V: row 0 after the context, row k + 1 after tokens[k]. Draft γ×V': row k is the distribution that
/// tokens[k] was drawn from, given its elder siblings (one-hot if the token was chosen). γ tokens and γ parents.
/// Throws: what Drafted and the rule throw. A rule with commit() then keeps its old memory.
template <class R, Probabilities Target, Probabilities Draft, class Source>
[[nodiscard]] TreeVerdict verify(R&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                                 TokenIds parents, Source&& source) {
  TreeVerdict verdict;
  if constexpr (detail::fits_source<Source>())
    detail::verify_tree(std::forward<R>(rule), target, draft, tokens, parents, source, verdict);
  return verdict;
}

}  // namespace specdec
