// The chain of steps for each row of a model: one chain for all rows, or one for each sequence.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// One chain for all rows.
template <class Steps>
class StepsOfRows {
 public:
  explicit StepsOfRows(Steps steps) : steps_(std::move(steps)) {}

  /// Finds the steps of the rows that the feeds want. Call it before each call of the model.
  void ask(std::span<const BatchFeed>) {}
  void check_number(Index) {}
  /// The steps of row i of that call.
  const Steps& operator[](Index) const { return steps_; }
  /// The rows of that call, with their steps. The logits must outlive them.
  template <class Logits>
  auto of(const Logits& logits) const {
    return ProcessedRows(logits, steps_);
  }

 private:
  Steps steps_;
};

/// A chain for each sequence: a function of the sequence's number returns it.
template <class F>
  requires(!RowStep<F>)
class StepsOfRows<F> {
  using Steps = OfSequence<F>;

 public:
  explicit StepsOfRows(F steps_of) : steps_of_(std::move(steps_of)) {}

  void ask(std::span<const BatchFeed> feeds) {
    steps_.clear();
    for (const BatchFeed& feed : feeds) {
      if (feed.rows < 1) continue;
      decltype(auto) steps = steps_of_(feed.sequence);
      for (Index i = 0; i < feed.rows; ++i) steps_.push_back(steps);
    }
  }
  void check_number(Index sequence) { steps_of_(sequence); }
  const Steps& operator[](Index i) const { return at(steps_, i); }
  template <class Logits>
  auto of(const Logits& logits) const {
    const auto row_of = [rows = numbers(logits), steps = view_of(steps_)](Index i) {
      return ProcessedRow(rows.row(i), at(steps, i));
    };
    return RowsBy(logits.rows(), logits.cols(), row_of);
  }

 private:
  F steps_of_;
  std::vector<Steps> steps_;  // for each row of the last call
};

}  // namespace specdec::detail
