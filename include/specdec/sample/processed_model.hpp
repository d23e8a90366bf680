// Turns a model that returns logits into a model of the distributions that tokens are sampled from.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/model_logits.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/sample/steps_of_rows.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/sample/texts_of_model.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// No hook: the chain reads the model's rows without a copy.
struct NoHook {};

namespace detail {

/// Without a hook no text is kept: the model alone is told what becomes of them.
struct NoTexts {
  explicit NoTexts(NoHook) {}

  bool keep(Index sequence, std::span<const Index> path, auto& model) {
    model.keep(sequence, path);
    return true;  // the model knows its contexts
  }
  void truncate(Index sequence, Index length, auto& model) { model.keep(sequence, length); }
  void forget(Index sequence, auto& model) { model.release(sequence); }
  void fork(Index from, Index to, auto& model) { model.fork(from, to); }
};

/// Compiles only if rows of logits can be processed by these steps and this hook. Some columns of them need a hook.
template <class Steps, class Hook, class Logits, bool of_columns>
consteval bool fits_processing() {
  static_assert(RowStep<Steps> || RowStep<OfSequence<Steps>>,
                "the chain is no specdec::RowStep, such as specdec::Chain, and no function that tells one by "
                "a specdec::Index");
  static_assert(
      ChangesLogits<Hook, Logits> || (std::same_as<Hook, NoHook> && !of_columns),
      "the hook is no specdec::TextProcessor, no function that tells one by a specdec::Index, and cannot be "
      "called with (std::span<const specdec::Token>, logits of a row), nor with a specdec::Index before "
      "them. The logits are an Eigen::Ref, or a specdec::PartialLogits if the model returns some columns");
  return true;
}

}  // namespace detail

