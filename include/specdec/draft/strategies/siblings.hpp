// How the children of a node are drawn or chosen from the row after it.
//
// grow() appends up to `count` children of token `parent` (−1: of the context) to the tree, and for each a row to `rows`: its
// distribution given its elder siblings. q is the row after the parent. The tree has room for them, so views of it stay valid.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/part_of_row.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Siblings are drawn from the row q independently of one another, so they may be equal; all report q. If q gives one token
/// all the probability, there is only one child: after its rejection, a second child with that token could not be accepted.
/// Random: one draw for each sibling.
struct Independent {
  template <Distribution Q>
  using Row = Q;

  template <Distribution Q, Chance C>
  void grow(const Q& q, Index count, Index parent, C& chance, TokenTree& tree, std::vector<Q>& rows) const {
    const Index place = tree.view().depth(parent);
    for (Index c = 0; c < count; ++c) {
      const Token x = chance.draw(detail::NamedRow(q, "draft", tree.size()), place);
      tree.append(x, parent);
      rows.push_back(q);
      if (static_cast<double>(q.probability(x)) == 1) return;
    }
  }
};

/// Each sibling is drawn from the row without its elders' tokens, renormalised. Once these have all mass, no more are drawn.
/// Random: one draw for each sibling.
/// Cost: look-ups of the elders; where the elders have more than half of the mass, also a pass over the rest.
struct WithoutReplacement {
  template <Distribution Q>
  using Row = PartOfRow<Q, WithoutTokens>;

  template <Distribution Q, Chance C>
  void grow(const Q& q, Index count, Index parent, C& chance, TokenTree& tree,
            std::vector<Row<Q>>& rows) const {
    if (count < 1) return;
    const Index first = tree.size(), place = tree.view().depth(parent);
    const std::span<const Token> siblings(tree.tokens().data() + first, static_cast<std::size_t>(count));
    tree.append(chance.draw(detail::NamedRow(q, "draft", first), place), parent);
    rows.push_back({q, {siblings.first(0)}});
    for (Index c = 1; c < count; ++c) {
      const WithoutTokens elders{siblings.first(static_cast<std::size_t>(c))};
      const auto rest = detail::NamedRow(q, "draft", first + c).named([&] { return Row<Q>(q, elders); });
      if (!(rest.mass() > 0)) return;
      tree.append(chance.draw(detail::NamedRow(rest, "draft", first + c), place), parent);
      rows.push_back(rest);
    }
  }
};

/// Chooses the likeliest tokens of the row, the likeliest first; among equals, the lower id first. Tokens of probability 0
/// are never chosen. A chosen token reports a one-hot row.
/// Random: none.
/// Cost: a pass over the row.
class Likeliest {
 public:
  template <Distribution Q>
  using Row = OneHotRow;

  template <Distribution Q, Chance C>
  void grow(const Q& q, Index count, Index parent, C&, TokenTree& tree, std::vector<OneHotRow>& rows) {
    const detail::NamedRow name(q, "draft", tree.size());
    for (const TopToken& likely : name.named([&] { return likeliest_.of(q, count); })) {
      tree.append(likely.token, parent);
      rows.emplace_back(likely.token);
    }
  }

 private:
  TopTokens likeliest_;
};

/// One token Y is drawn and comes first. The others, B, are chosen: the likeliest of the row q, the likeliest first; among equals,
/// the lower id first. Y is drawn from q without B, t(y) = q(y)/(1 − q(B)), and reports t. If q(B) = 1 there is no Y, only chosen
/// tokens. A single child is drawn from q.
/// Under traversal verification and recursive rejection one of them is accepted with probability p(B) + Σ min(p(y), t(y)). That is
/// the sum of min(p(x), P(x is a sibling)) over all tokens x, so no lossless rule accepts these siblings more often. If Y came last
/// it would be p(B) + Σ min(p(y), (1 − p(B))·t(y)). A chosen token that is in a tree because of what Y is must not come before Y: this
/// biases the text, by a total variation of 0.20 in tests/law_siblings.cpp.
/// Source: Hu et al., arXiv:2502.18779 (such a group, under an optimal rule). Deviation: the order, with which known rules are optimal.
/// Random: one draw, where there is a Y.
/// Cost: a pass over the row if there are two or more; where B has more than half of the mass, also a pass over the rest.
class DrawnThenLikeliest {
 public:
  template <Distribution Q>
  using Row = VariantRow<PartOfRow<Q, WithoutTokens>, OneHotRow>;

  template <Distribution Q, Chance C>
  void grow(const Q& q, Index count, Index parent, C& chance, TokenTree& tree, std::vector<Row<Q>>& rows) {
    if (count < 1) return;
    const Index first = tree.size(), place = tree.view().depth(parent);
    const detail::NamedRow name(q, "draft", first);
    chosen_.clear();
    for (const TopToken& likely : name.named([&] { return likeliest_.of(q, count - 1); }))
      chosen_.push_back(likely.token);
    const auto tail = name.named([&] { return PartOfRow<Q, WithoutTokens>(q, {chosen_}); });
    if (chosen_.empty()) tree.append(chance.draw(name, place), parent);
    else if (tail.mass() > 0) tree.append(chance.draw(detail::NamedRow(tail, "draft", first), place), parent);
    const Index eldest = tree.size();
    for (const Token x : chosen_) tree.append(x, parent);
    if (eldest > first)
      rows.emplace_back(std::in_place_index<0>, tail.with({detail::after(tree.tokens(), eldest)}));
    for (const Token x : chosen_) rows.emplace_back(std::in_place_index<1>, OneHotRow(x));
  }

 private:
  TopTokens likeliest_;
  std::vector<Token> chosen_;
};

}  // namespace specdec
