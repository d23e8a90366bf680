// A batch model of logits as a batch model of the distributions that are sampled.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/hooked_context.hpp"
#include "specdec/sample/processed_model.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/sample/processed_text.hpp"
#include "specdec/sample/text_processor.hpp"
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

/// A batch model that takes trees, whose calls return logits in place of probabilities.
template <class M>
concept LogitsBatchTreeModel =
    LogitsBatchModel<M> &&
    requires(M& model, Index sequence, std::span<const Index> path) { model.keep(sequence, path); };

/// Tells the steps of a sequence by its number.
template <class F>
concept StepsOfSequence =
    !RowStep<F> && std::invocable<F&, Index> && RowStep<std::remove_cvref_t<std::invoke_result_t<F&, Index>>>;

/// Tells the processor that a sequence begins with by its number.
template <class F, class Logits>
concept ProcessorOfSequence = !TextProcessor<F, Logits> && std::invocable<F&, Index> &&
                              TextProcessor<std::remove_cvref_t<std::invoke_result_t<F&, Index>>, Logits>;

namespace detail {

/// What changes the logits of a batch, and the text that it keeps of each sequence: a hook's.
template <class Hook, class Logits>
class TextsOf {
 public:
  using Text = HookedContext;

  explicit TextsOf(Hook hook) : hook_(std::move(hook)) {}

  Text begin(Index) { return {}; }

  /// Changes the rows of a sequence, and notes for each what was thrown.
  template <class LogitsOf>
  void process(Index sequence, Text& text, const LogitsOf& logits, std::span<std::exception_ptr> errors) {
    const Index rows = std::ssize(errors);
    for (Index i = 0; i < rows; ++i)
      errors[static_cast<std::size_t>(i)] =
          error_of([&] { hook_(sequence, text.before(i, rows), logits(i)); });
  }

 private:
  Hook hook_;
};

/// A processor's, of which each sequence has a copy, or one of its own.
template <class P, class Logits>
  requires(TextProcessor<P, Logits> || ProcessorOfSequence<P, Logits>)
class TextsOf<P, Logits> {
  static auto processor_of(P& given, [[maybe_unused]] Index sequence) {
    if constexpr (TextProcessor<P, Logits>) return given;
    else return given(sequence);
  }

 public:
  using Text = ProcessedText<decltype(processor_of(std::declval<P&>(), Index{}))>;

  explicit TextsOf(P processor) : processor_(std::move(processor)) {}

  Text begin(Index sequence) { return Text(processor_of(processor_, sequence)); }

  template <class LogitsOf>
  void process(Index, Text& text, const LogitsOf& logits, std::span<std::exception_ptr> errors) {
    const std::exception_ptr error = error_of([&] { text.process(std::ssize(errors), logits); });
    std::ranges::fill(errors, error);
  }

 private:
  P processor_;
};

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

/// Rows that a hook or a processor has changed, each with what it threw about the row, if it did. A view of both.
template <class Rows>
class HookedRows {
 public:
  HookedRows(const Rows& rows, std::span<const std::exception_ptr> errors) : rows_(rows), errors_(errors) {}

  Index rows() const { return rows_.rows(); }
  Index vocab_size() const { return rows_.vocab_size(); }
  auto row(Index i) const {
    if (const std::exception_ptr& error = errors_[static_cast<std::size_t>(i)]) std::rethrow_exception(error);
    return rows_.row(i);
  }

 private:
  Rows rows_;
  std::span<const std::exception_ptr> errors_;
};

}  // namespace detail

