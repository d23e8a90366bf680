// How many children the nodes of a drawn tree get, where a draft length reads the draft model's rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/keep_drafting.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Chooses, before a level is drawn, how many children each node gets, and after it is drawn, which of its tokens are to have
/// children, by what keep_drafting (detail::KeepDrafting) says of them.
///
/// A token's value is the draft length's probability that it is accepted: its parent's value times the acceptance at its rank.
class RatedChildren {
 public:
  void clear() {
    values_.clear();
    begin_level();
  }
  void begin_level() {
    children_.clear();
    counts_.clear();
    leaves_.clear();
    next_ = 0;
  }

  /// Considers up to `most` children of token `parent`, −1 for the context. q is the row after the parent. An error names the
  /// number of the level's first token: the token's own is not known yet.
  template <class KeepDrafting, class Row>
  void consider(const KeepDrafting& keep_drafting, Index parent, const Row& q, Index most) {
    const Index node = std::ssize(counts_);
    counts_.push_back(0);
    CandidateToken child{.reading = std::min(confidence_of(q, std::ssize(values_)), 1.0), .drawn = true};
    for (double least = 1; child.rank < most; ++child.rank) {
      least = keep_drafting.acceptance(child, least);
      children_.push_back({node, value(parent) * least, child.reading});
    }
  }
  /// In place of consider(): the node gets no children.
  void leave_out() { counts_.push_back(0); }

  /// Chooses the children that are worth their time, and at least one: the call is paid for. The tree gets at most `most` tokens.
  template <class KeepDrafting>
  void choose(const KeepDrafting& keep_drafting, Index most, Index levels) {
    candidates_.clear();
    for (const Child& child : children_) candidates_.push_back(child.value);
    for (const Index k : worthy(keep_drafting, most, levels, 1))
      ++at(counts_, children_[static_cast<std::size_t>(k)].node);
  }

  /// How many children the node-th of the nodes considered is to get.
  Index chosen(Index node) const { return at(counts_, node); }

  /// The node-th of the nodes considered has got `drawn` children. Called for each node in turn.
  template <class KeepDrafting>
  void add(const KeepDrafting& keep_drafting, Index node, Index drawn) {
    for (; next_ < children_.size() && children_[next_].node == node; ++next_) {
      if (drawn-- <= 0) continue;
      values_.push_back(children_[next_].value);
      keep_drafting.propose(children_[next_].confidence, true);
    }
  }

  /// Token k of the level may have children.
  void add_leaf(Index k) { leaves_.push_back(k); }

  /// The leaves, by ascending number, whose children can be worth their time: a child is worth no more than its parent. None if
  /// another level is not worth a call of the draft model.
  template <class KeepDrafting>
  const std::vector<Index>& choose_leaves(const KeepDrafting& keep_drafting, Index most, Index levels) {
    if (leaves_.empty()) return leaves_;
    list_values();
    for (Index& k : worthy(keep_drafting, most, levels, 0)) k = at(leaves_, k);
    leaves_.swap(order_);
    if (leaves_.empty()) return leaves_;
    std::sort(leaves_.begin(), leaves_.end());
    list_values();
    sorted_ = values_;
    std::sort(sorted_.begin(), sorted_.end(), std::greater{});
    const GrowingDraft tree{.values = view_of(sorted_), .leaves = view_of(candidates_), .levels = levels};
    if (!keep_drafting.more(tree).level) leaves_.clear();
    return leaves_;
  }

 private:
  struct Child {
    Index node;  // its parent, as a number among the nodes considered
    double value;
    double confidence;  // of its parent's row
  };

  double value(Index k) const { return k < 0 ? 1 : at(values_, k); }

  void list_values() {
    candidates_.clear();
    for (const Index k : leaves_) candidates_.push_back(value(k));
  }

  // The numbers of the candidates that the draft length would propose if it chose among them and the tokens of the tree, the
  // most valuable first: at least `least`, and with the tokens at most `most`.
  template <class KeepDrafting>
  std::vector<Index>& worthy(const KeepDrafting& keep_drafting, Index most, Index levels, Index least) {
    const Index tokens = std::ssize(values_), room = most - tokens;
    const auto value_of = [=, this](Index k) { return k < tokens ? value(k) : at(candidates_, k - tokens); };
    order_.resize(values_.size() + candidates_.size());
    std::iota(order_.begin(), order_.end(), Index{0});
    std::sort(order_.begin(), order_.end(), [&](Index a, Index b) {
      const double of_a = value_of(a), of_b = value_of(b);
      return of_a != of_b ? of_a > of_b : a < b;
    });
    sorted_.clear();
    for (const Index k : order_) sorted_.push_back(value_of(k));
    if (std::ssize(sorted_) > most) sorted_.resize(static_cast<std::size_t>(most));
    const More more = keep_drafting.more(GrowingDraft{.values = view_of(sorted_), .levels = levels});
    const auto end = order_.begin() + more.tokens;
    const auto is_candidate = [=](Index k) { return k >= tokens; };
    const Index worthy = std::count_if(order_.begin(), end, is_candidate);
    std::erase_if(order_, [=](Index k) { return !is_candidate(k); });
    const Index count = std::min({std::max(worthy, least), room, std::ssize(order_)});
    order_.resize(static_cast<std::size_t>(count));
    for (Index& k : order_) k -= tokens;
    return order_;
  }

  std::vector<double> values_;   // of the tokens of the tree
  std::vector<Child> children_;  // considered in this level, by node and rank
  std::vector<Index> counts_;    // for each node considered: how many children were chosen
  std::size_t next_ = 0;         // the first of children_ whose node add() has not seen
  std::vector<double> candidates_, sorted_;
  std::vector<Index> order_, leaves_;
};

}  // namespace specdec::detail
