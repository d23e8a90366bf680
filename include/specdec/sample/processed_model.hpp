// A model of logits as a model of the distributions that are sampled.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/sample/processed_text.hpp"
#include "specdec/sample/text_processor.hpp"

namespace specdec {

/// As Model, but forward() returns the logits: what an engine has at hand.
template <class M>
concept LogitsModel = requires(M& model, const M& constant, std::span<const Token> tokens, Index n) {
  { constant.vocab_size() } -> detail::Count;
  { model.forward(tokens, n) } -> NumberMatrix;
  model.truncate(n);
};

/// A model that takes trees, whose calls return logits in place of probabilities, for a line and for a tree in one type.
template <class M>
concept LogitsTreeModel = LogitsModel<M> && requires(M& model, std::span<const Token> tokens,
                                                     std::span<const Index> numbers, Index n) {
  { model.forward(tokens, numbers, n) } -> std::same_as<decltype(model.forward(tokens, n))>;
  model.keep(numbers);
};

namespace detail {

template <class M>
using LogitsOf = decltype(std::declval<M&>().forward(std::span<const Token>{}, Index{}));

/// One row of logits to be changed in place, in the arithmetic of the model's logits.
template <class Logits>
using LogitsRef = Eigen::Ref<
    Eigen::Matrix<typename std::remove_cvref_t<decltype(std::declval<NumbersOf<Logits>&>().row(0))>::Scalar,
                  1, Eigen::Dynamic>>;

/// What logits that are returned as a matrix are kept as; nothing of others.
template <class Logits, bool kept>
struct KeptAs {
  struct Type {};
};
template <class Logits>
struct KeptAs<Logits, true> {
  using Type = Logits;
};
template <class Logits>
  requires requires { typename Logits::PlainObject; }
struct KeptAs<Logits, true> {
  using Type = typename Logits::PlainObject;
};

template <class Logits>
void check_shape(const Logits& logits, Index rows, Index vocab_size) {
  if (logits.rows() != rows || (rows > 0 && logits.cols() != vocab_size))
    invalid_argument("the model returned logits of ", logits.rows(), " rows over ", logits.cols(),
                     " tokens, expected ", rows, " rows over its vocabulary of ", vocab_size);
}

}  // namespace detail

/// No hook: the rows of the model go through the chain where they lie.
struct NoHook {};

/// Wraps a model of logits, so that target and drafter are processed alike and the q that is reported is the q
/// that was drawn from. Satisfies Model, and takes trees where the model is a LogitsTreeModel.
///
///   ProcessedModel target{engine, Chain{Temperature{0.8}, TopP{0.95}}};
///   ProcessedModel target{engine, chain, hook};
///
/// A hook is a processor of your own that sees the context: penalties, a grammar (a logit of −inf forbids a
/// token). It is called for every row before the chain, as
///
///   hook(std::span<const Token> context, Eigen::Ref<Eigen::Matrix<Scalar, 1, Eigen::Dynamic>> logits)
///
/// with the tokens that the row follows and a copy of its logits that it may change; Scalar is float, or
/// double where the model's logits are. It must depend on these arguments alone: it is asked again about a
/// context that has been rolled back, and for target and drafter the text must be processed alike. A row that
/// it leaves without a finite logit is an InvalidDistribution once it is read.
///
/// A TextProcessor in its place keeps of the text what it needs: Processors{RepetitionPenalty{1.1}, Grammar{matcher}}. It
/// is shown each token once, the prompt's, too, when a row behind it is asked for, and taken back with the context. Where it
/// refuses a drafted token, which has probability 0 then, the rows behind that are the model's own: they decide nothing. It may
/// go on to another text, which begins anew; for other settings make another wrapper around the same model.
///
/// A model passed as an lvalue is referred to and must outlive this; an rvalue is moved in. Give it with an
/// empty context.
/// Throws: std::invalid_argument where the model returns logits of another shape than asked for, and where a processor
/// refuses a token of the context, or one that it has not forbidden; what the model, the hook and the processor throw. With
/// a hook or a processor the context is then rolled back to what it was before; an open tree, too, but for room that is lost
/// in the model's own until keep() or truncate(). With one of them, std::logic_error on forward(tokens, rows) while a tree
/// is open.
/// Cost: without a hook none; with one, or a processor, a copy of each row asked for. No allocation in steady state.
template <class M, RowStep Steps, class Hook = NoHook>
class ProcessedModel {
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::sized_and_truncatable<Bare>());
  static_assert(
      LogitsModel<Bare>,
      "the model is no specdec::LogitsModel: its forward(tokens, rows) returns logits, as an Eigen matrix, "
      "RowPointers or RowVectors");