/// Wraps a model of logits. Target and drafter are then processed alike, and the reported q is the q that tokens were drawn
/// from. The wrapped model's calls return one matrix of logits in place of probabilities. It takes trees if the model does.
/// In place of a model it may have an ExternalTarget, whose logits the caller hands in: sample/processed_target.hpp.
///
///   ProcessedModel target{engine, Chain{Temperature{0.8}, TopP{0.95}}};
///   ProcessedModel target{engine, chain, hook};
///   ProcessedModel target{engine, chain, Processors{RepetitionPenalty{1.1}, Grammar{matcher}}};
///   ProcessedModel target{engine, Grammar{matcher}};
///
/// A hook is a function of yours that changes logits, for example a penalty or a grammar (a logit of −inf forbids a
/// token). It is called for every row, before the chain:
///
///   hook(std::span<const Token> context, Eigen::Ref<Eigen::Matrix<Scalar, 1, Eigen::Dynamic>> logits)
///
/// `context` is all tokens before the row, and `logits` a copy of the row's, which the hook may change. Scalar is float, or
/// double if the model's logits are. The hook must depend on these arguments alone: it is called again after a rollback, and must
/// process target and drafter alike. If it leaves no finite logit in a row, a draw from it throws InvalidDistribution.
///
/// A TextProcessor may take the place of the hook. It keeps what it needs of the text. It is shown each token once, prompt
/// included, when a row after the token is wanted. A rollback takes back the tokens. A drafted token that it refuses has
/// probability 0. Rows after a refused token are left unprocessed; they are never used. After a rollback to 0 tokens it
/// begins another text; for other settings make another wrapper around the same model.
///
/// With many texts, each sequence may have its own chain or processor. A function of the sequence's number returns it:
///
///   ProcessedModel target{many, [&](Index sequence) -> const auto& { return requests.at(sequence).chain; }};
///   ProcessedModel target{many, chain, [&](Index sequence) { return Grammar{requests.at(sequence).matcher}; }};
///
/// The function for chains is called before each call of the model, once for each feed with wanted rows. Neutral values
/// switch a step off, so that one type of chain serves all requests. The function for processors is called when a sequence
/// begins. If a processor is given instead, each sequence begins with a copy of it. A twin (fork(from, to)) has a processor of
/// its own in the same way, which is shown the text. Both functions are called on the thread that calls
/// forward() or fork(). A hook may also take the sequence's number: hook(Index sequence, context, logits).
///
/// If the vocabulary is spread over ranks, the model returns LogitColumns. This wrapper then returns LogitColumns, too, and
/// the chain goes to the ShardedModel around it. The processor or hook of each rank is handed that rank's columns as
/// PartialLogits. If it throws about a row, that row fails on all ranks:
///
///   ShardedModel target{ProcessedModel{mine, Grammar{matcher}}, ranks, source, chain};      // on every rank
///
/// A wrapper: see model/feeds.hpp. Chain and hook are taken by value, as functions are in the standard library. Each text
/// begins with a copy of the processor.
/// Throws: InvalidArgument if the model returns logits of the wrong shape, or if a processor refuses a token of the context or a
/// token that it has not forbidden; what the model, the hook, the processor and the functions of the sequence's number throw.
/// With a hook or a processor also InvalidCall on a line (a feed without parents) while the sequence's tree is open, and for many
/// texts InvalidArgument if a context does not hold feed.from tokens. Contexts and open trees are then as before. Tokens of the
/// failed call still take room in the model's own tree, until that tree is closed. With many texts, the error of a hook or
/// processor about a row, or a refused token before the row, is thrown when row(i) asks for that row: only that sequence fails.
/// Cost: none without a hook or processor, else a copy of each row. If sequences have their own chains, also a copy of a
/// chain for each row. No allocation in steady state.
template <class M, class Steps, class Hook = NoHook>
class ProcessedModel : public detail::WrapsModel<ProcessedModel<M, Steps, Hook>, M> {
  using Base = detail::WrapsModel<ProcessedModel, M>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(!is_external<Bare>, "include <specdec/sample/processed_target.hpp>");
  static_assert(detail::can_be_wrapped<Bare>());
  using Logits = detail::OutputOf<Bare>;
  static constexpr bool of_columns = detail::ColumnsOfLogits<std::remove_cvref_t<Logits>>;
  static_assert(!detail::returns_spread_rows<Logits>(),
                "the rows of a specdec::ShardedModel are drawn from already: processors come before it, as "
                "in specdec::ShardedModel{specdec::ProcessedModel{model, processor}, ranks, source, chain}");
  static_assert(NumberMatrix<Logits> || of_columns || detail::returns_spread_rows<Logits>(),
                "the model returns no logits: its forward() returns those of all rows as one Eigen matrix, "
                "RowPointers or RowVectors, or a rank's as specdec::LogitColumns");
  static_assert(!of_columns || std::same_as<Steps, Chain<>>,
                "a chain cuts whole rows, and the model returns some columns of them: over ranks the chain "
                "is an argument of specdec::ShardedModel, which this model is the model of");

  using LogitsRef = detail::LogitsRef<Logits>;
  using Buffer = Eigen::Matrix<typename LogitsRef::Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static constexpr bool has_hook = !std::same_as<Hook, NoHook>;
  static constexpr bool returns_matrix = detail::OwningTemporary<Logits>;
  static_assert(detail::fits_processing<Steps, Hook, LogitsRef, of_columns>());

 public:
  /// Rows that are not copied live as long as the model's own.
  static constexpr bool stable_rows = has_stable_rows<Bare> && RowStep<Steps> && !has_hook && !returns_matrix;

  /// Whether this or the model inside remembers its context: see knows_its_context.
  static constexpr bool keeps_context = has_hook || knows_its_context<Bare>;
  /// The hook or processor is shown the tokens of adopt().
  static constexpr bool adopts = can_adopt<Bare>;

