// The texts in a model's contexts, as what changes its logits sees them.
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/sample/hooked_context.hpp"
#include "specdec/sample/processed_text.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Tells the processor that a sequence begins with by its number.
template <class F, class Logits>
concept ProcessorOfSequence = !TextProcessor<F, Logits> && std::invocable<F&, Index> &&
                              TextProcessor<std::remove_cvref_t<std::invoke_result_t<F&, Index>>, Logits>;

namespace detail {

template <class Hook, class Logits>
concept ContextHook = std::invocable<Hook&, std::span<const Token>, Logits>;
template <class Hook, class Logits>
concept SequenceHook = std::invocable<Hook&, Index, std::span<const Token>, Logits>;

/// What changes logits, and the text that it needs of each sequence: a hook's, which is shown all of it for each row.
template <class Hook, class Logits>
class LogitsChanger {
 public:
  using Text = HookedContext;

  explicit LogitsChanger(Hook hook) : hook_(std::move(hook)) {}

  Text begin(Index) { return {}; }

  /// Changes the `rows` rows from number `first` on, of which logits(i) is number i.
  template <class LogitsOf, class Errors>
  void process(Index sequence, Text& text, Index first, Index rows, const LogitsOf& logits, Errors& errors) {
    for (Index i = 0; i < rows; ++i)
      errors.about(first + i, 1, [&] { change(sequence, text.before(i, rows), logits(first + i)); });
  }

 private:
  void change(Index sequence, std::span<const Token> context, Logits logits) {
    if constexpr (SequenceHook<Hook, Logits>) hook_(sequence, context, logits);
    else hook_(context, logits);
  }

  Hook hook_;
};

/// A processor's, of which each sequence has a copy, or one of its own.
template <class P, class Logits>
  requires(TextProcessor<P, Logits> || ProcessorOfSequence<P, Logits>)
class LogitsChanger<P, Logits> {
  static auto processor_of(P& given, [[maybe_unused]] Index sequence) {
    if constexpr (TextProcessor<P, Logits>) return given;
    else return given(sequence);
  }

 public:
  using Text = ProcessedText<decltype(processor_of(std::declval<P&>(), Index{}))>;

  explicit LogitsChanger(P processor) : processor_(std::move(processor)) {}

  Text begin(Index sequence) { return Text(processor_of(processor_, sequence)); }

  template <class LogitsOf, class Errors>
  void process(Index, Text& text, Index first, Index rows, const LogitsOf& logits, Errors& errors) {
    errors.about(first, rows, [&] { text.process(rows, [&](Index i) { return logits(first + i); }); });
  }

 private:
  P processor_;
};

/// The texts of a model's contexts, kept for a hook or a processor, and what these throw about rows, if it is to be kept.
template <class Hook, class Logits, bool for_many, bool keeps_errors = for_many>
class TextsOfModel {
  using Changer = LogitsChanger<Hook, Logits>;
  using Text = typename Changer::Text;

 public:
  explicit TextsOfModel(Hook hook) : changer_(std::move(hook)) {}

  /// Takes all feeds into their texts, or, after a throw, none. The feeds by the numbers that the model knows the nodes of
  /// trees by; they live until the next call.
  /// Throws: std::invalid_argument where a context does not hold feed.from tokens, and on parents that make no tree;
  /// std::logic_error on a line while the sequence's tree is open; what the function throws that tells a processor.
  std::span<const BatchFeed> enter(std::span<const BatchFeed> feeds) {
    of_model_.assign(feeds.begin(), feeds.end());
    nodes_.resize(feeds.size());
    std::size_t k = 0;
    try {
      for (; k < feeds.size(); ++k) enter(k);
    } catch (...) {
      leave(feeds.first(k));
      throw;
    }
    return of_model_;
  }

  /// The model has taken the feeds in.
  void taken(std::span<const BatchFeed> feeds) {
    for (const BatchFeed& feed : feeds)
      if (!feed.parents.empty()) texts_.at(feed.sequence).taken(std::ssize(feed.tokens));
  }

  /// Whether feed number k of the call found a tree open.
  bool found_tree(std::size_t k) const { return nodes_[k] > 0; }

  /// Takes feeds back that were taken in.
  void leave(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      Text& text = texts_.at(feeds[k].sequence);
      text.forget_from(nodes_[k]);
      if (!found_tree(k)) text.truncate(feeds[k].from);
      if (text.length() + text.tree_size() == 0) texts_.erase(feeds[k].sequence);
    }
  }

  /// Changes the rows of the feeds, of which logits(i) is number i.
  template <class LogitsOf>
  void change(std::span<const BatchFeed> feeds, const LogitsOf& logits) {
    errors_.begin(rows_of(feeds));
    Index first = 0;
    for (const BatchFeed& feed : feeds) {
      changer_.process(feed.sequence, texts_.at(feed.sequence), first, feed.rows, logits, errors_);
      first += feed.rows;
    }
  }

  /// What was thrown about each row. It lives until the next call.
  std::span<const std::exception_ptr> errors() const { return errors_.all(); }
  /// The rows that were changed, with what was thrown about them.
  template <class Rows>
  auto with_errors(const Rows& rows) const {
    return errors_.in(rows);
  }

  /// A way of the tree by the numbers that the model knows its nodes by. They live until the next call.
  std::span<const Index> of_model(Index sequence, std::span<const Index> path) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return path;
    text->check_path(path);
    return text->of_model(path);
  }
  void keep(Index sequence, std::span<const Index> path) {
    if (Text* const text = texts_.find(sequence)) text->keep(path);
  }
  void truncate(Index sequence, Index length) {
    if (Text* const text = texts_.find(sequence)) text->truncate(length);
  }
  void forget(Index sequence) { texts_.erase(sequence); }

 private:
  void enter(std::size_t k) {
    const Index sequence = of_model_[k].sequence;
    if (Text* const known = texts_.find(sequence)) return enter(k, *known);
    Text& begun = texts_.make(sequence, changer_.begin(sequence));
    try {
      enter(k, begun);
    } catch (...) {
      texts_.erase(sequence);
      throw;
    }
  }
  void enter(std::size_t k, Text& text) {
    BatchFeed& feed = of_model_[k];
    const FeedCheck<for_many> check{feed, k};
    check.from(text.length());
    nodes_[k] = text.tree_size();
    check.branches(nodes_[k] > 0);
    if (feed.parents.empty()) return text.add(feed.tokens);
    text.add(feed.tokens, feed.parents);
    feed.parents = text.of_model(feed.parents);
  }

  Changer changer_;
  PerSequence<Text, for_many> texts_;
  std::vector<BatchFeed> of_model_;
  std::vector<Index> nodes_;  // of each feed's tree, before the call
  RowErrors<keeps_errors> errors_;
};

}  // namespace detail

}  // namespace specdec
