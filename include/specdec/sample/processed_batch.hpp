// A batch model of logits as a batch model of the distributions that are sampled.
#pragma once

#include <concepts>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/model/batch_model.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/processed_model.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// As BatchModel, but forward() returns the logits, all rows as one matrix: what an engine has at hand.
template <class M>
concept LogitsBatchModel =
    requires(M& model, const M& constant, std::span<const BatchFeed> feeds, Index sequence, Index length) {
      { constant.vocab_size() } -> detail::Count;
      { model.forward(feeds) } -> NumberMatrix;
      model.keep(sequence, length);
      model.release(sequence);
    };

/// A BatchTreeModel whose calls return logits in place of probabilities.
template <class M>
concept LogitsBatchTreeModel =
    LogitsBatchModel<M> &&
    requires(M& model, Index sequence, std::span<const Index> path) { model.keep(sequence, path); };

/// Tells the steps of a sequence by its number.
template <class F>
concept StepsOfSequence =
    !RowStep<F> && std::invocable<F&, Index> && RowStep<std::remove_cvref_t<std::invoke_result_t<F&, Index>>>;

namespace detail {

/// One chain for all rows.
template <class Steps>
class StepsOfRows {
 public:
  explicit StepsOfRows(Steps steps) : steps_(std::move(steps)) {}

  void ask(std::span<const BatchFeed>) {}
  template <class Logits>
  auto of(const Logits& logits) const {
    return ProcessedRows(logits, steps_);
  }

 private:
  Steps steps_;
};

/// A matrix of logits whose rows have their own steps. A view of both.
template <class Numbers, RowStep Steps>
class RowsOfOwnSteps {
 public:
  RowsOfOwnSteps(const Numbers& numbers, std::span<const Steps> steps) : numbers_(numbers), steps_(steps) {}

  Index rows() const { return numbers_.rows(); }
  Index vocab_size() const { return numbers_.cols(); }
  auto row(Index i) const { return ProcessedRow(numbers_.row(i), steps_[static_cast<std::size_t>(i)]); }

 private:
  Numbers numbers_;
  std::span<const Steps> steps_;
};

/// A chain for each sequence.
template <StepsOfSequence F>
class StepsOfRows<F> {
  using Steps = std::remove_cvref_t<std::invoke_result_t<F&, Index>>;

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
  template <class Logits>
  auto of(const Logits& logits) const {
    return RowsOfOwnSteps<NumbersOf<Logits>, Steps>(numbers(logits), steps_);
  }

 private:
  F steps_of_;
  std::vector<Steps> steps_;  // of the rows of the last call
};

}  // namespace detail

/// ProcessedModel for many sequences: wraps a batch model of logits, so that target and drafter are processed alike and
/// the q that is reported is the q that was drawn from. Satisfies BatchModel, and BatchTreeModel where the model is a
/// LogitsBatchTreeModel.
///
///   ProcessedBatch target{engine, Chain{Temperature{0.8}, TopP{0.95}}};
///   ProcessedBatch target{engine, [&](Index sequence) -> const auto& { return requests.at(sequence).chain; }};
///
/// The chain is one for all sequences, or each has its own, which a function tells by the sequence's number. Neutral
/// values switch a step off, so that one type of chain serves all requests. The function is asked before the model is
/// called, once for each feed that rows are wanted of, on the thread that calls forward().
///
/// A model passed as an lvalue is referred to and must outlive this; an rvalue is moved in.
/// Throws: std::invalid_argument where the model returns logits of another shape than asked for: it keeps of each
/// sequence then what it held before the call. What the model and the function throw. Rows without a distribution are an
/// InvalidDistribution once they are read.
/// Cost: none for the rows, which are the model's own where they lie; a copy of a chain for each of them where
/// sequences have their own. No allocation in steady state.
template <class M, class Steps>
  requires RowStep<Steps> || StepsOfSequence<Steps>
class ProcessedBatch {
  using Bare = std::remove_reference_t<M>;
  static_assert(
      LogitsBatchModel<Bare>,
      "the model is no specdec::LogitsBatchModel: its forward(feeds) returns the logits of all rows, "
      "as one Eigen matrix, RowPointers or RowVectors");

  using Logits = decltype(std::declval<Bare&>().forward(std::span<const BatchFeed>{}));
  static constexpr bool returns_matrix = detail::OwningTemporary<Logits>;
  struct Nothing {};

 public:
  ProcessedBatch(M&& model, Steps steps) : model_(std::forward<M>(model)), steps_(std::move(steps)) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return specdec::context_size(model_); }

  auto forward(std::span<const BatchFeed> feeds) & {
    steps_.ask(feeds);
    if constexpr (returns_matrix) return view(output_ = model_.forward(feeds), feeds);
    else return view(model_.forward(feeds), feeds);
  }

  void keep(Index sequence, Index length) { model_.keep(sequence, length); }
  void keep(Index sequence, std::span<const Index> path)
    requires LogitsBatchTreeModel<Bare>
  {
    model_.keep(sequence, path);
  }

  void release(Index sequence) { model_.release(sequence); }

 private:
  template <class Matrix>
  auto view(const Matrix& logits, std::span<const BatchFeed> feeds) {
    Index rows = 0;
    for (const BatchFeed& feed : feeds) rows += feed.rows;
    try {
      detail::check_shape(logits, rows, vocab_size());
    } catch (...) {
      for (const BatchFeed& feed : feeds) model_.keep(feed.sequence, feed.from);
      throw;
    }
    return steps_.of(logits);
  }

  M model_;
  detail::StepsOfRows<Steps> steps_;
  std::conditional_t<returns_matrix, typename detail::KeptAs<std::remove_cvref_t<Logits>>::Type, Nothing>
      output_;
};

template <class M, class Steps>
ProcessedBatch(M&&, Steps) -> ProcessedBatch<M, Steps>;

}  // namespace specdec