  ProcessedModel(M&& model, Steps steps, Hook hook = {})
      : Base(std::forward<M>(model)), steps_(std::move(steps)), texts_(std::move(hook)) {}
  ProcessedModel(M&& model, Hook hook)
    requires(has_hook && std::same_as<Steps, Chain<>>)
      : ProcessedModel(std::forward<M>(model), Chain<>{}, std::move(hook)) {}

  void check_number(Index sequence) {
    steps_.check_number(sequence);
    if constexpr (has_hook) texts_.check_number(sequence);
    Base::check_number(sequence);
  }

 private:
  auto forward_feeds(std::span<const BatchFeed> feeds) {
    steps_.ask(feeds);
    if constexpr (has_hook) return Base::forward_feeds(feeds);
    else return view(ask(feeds), feeds);
  }
  auto begin_text(Index sequence) { return texts_.begin_text(sequence); }

  void adopt_text(Index sequence, std::span<const Token> tokens) {
    this->inner().adopt(sequence, tokens);
    if constexpr (has_hook)
      texts_.adopt(sequence, tokens, [this](Index number) { return begin_text(number); });
  }

  // Calls the model. Logits that it returns by value are kept until the next call.
  decltype(auto) ask(std::span<const BatchFeed> feeds) {
    if constexpr (returns_matrix) return (kept_ = this->inner().forward(feeds));
    else return this->inner().forward(feeds);
  }

  // Whether the columns of all ranks make up the vocabulary they check together.
  void check_logits(const auto& logits, Index rows) const {
    const Index vocab_size = this->vocab_size();
    detail::check_shape("model", logits.rows(), of_columns ? vocab_size : logits.cols(), rows, vocab_size);
  }

  template <class Matrix>
  auto view(const Matrix& logits, std::span<const BatchFeed> feeds) {
    detail::undo_on_error([&] { check_logits(logits, detail::rows_of(feeds)); },
                          [&] {
                            for (const BatchFeed& feed : feeds) this->inner().keep(feed.sequence, feed.from);
                          });
    return steps_.of(logits);
  }

  // Lets the hook or the processor change a copy of the logits.
  auto rows_after(std::span<const BatchFeed> feeds, std::span<const BatchFeed> of_model) {
    const auto& logits = ask(of_model);
    texts_.taken(feeds);
    const Index rows = detail::rows_of(feeds);
    check_logits(logits, rows);
    detail::copy_rows(detail::numbers_of(logits), 0, rows, output_);
    if constexpr (of_columns) {
      const Index first = logits.first(), size = this->vocab_size();
      texts_.change(feeds, [&](Index i) { return LogitsRef(output_.row(i), first, size); });
      return logits.changed(output_.topRows(rows), texts_.errors());
    } else {
      texts_.change(feeds, [this](Index i) { return LogitsRef(output_.row(i)); });
      const auto changed_row = [changed = steps_.of(output_.topRows(rows)), raw = numbers(logits)](Index i) {
        return detail::ChangedRow(changed.row(i), raw.row(i));
      };
      return texts_.with_errors(detail::RowsBy(rows, this->vocab_size(), changed_row));
    }
  }

  detail::StepsOfRows<Steps> steps_;
  // The tokens that the model was fed, for the hook. One text fails as a whole.
  std::conditional_t<has_hook, detail::TextsOfModel<Hook, LogitsRef, !Base::one_text || of_columns>,
                     detail::NoTexts>
      texts_;
  typename decltype(detail::kept_as<Logits>())::type kept_;
  Buffer output_;  // the changed logits
};

template <class M, class Steps>
ProcessedModel(M&&, Steps) -> ProcessedModel<M, Steps>;
template <class M, class Hook>
  requires(!RowStep<Hook> && !RowStep<detail::OfSequence<Hook>>)
ProcessedModel(M&&, Hook) -> ProcessedModel<M, Chain<>, Hook>;
template <class M, class Steps, class Hook>
ProcessedModel(M&&, Steps, Hook) -> ProcessedModel<M, Steps, Hook>;

}  // namespace specdec
