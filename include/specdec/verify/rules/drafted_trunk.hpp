// The trunk after a node of a tree, as a line that a rule judges.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "specdec/types.hpp"

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

}  // namespace specdec
