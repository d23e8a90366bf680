// Makes the record of a step, from which draft lengths and statistics learn.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/observers.hpp"
#include "specdec/loop/offered_draft.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0::detail {

/// Cost: no allocation after reserve().
class StepRecorder {
 public:
  /// The record of the last step, until the next offer. Its views point into this object, also those in the last() of a copy.
  const StepRecord& last() const { return last_; }
  void forget() { last_ = {}; }
  /// For a new draft: where the draft length's readings go (see StepRecord).
  DraftReadings& new_readings() {
    readings_.clear();
    return readings_;
  }
  /// Makes room for a draft of so many tokens.
  void reserve(Index tokens) {
    for (std::vector<double>* list : {&ps_, &qs_, &survivals_, &probabilities_})
      detail::reserve(*list, tokens);
    detail::reserve(ranks_, tokens);
    detail::reserve(children_, tokens + 1);
  }
  void begin_target_call(std::chrono::nanoseconds draft_time) {
    times_.draft = draft_time;
    times_.offered = Clock::now();
  }
  void begin_verdict() { times_.judged = Clock::now(); }
  void end_verdict() { times_.verify = Clock::now() - times_.judged; }

  /// Reads p and q of the tokens of a line, the siblings of a tree, and P(τ > i): by rule.survival(), if there is, or the verdict.
  template <bool branches, class V, class D>
  void weighed([[maybe_unused]] const V& rule, const D& drafted, const OfferedDraft& offered) {
    assign(survivals_, offered.draft().size(), 0);
    told_ = !branches && tell(drafted, offered.ending());
    if constexpr (branches) read_tree(offered.draft(), offered.path());
    if constexpr (tells_survival<V> && !branches) {
      double survival = 1;
      for (std::size_t i = 0; i < ps_.size(); ++i)
        survivals_[i] = survival = rule.survival(survival, ps_[i], qs_[i]);
      if (!ps_.empty()) return;
    }
    std::fill_n(survivals_.begin(), offered.path().size(), 1.0);
  }

  /// Records the step that is about to be committed. Throws nothing.
  CommittedStep record(const OfferedDraft& offered, Index asked) {
    const TokenTreeView draft = offered.draft();
    const auto read = std::min(std::ssize(readings_.of_rows), draft.size());
    last_ = {.asked = asked,
             .drafted = draft.size(),
             .accepted = std::ssize(offered.path()),
             .fed = std::ssize(offered.fed()),
             .survival = view_of(survivals_),
             .readings = first(readings_.of_rows, read),
             .draft_time = times_.draft,
             .target_time = times_.judged - times_.offered,
             .verify_time = times_.verify,
             .tree = tree_,
             .ending = offered.ending()};
    return {last_, std::ssize(offered.emitted()), told_, view_of(ps_), view_of(qs_)};
  }

 private:
  // Collects p and q of the tokens of a line, if all are known: whether they are. A rule that does not need q leaves it unchecked.
  template <class D>
  bool tell(const D& drafted, Index ending) {
    ps_.clear();
    qs_.clear();
    if (!drafted.all_looked_up()) return false;
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (!drafted.looked_up(i)) return ps_.clear(), qs_.clear(), false;
      ps_.push_back(drafted.p(i));
      qs_.push_back(drafted.q(i));
      if (ps_.back() == 0 || i == ending) return true;
    }
    return true;
  }

  bool tell(const NoRows&, Index) { return ps_.clear(), qs_.clear(), false; }

  void read_tree(TokenTreeView draft, std::span<const Index> path) {
    const Index depth = draft.depths(ranks_);  // a list with room for the depths
    ranks_.clear();
    children_.clear();
    probabilities_.clear();
    add_children(draft, -1, path);
    for (std::size_t i = 0; i < path.size(); ++i) add_children(draft, path[i], path.subspan(i + 1));
    tree_ = {depth, view_of(ranks_), view_of(children_), view_of(probabilities_), readings_.drawn};
  }

  // Adds the children of a node of the accepted path, one of which may be the path's next token.
  void add_children(TokenTreeView draft, Index node, std::span<const Index> rest) {
    Index count = 0;
    for (Index k = draft.next_child(node, node); k >= 0; k = draft.next_child(node, k), ++count) {
      if (!rest.empty() && k == rest.front()) ranks_.push_back(count);
      if (std::ssize(readings_.of_tokens) == draft.size())
        probabilities_.push_back(at(readings_.of_tokens, k));
    }
    children_.push_back(count);
  }

  struct Times {
    std::chrono::nanoseconds draft{0}, verify{0};
    Clock::time_point offered, judged;
  };

  StepRecord last_;
  DraftReadings readings_;
  std::vector<double> ps_, qs_, survivals_, probabilities_;
  std::vector<Index> ranks_, children_;  // see TreeRecord
  TreeRecord tree_;                      // of the verdict
  bool told_ = false;                    // whether p and q of the drafted tokens are known
  Times times_;
};

}  // namespace specdec::detail