/// ProcessedModel for many sequences: wraps a batch model of logits, so that target and drafter are processed alike and
/// the q that is reported is the q that was drawn from. Satisfies BatchModel, and takes trees where the model is a
/// LogitsBatchTreeModel.
///
///   ProcessedBatch target{engine, Chain{Temperature{0.8}, TopP{0.95}}};
///   ProcessedBatch target{engine, [&](Index sequence) -> const auto& { return requests.at(sequence).chain; }};
///   ProcessedBatch target{engine, chain, hook};
///
/// The chain is one for all sequences, or each has its own, which a function tells by the sequence's number. Neutral
/// values switch a step off, so that one type of chain serves all requests. The function is asked before the model is
/// called, once for each feed that rows are wanted of, on the thread that calls forward().
///
/// A hook is what it is for ProcessedModel, and is told whose row it is:
///
///   hook(Index sequence, std::span<const Token> context, Eigen::Ref<Eigen::Matrix<Scalar, 1, Eigen::Dynamic>> logits)
///
/// It must depend on the sequence, the context and the logits alone. What it throws is thrown where its row is asked for,
/// so that it is the failure of its sequence.
///
/// A TextProcessor is what it is for ProcessedModel. Each sequence begins with a copy of it, or with what a function returns
/// for its number, which is asked before the model is called, on the thread that calls forward():
///
///   ProcessedBatch target{engine, chain, Processors{RepetitionPenalty{1.1}, PresencePenalty{0.5}}};
///   ProcessedBatch target{engine, chain, [&](Index sequence) { return Grammar{requests.at(sequence).matcher}; }};
///
/// What it throws, and that it refuses a token of the context, is thrown where a row of the call is asked for.
///
/// A model passed as an lvalue is referred to and must outlive this; an rvalue is moved in.
/// Throws: std::invalid_argument where the model returns logits of another shape than asked for: it keeps of each
/// sequence then what it held before the call. What the model and the function throw. Rows without a distribution are an
/// InvalidDistribution once they are read. With a hook or a processor, std::invalid_argument where a context does not hold
/// feed.from tokens, std::logic_error on a feed without parents while its sequence's tree is open; all contexts are as
/// before then.
/// Cost: without a hook none for the rows, which are the model's own where they lie, with one, or a processor, a copy of
/// each; a copy of a chain for each of them where sequences have their own. No allocation in steady state.
template <class M, class Steps, class Hook = NoHook>
  requires RowStep<Steps> || StepsOfSequence<Steps>
class ProcessedBatch {
  using Bare = std::remove_reference_t<M>;
  static_assert(
      LogitsBatchModel<Bare>,
      "the model is no specdec::LogitsBatchModel: its forward(feeds) returns the logits of all rows, "
      "as one Eigen matrix, RowPointers or RowVectors");

  using Logits = decltype(std::declval<Bare&>().forward(std::span<const BatchFeed>{}));
  using LogitsRef = detail::LogitsRef<Logits>;
  using Buffer = Eigen::Matrix<typename LogitsRef::Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static constexpr bool has_hook = !std::same_as<Hook, NoHook>;
  static constexpr bool returns_matrix = detail::OwningTemporary<Logits>;
  static_assert(!has_hook || TextProcessor<Hook, LogitsRef> || ProcessorOfSequence<Hook, LogitsRef> ||
                    std::invocable<Hook&, Index, std::span<const Token>, LogitsRef>,
                "the hook cannot be called with (specdec::Index, std::span<const Token>, Eigen::Ref of a row "
                "of logits), is no specdec::TextProcessor, and does not tell one by a specdec::Index");
  using Texts = detail::TextsOf<Hook, LogitsRef>;
  using Text = typename Texts::Text;

