// Mistakes of siblings: kinds for specdec::Tree, of one drawn token and chosen ones, in a wrong order.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "mistakes/rows.hpp"

namespace mistakes {

template <class Q>
using DrawnOrChosen = specdec::VariantRow<specdec::PartOfRow<Q, specdec::WithoutTokens>, specdec::OneHotRow>;

// Chooses the likeliest tokens, and then draws one from what they leave. The text is right, but less is accepted.
class LikeliestThenDrawn {
 public:
  template <class Q>
  using Row = DrawnOrChosen<Q>;

  template <class Q>
  void grow(const Q& q, Index count, Index parent, auto& chance, specdec::TokenTree& tree,
            std::vector<Row<Q>>& rows) {
    const auto first = static_cast<std::size_t>(tree.size());
    for (const specdec::TopToken& likely : likeliest_.of(q, count - 1)) {
      tree.append(likely.token, parent);
      rows.emplace_back(std::in_place_index<1>, specdec::OneHotRow(likely.token));
    }
    if (count < 1) return;
    const specdec::PartOfRow<Q, specdec::WithoutTokens> rest(q, {tree.tokens().subspan(first)});
    if (!(rest.mass() > 0)) return;
    tree.append(chance.draw(rest), parent);
    rows.emplace_back(std::in_place_index<0>, rest);
  }

 private:
  specdec::TopTokens likeliest_;
};

// Draws a token. If it is not the likeliest one, the likeliest is put beside it: before it, because it is likelier.
class SpareBeforeDrawn {
 public:
  template <class Q>
  using Row = DrawnOrChosen<Q>;

  template <class Q>
  void grow(const Q& q, Index count, Index parent, auto& chance, specdec::TokenTree& tree,
            std::vector<Row<Q>>& rows) {
    if (count < 1) return;
    const Token drawn = chance.draw(q), likeliest = likeliest_.of(q, 1)[0].token;
    if (count > 1 && drawn != likeliest) {
      tree.append(likeliest, parent);
      rows.emplace_back(std::in_place_index<1>, specdec::OneHotRow(likeliest));
    }
    tree.append(drawn, parent);
    rows.emplace_back(std::in_place_index<0>, specdec::PartOfRow<Q, specdec::WithoutTokens>(q, {}));
  }

 private:
  specdec::TopTokens likeliest_;
};

}  // namespace mistakes
