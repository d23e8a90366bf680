// Online speculative decoding: a draft model that learns from the target's rows as they come.
// Source: Liu et al., "Online Speculative Decoding", arXiv:2310.07177.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <iterator>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

namespace drafters {

using specdec::Index;
using specdec::Token;

/// Drafts lines with a drafter, and shows the target's rows to a model that this drafter drafts with.
///
///   learner.learn(length, row)   the target's distribution after the first `length` tokens of the text was `row`, an
///                                Eigen::ArrayXf (transformer/online_model.hpp)
///
/// The model learns after a target call, when the draft has been judged. So each drafted token was drawn from the row that
/// is reported for it, and the text is the target's.
/// Only rows of the text teach: the rows of the accepted tokens and of the correction token. Rows after a rejected token
/// follow a text that is not written.
/// A model passed as an lvalue is referred to and must outlive the drafter; an rvalue is moved in.
/// Cost: reads each of these rows once, and learn().
template <class Inner, class Learner>
class OnlineDrafter {
 public:
  static constexpr bool drafts_trees = false;
  static constexpr bool steady = false;  // the next draft may give a place another row

  OnlineDrafter(Inner drafter, Learner&& learner)
      : drafter_(std::move(drafter)), learner_(std::forward<Learner>(learner)) {}

  template <specdec::RandomSource Source, class... KeepDrafting>
  auto draft(std::span<const Token> context, Index gamma, Source& source, KeepDrafting&... keep_drafting) & {
    context_ = std::ssize(context);
    const specdec::DraftLimits limits{.nodes = gamma, .depth = gamma};
    return specdec::ask_drafter(drafter_, context, limits, source, keep_drafting...);
  }

  void truncate(Index length) { drafter_.truncate(length); }

  std::vector<const void*> identities() const
    requires requires(const Inner& inner) { inner.identities(); }
  {
    return drafter_.identities();
  }

  template <class Target>
  void observe(const Target& target, std::span<const Token> drafted, std::span<const Index>,
               const specdec::NodeVerdict& verdict) {
    const auto rows = specdec::distributions(target);
    static_assert(specdec::SegmentedRow<specdec::RowOf<decltype(rows)>>,
                  "the target's rows are no specdec::SegmentedRow");
    const Index learnt = std::min(verdict.node + 1, std::ssize(drafted));
    for (Index i = 0; i < learnt; ++i) {
      copy(rows.row(i));
      learner_.learn(context_ + i, row_);
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

  Inner drafter_;
  Learner learner_;    // or a reference
  Index context_ = 0;  // the tokens of the text before the draft
  Eigen::ArrayXf row_;
};

template <class Inner, class Learner>
OnlineDrafter(Inner, Learner&&) -> OnlineDrafter<Inner, Learner>;

}  // namespace drafters
