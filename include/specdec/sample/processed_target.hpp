// Processes the logits of a target that the caller runs himself, before they are judged.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/traits.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/model_logits.hpp"
#include "specdec/sample/processed_model.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/sample/texts_of_model.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A target for propose() and accept() whose caller hands in logits, as one matrix of numbers:
///
///   SpecDec decoder{ProcessedModel{ExternalTarget{.vocabulary = v}, chain, Grammar{matcher}}, drafter};
///   Batch batch{ProcessedModel{ExternalTarget{.vocabulary = v}, chain_of, processor_of}, drafter};
///
/// accept() processes them as those of a model, and the texts are those of a ProcessedModel around the model. A processor is
/// shown what it has not seen of the text, so settle(), a filled context or another turn need nothing more. Rows after a token
/// that it refuses are not read: see ExternalTarget.
/// Throws: accept() throws InvalidArgument if the rows are not over the vocabulary, and what functions of the number throw.
/// Then a Sequence's proposal is as before; a Batch begins with propose(). An error about a row is thrown when the row is read.
/// Cost: that of ProcessedModel. With a hook or a processor, each text is compared with the tokens that were shown.
template <class M, class Steps, class Hook>
  requires is_external<std::remove_reference_t<M>>
class ProcessedModel<M, Steps, Hook> {
  template <class S>
  using Rows = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  template <class S>
  using RowRef = detail::LogitsRef<Rows<S>>;
  static constexpr bool has_hook = !std::same_as<Hook, NoHook>;
  static constexpr bool one_chain = RowStep<Steps>;
  // What the hook takes; the rows that are handed in decide.
  using Logits =
      std::conditional_t<detail::ChangesLogits<Hook, RowRef<float>>, RowRef<float>, RowRef<double>>;
  using Changer = detail::LogitsChanger<Hook, Logits>;
  static_assert(detail::fits_processing<Steps, Hook, Logits, false>());
  template <class Matrix>
  using ScalarOf = typename decltype(numbers(std::declval<const Matrix&>()).row(0))::Scalar;

 public:
  static constexpr bool external = true;

  ProcessedModel(M&& target, Steps steps, Hook hook = {})
      : target_(std::forward<M>(target)), steps_(std::move(steps)), changer_(std::move(hook)) {}
  ProcessedModel(M&& target, Hook hook)
    requires(has_hook && std::same_as<Steps, Chain<>>)
      : ProcessedModel(std::forward<M>(target), Chain<>{}, std::move(hook)) {}

  Index vocab_size() const { return target_.vocab_size(); }
  Index context_size() const { return target_.context_size(); }
  Index reach() const { return target_.reach(); }
  void check_number(Index sequence) {
    steps_of(sequence);
    changer_.begin(sequence);
  }

  /// For the loops. The processed rows of a feed that comes after these tokens.
  template <class Matrix>
  auto processed(std::span<const Token> context, const BatchFeed& feed, const Matrix& logits) {
    const Index count = logits.rows();
    if (count != feed.rows)
      detail::invalid_argument("the engine returned ", count, " rows, expected ", feed.rows);
    take(context, feed, logits, 0);
    return rows(feed, logits, 0);
  }
  /// Of a feed among others: its rows are those from number `first` on.
  template <class Matrix>
  void take(std::span<const Token> context, const BatchFeed& feed, const Matrix& logits, Index first) {
    static_assert(NumberMatrix<Matrix>,
                  "a specdec::ProcessedModel is handed logits: one Eigen matrix, RowPointers or RowVectors");
    detail::check_shape("engine", feed.rows, logits.cols(), feed.rows, vocab_size());
    Text& text = texts_.at(feed.sequence, [&] { return Text{changer_.begin(feed.sequence)}; });
    text.steps.emplace(steps_of(feed.sequence));
    if constexpr (has_hook) {
      using S = ScalarOf<Matrix>;
      detail::add_after(context, feed, text.fed);
      auto& changed = std::get<Rows<S>>(text.changed);
      detail::copy_rows(numbers(logits), first, feed.rows, changed);
      text.errors.begin(feed.rows);
      const auto row = [&](Index i) { return RowRef<S>(changed.row(i)); };
      changer_.process(feed.sequence, text.fed, 0, feed.rows, row, text.errors);
    }
  }
  /// The processed rows, after take(). They live until the sequence's next take().
  template <class Matrix>
  auto rows(const BatchFeed& feed, const Matrix& logits, Index first) {
    const auto row = [&text = texts_.at(feed.sequence), raw = numbers(logits), first](Index i) {
      if constexpr (has_hook) {
        detail::rethrow_error_of(text.errors.all(), i);
        const auto& changed = std::get<Rows<ScalarOf<Matrix>>>(text.changed);
        return detail::ChangedRow(ProcessedRow(numbers(changed).row(i), *text.steps), raw.row(first + i));
      } else {
        return ProcessedRow(raw.row(first + i), *text.steps);
      }
    };
    return detail::RowsBy(feed.rows, vocab_size(), row);
  }
  void release(Index sequence) { texts_.erase(sequence); }

 private:
  struct Text {
    typename Changer::Text fed;
    std::optional<std::conditional_t<one_chain, Steps, detail::OfSequence<Steps>>> steps = {};
    std::tuple<Rows<float>, Rows<double>> changed = {};
    detail::RowErrors<true> errors = {};
  };

  decltype(auto) steps_of([[maybe_unused]] Index sequence) {
    if constexpr (one_chain) return (steps_);
    else return steps_(sequence);
  }

  M target_;
  Steps steps_;
  Changer changer_;
  detail::PerSequence<Text> texts_;
};

}  // namespace specdec