 public:
  ProcessedBatch(M&& model, Steps steps, Hook hook = {})
      : model_(std::forward<M>(model)), steps_(std::move(steps)), texts_(std::move(hook)) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return specdec::context_size(model_); }

  auto forward(std::span<const BatchFeed> feeds) & {
    steps_.ask(feeds);
    if constexpr (has_hook) return hooked(feeds);
    else return view(ask(feeds), feeds);
  }

  void keep(Index sequence, Index length) {
    model_.keep(sequence, length);
    if (Text* text = find(sequence)) text->truncate(length);
  }
  void keep(Index sequence, std::span<const Index> path)
    requires LogitsBatchTreeModel<Bare>
  {
    Text* text = find(sequence);
    if (text == nullptr) return model_.keep(sequence, path);
    model_.keep(sequence, text->of_model(path));
    text->keep(path);
  }

  void release(Index sequence) {
    model_.release(sequence);
    contexts_.erase(sequence);
  }

 private:
  Text* find(Index sequence) {
    const auto found = contexts_.find(sequence);
    return found == contexts_.end() ? nullptr : &found->second;
  }

  static Index rows_of(std::span<const BatchFeed> feeds) {
    Index rows = 0;
    for (const BatchFeed& feed : feeds) rows += feed.rows;
    return rows;
  }

  // The model's logits, which then stay until the next call.
  decltype(auto) ask(std::span<const BatchFeed> feeds) {
    if constexpr (returns_matrix) return (kept_ = model_.forward(feeds));
    else return model_.forward(feeds);
  }

  template <class Matrix>
  void check(const Matrix& logits, std::span<const BatchFeed> feeds) {
    try {
      detail::check_shape(logits, rows_of(feeds), vocab_size());
    } catch (...) {
      for (const BatchFeed& feed : feeds) model_.keep(feed.sequence, feed.from);
      throw;
    }
  }

  template <class Matrix>
  auto view(const Matrix& logits, std::span<const BatchFeed> feeds) {
    check(logits, feeds);
    return steps_.of(logits);
  }

  // What can fail comes before the hook.
  auto hooked(std::span<const BatchFeed> feeds) {
    const Index rows = rows_of(feeds);
    if (output_.rows() < rows || output_.cols() != vocab_size()) output_.resize(rows, vocab_size());
    errors_.assign(static_cast<std::size_t>(rows), nullptr);
    enter(feeds);
    try {
      const auto& logits = ask(std::span<const BatchFeed>(of_model_));
      check(logits, feeds);
      change(logits, feeds);
      const detail::ChangedRows changed(steps_.of(output_.topRows(rows)), numbers(logits));
      return detail::HookedRows(changed, std::span<const std::exception_ptr>(errors_));
    } catch (...) {
      leave(feeds);
      throw;
    }
  }

  // Takes all feeds into their contexts, or none.
  void enter(std::span<const BatchFeed> feeds) {
    of_model_.assign(feeds.begin(), feeds.end());
    nodes_.resize(feeds.size());
    std::size_t k = 0;
    try {
      for (; k < feeds.size(); ++k) enter(k);
    } catch (...) {
      leave(feeds.first(k));
      throw;
    }
  }
  void enter(std::size_t k) {
    const Index sequence = of_model_[k].sequence;
    if (Text* const known = find(sequence)) return enter(k, *known);
    Text& begun = contexts_.emplace(sequence, texts_.begin(sequence)).first->second;
    try {
      enter(k, begun);
    } catch (...) {
      contexts_.erase(sequence);
      throw;
    }
  }
  void enter(std::size_t k, Text& context) {
    BatchFeed& feed = of_model_[k];
    if (context.length() != feed.from)
      detail::invalid_argument("feeds[", k, "].from = ", feed.from, ", but the context of sequence ",
                               feed.sequence, " holds ", context.length(), " tokens");
    nodes_[k] = context.tree_size();
    if (!feed.parents.empty()) {
      context.add(feed.tokens, feed.parents);
      feed.parents = context.of_model(feed.parents);
    } else if (nodes_[k] > 0) {
      throw std::logic_error(detail::message("specdec: feeds[", k,
                                             "] has no parents while the tree of sequence ", feed.sequence,
                                             " is open: keep() closes it"));
    } else {
      context.add(feed.tokens);
    }
  }
  void leave(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      Text& context = contexts_.at(feeds[k].sequence);
      context.forget_from(nodes_[k]);
      if (nodes_[k] == 0) context.truncate(feeds[k].from);
      if (context.length() + context.tree_size() == 0) contexts_.erase(feeds[k].sequence);
    }
  }

  // Copies the logits and lets the hook, or the processors, change them.
  template <class Matrix>
  void change(const Matrix& logits, std::span<const BatchFeed> feeds) {
    const auto from = numbers(logits);
    Index row = 0;
    for (const BatchFeed& feed : feeds) {
      Text& context = contexts_.at(feed.sequence);
      if (!feed.parents.empty()) context.taken(std::ssize(feed.tokens));
      for (Index i = row; i < row + feed.rows; ++i) from.row(i).read(0, vocab_size(), output_.row(i).data());
      const std::span errors =
          std::span(errors_).subspan(static_cast<std::size_t>(row), static_cast<std::size_t>(feed.rows));
      texts_.process(
          feed.sequence, context, [this, row](Index i) { return LogitsRef(output_.row(row + i)); }, errors);
      row += feed.rows;
    }
  }

  M model_;
  detail::StepsOfRows<Steps> steps_;
  Texts texts_;
  std::unordered_map<Index, Text> contexts_;  // for the hook
  std::vector<BatchFeed> of_model_;           // with the parents' numbers of the model
  std::vector<Index> nodes_;                  // of each feed's tree, before
  std::vector<std::exception_ptr> errors_;    // that were thrown about a row
  typename detail::KeptAs<std::remove_cvref_t<Logits>, returns_matrix>::Type kept_;
  Buffer output_;  // what the hook has changed
};

template <class M, class Steps>
ProcessedBatch(M&&, Steps) -> ProcessedBatch<M, Steps>;
template <class M, class Steps, class Hook>
ProcessedBatch(M&&, Steps, Hook) -> ProcessedBatch<M, Steps, Hook>;

}  // namespace specdec
