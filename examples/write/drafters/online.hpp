// Online speculative decoding: a draft model that learns from the target's rows as they come.
// Source: Liu et al., "Online Speculative Decoding", arXiv:2310.07177.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <iterator>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace drafters {

using specdec::Index;
using specdec::Token;

/// Drafts lines with a drafter, and shows the target's rows to a model that this drafter drafts with. It drafts for one text or
/// for many; there is one learner for all texts.
///
///   learner.learn(length, row)              the target's distribution after the first `length` tokens of the text was `row`,
///                                           an Eigen::ArrayXf (transformer/online_model.hpp)
///   learner.learn(sequence, length, row)    instead, for a learner that knows many texts: the text's number, too
///
/// The model learns after a target call, when the draft has been judged. So each drafted token was drawn from the row that
/// is reported for it, and each text is the target's. In a batch, what is learnt from one text changes the drafts of the others.
/// Only rows of the text teach: the rows of the accepted tokens and of the correction token. Rows after a rejected token
/// follow a text that is not written.
/// A model passed as an lvalue is referred to and must outlive the drafter; an rvalue is moved in.
/// Throws: std::invalid_argument in a batch of a learner that knows one text only.
/// Cost: reads each of these rows once, and learn().
template <class Inner, class Learner>
class OnlineDrafter {
  using Drafter = std::conditional_t<specdec::Drafter<Inner>, Inner, specdec::LiftedDrafter<Inner>>;
  static_assert(!specdec::drafts_trees<Drafter>);
  static constexpr bool knows_many =
      requires(Learner& learner, Index n, const Eigen::ArrayXf& row) { learner.learn(n, n, row); };

 public:
  static constexpr bool drafts_trees = false;
  static constexpr bool steady = false;  // the next draft may give a place another row

  OnlineDrafter(Inner drafter, Learner&& learner)
      : drafter_(std::move(drafter)), learner_(std::forward<Learner>(learner)) {}

  void serve_one() {
    if constexpr (requires { drafter_.serve_one(); }) drafter_.serve_one();
  }
  void check_copies() const {
    if (!knows_many) throw std::invalid_argument("OnlineDrafter: the learner knows one text only");
    if constexpr (requires { drafter_.check_copies(); }) drafter_.check_copies();
  }

  template <class Request>
  void draft(std::span<Request> requests) & {
    for (const Request& request : requests) lengths_[request.sequence] = std::ssize(request.context);
    drafter_.draft(requests);
  }
  decltype(auto) drafted(Index sequence) const { return std::as_const(drafter_).drafted(sequence); }
  void keep(Index sequence, Index length) { drafter_.keep(sequence, length); }
  void release(Index sequence) {
    drafter_.release(sequence);
    lengths_.erase(sequence);
  }

  std::vector<const void*> identities() const
    requires requires(const Drafter& drafter) { drafter.identities(); }
  {
    return drafter_.identities();
  }

  template <class Target>
  void observe(Index sequence, const specdec::Judged<Target>& judged) {
    const auto rows = specdec::distributions(judged.rows);
    static_assert(specdec::SegmentedRow<specdec::RowOf<decltype(rows)>>,
                  "the target's rows are no specdec::SegmentedRow");
    const Index context = lengths_.at(sequence);
    const Index learnt = std::min(judged.verdict.node + 1, std::ssize(judged.tokens));
    for (Index i = 0; i < learnt; ++i) {
      copy(rows.row(i));
      if constexpr (knows_many) learner_.learn(sequence, context + i, row_);
      else learner_.learn(context + i, row_);
    }
  }

 private:
  template <class Row>
  void copy(const Row& row) {
    row_.resize(row.vocab_size());
    for (Index first = 0; first < row_.size(); first += specdec::max_segment_size) {
      const Index count = std::min(specdec::max_segment_size, row_.size() - first);
      row_.segment(first, count) = row.segment(first, count).template cast<float>();
    }
  }

  Drafter drafter_;
  Learner learner_;                           // or a reference
  std::unordered_map<Index, Index> lengths_;  // of the texts before their drafts
  Eigen::ArrayXf row_;
};

template <class Inner, class Learner>
OnlineDrafter(Inner, Learner&&) -> OnlineDrafter<Inner, Learner>;

}  // namespace drafters
