// Turns a matrix of logits into distributions to sample from: a chain of steps processes each row once, when it is first read.
// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/row_adaptor.hpp"
#include "specdec/sample/chain.hpp"

namespace specdec::inline v0_2_0 {

/// One row of logits with a chain of steps (any RowStep) applied. A row that is never read costs nothing.
/// Throws: InvalidDistribution when the row is read, for the reasons of LogitsRow.
/// Cost: the steps run when a probability is first needed; afterwards the costs of LogitsRow.
template <Real S, int Stride, RowStep Steps>
class ProcessedRow
    : public detail::RowAdaptor<ProcessedRow<S, Stride, Steps>, detail::Keeps::all, LogitsRow<S, Stride>> {
 public:
  using Processed = LogitsRow<S, Stride>;

  ProcessedRow(const NumberRow<S, Stride>& logits, const Steps& steps) : row_(logits), steps_(steps) {}

  Index vocab_size() const { return row_.vocab_size(); }
  /// The logits before any step.
  NumberRow<S, Stride> logits() const { return row_.logits(); }

  /// Whether the token may have a probability above 0: its logit is not −inf. Does not run the steps.
  bool possible(Token x) const { return logits()[x] >= Processed::no_cut; }

  /// The softmax of the logits before any step.
  Processed unprocessed() const { return Processed(logits()); }
  auto sampler() const { return processed().sampler(); }
  auto segment(Index start, Index count) const { return processed().segment(start, count); }

  /// The largest logit, the lowest id among equals: no step changes that.
  Token argmax() const { return row_.argmax(); }

  auto ask(const auto& f) const { return f(processed()); }

  /// The row after all steps.
  const Processed& processed() const& {
    if (!done_) {
      row_ = steps_(row_);
      done_ = true;
    }
    return row_;
  }
  /// By value, because a temporary does not live on.
  Processed processed() const&& {
    const ProcessedRow& row = *this;
    return row.processed();
  }

  /// A row over a contiguous copy of these logits. It keeps the results that this row has computed.
  ProcessedRow<S, 1, Steps> over(const S* copy) const { return {row_.over(copy), steps_, done_}; }

  /// A row over other logits, side by side in memory and as many as this row has, with the same steps to come.
  ProcessedRow<S, 1, Steps> anew(const S* logits) const {
    return {NumberRow<S, 1>(logits, vocab_size()), steps_};
  }

 private:
  template <Real, int, RowStep>
  friend class ProcessedRow;

  ProcessedRow(const Processed& row, const Steps& steps, bool done) : row_(row), steps_(steps), done_(done) {}

  mutable Processed row_;
  Steps steps_;
  mutable bool done_ = false;
};

/// Makes a DistributionMatrix of a matrix of logits: a chain of steps is applied to each row. The logits must outlive it.
///
///   verifier(ProcessedRows{target, chain}, ProcessedRows{draft, chain}, tokens, rng)
template <class Numbers, RowStep Steps>
class ProcessedRows {
 public:
  template <NumberMatrix M>
    requires(!detail::OwningTemporary<M>)
  ProcessedRows(M&& logits, const Steps& steps) : numbers_(numbers(std::forward<M>(logits))), steps_(steps) {}
  template <NumberMatrix Temporary>
    requires detail::OwningTemporary<Temporary>
  ProcessedRows(Temporary&& logits, const Steps& steps) = delete;

  Index rows() const { return numbers_.rows(); }
  Index vocab_size() const { return numbers_.cols(); }
  auto row(Index i) const { return ProcessedRow(numbers_.row(i), steps_); }

 private:
  Numbers numbers_;
  Steps steps_;
};

template <NumberMatrix M, RowStep Steps>
ProcessedRows(M&&, const Steps&) -> ProcessedRows<NumbersOf<M>, Steps>;

namespace detail {

/// A ProcessedRow of logits that a hook has changed. It also knows the logits before the hook.
template <class Row, class Raw>
class ChangedRow : public Row {
 public:
  ChangedRow(const Row& row, const Raw& raw) : Row(row), raw_(raw) {}

  /// The softmax of the logits before the hook and any step.
  auto unprocessed() const { return LogitsRow(raw_); }
  /// These logits.
  const Raw& raw() const { return raw_; }

 private:
  Raw raw_;
};

/// A matrix of which row_of(i) makes row i. It is copied and moved, and not assigned.
template <class RowOf>
class RowsBy {
 public:
  RowsBy(Index rows, Index vocab_size, RowOf row_of)
      : rows_(rows), vocab_size_(vocab_size), row_of_(std::move(row_of)) {}

  Index rows() const { return rows_; }
  Index vocab_size() const { return vocab_size_; }
  auto row(Index i) const { return row_of_(i); }

 private:
  Index rows_, vocab_size_;
  RowOf row_of_;
};

}  // namespace detail

/// Copies the logits before the hook, too.
template <class Row, class Raw>
class RowCopy<detail::ChangedRow<Row, Raw>> {
 public:
  using View = detail::ChangedRow<typename RowCopy<Row>::View, typename RowCopy<Raw>::View>;

  View assign(const detail::ChangedRow<Row, Raw>& row) & {
    return {changed_.assign(row), raw_.assign(row.raw())};
  }
  View uniform(const detail::ChangedRow<Row, Raw>& like) & {
    return {changed_.uniform(like), raw_.assign(like.raw())};
  }

 private:
  RowCopy<Row> changed_;
  RowCopy<Raw> raw_;
};

}  // namespace specdec