  using LogitsRef = detail::LogitsRef<detail::LogitsOf<Bare>>;
  using Buffer = Eigen::Matrix<typename LogitsRef::Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static constexpr bool has_hook = !std::same_as<Hook, NoHook>;
  static constexpr bool returns_matrix = detail::OwningTemporary<detail::LogitsOf<Bare>>;
  static_assert(!has_hook || TextProcessor<Hook, LogitsRef> ||
                    std::invocable<Hook&, std::span<const Token>, LogitsRef>,
                "the hook cannot be called with (std::span<const Token>, Eigen::Ref of a row of logits), and "
                "is no specdec::TextProcessor");

 public:
  /// Where the rows are those of the model itself, they live as long.
  static constexpr bool stable_rows = has_stable_rows<Bare> && !has_hook && !returns_matrix;

  ProcessedModel(M&& model, Steps steps, Hook hook = {})
      : model_(std::forward<M>(model)), steps_(std::move(steps)), context_(std::move(hook)) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return specdec::context_size(model_); }

  /// Whether the context is kept, for the hook or the processor, or by the model: what somebody else fed it is not in it.
  static constexpr bool keeps_context = has_hook || knows_its_context<Bare>;

  /// The model, where others may refer to it, too: two wrappers around one model share its context.
  const void* identity() const
    requires detail::MayBeShared<M>
  {
    return detail::identity(model_);
  }

  auto forward(std::span<const Token> tokens, Index rows) & {
    if constexpr (has_hook) return hooked(tokens, rows);
    else return view(ask(tokens, rows), rows);
  }

  auto forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) &
        requires LogitsTreeModel<Bare>
  {
    if constexpr (has_hook) return hooked(tokens, parents, rows);
    else return view(ask(tokens, parents, rows), rows);
  }

  void keep(std::span<const Index> path)
    requires LogitsTreeModel<Bare>
  {
    if constexpr (has_hook) {
      context_.check_path(path);
      model_.keep(context_.of_model(path));
      context_.keep(path);
    } else {
      model_.keep(path);
    }
  }

  void truncate(Index length) {
    model_.truncate(length);
    context_.truncate(length);
  }

 private:
  // The model's logits, which then stay until the next call.
  template <class... Arguments>
  decltype(auto) ask(const Arguments&... arguments) {
    if constexpr (returns_matrix) return (kept_ = model_.forward(arguments...));
    else return model_.forward(arguments...);
  }

  template <class Logits>
  auto view(const Logits& logits, Index rows) const {
    detail::check_shape(logits, rows, vocab_size());
    return ProcessedRows(logits, steps_);
  }

  auto hooked(std::span<const Token> tokens, Index rows) {
    if (context_.tree_size() > 0)
      throw std::logic_error(
          "specdec: forward(tokens, rows) while a tree is open: keep(path) or truncate(length) closes it");
    const Index length = context_.length();
    context_.add(tokens);
    try {
      const auto& logits = ask(tokens, rows);
      return changed(logits, rows);
    } catch (...) {
      truncate(length);
      throw;
    }
  }

  auto hooked(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    const Index length = context_.length(), nodes = context_.tree_size();
    context_.add(tokens, parents);
    try {
      const auto& logits = ask(tokens, context_.of_model(parents), rows);
      context_.taken(std::ssize(tokens));
      return changed(logits, rows);
    } catch (...) {
      context_.forget_from(nodes);
      if (nodes == 0) truncate(length);
      throw;
    }
  }

  // Copies the logits and lets the hook, or the processor, change the copy.
  template <class Logits>
  auto changed(const Logits& logits, Index rows) {
    detail::check_shape(logits, rows, vocab_size());
    if (output_.rows() < rows || output_.cols() != vocab_size()) output_.resize(rows, vocab_size());
    const auto from = numbers(logits);
    for (Index i = 0; i < rows; ++i) from.row(i).read(0, vocab_size(), output_.row(i).data());
    context_.process(rows, [this](Index i) { return LogitsRef(output_.row(i)); });
    return detail::ChangedRows(ProcessedRows(output_.topRows(rows), steps_), from);
  }

  M model_;
  Steps steps_;
  detail::TextOf<Hook, LogitsRef> context_;  // what the model has been fed, for the hook
  typename detail::KeptAs<std::remove_cvref_t<detail::LogitsOf<Bare>>, returns_matrix>::Type kept_;
  Buffer output_;  // what the hook has changed
};

template <class M, class Steps>
ProcessedModel(M&&, Steps) -> ProcessedModel<M, Steps>;
template <class M, class Steps, class Hook>
ProcessedModel(M&&, Steps, Hook) -> ProcessedModel<M, Steps, Hook>;

}  // namespace specdec
