// The texts in a model's contexts, kept for a hook or a processor.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <exception>
#include <span>
#include <utility>

#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/sample/processed_text.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A hook or a processor that changes logits, or a function of a sequence's number that returns the sequence's processor.
template <class Hook, class Logits>
concept ChangesLogits = TextProcessor<Hook, Logits> || TextProcessor<OfSequence<Hook>, Logits> ||
                        std::invocable<Hook&, std::span<const Token>, Logits> ||
                        std::invocable<Hook&, Index, std::span<const Token>, Logits>;

/// Changes logits by a hook. The Text of a sequence is its whole context, which the hook is shown for each row.
template <class Hook, class Logits>
class LogitsChanger {
 public:
  using Text = FedText;

  explicit LogitsChanger(Hook hook) : hook_(std::move(hook)) {}

  Text begin(Index) { return {}; }

  /// Changes `rows` rows from number `first` on. logits(i) is row number i.
  template <class LogitsOf, class Errors>
  void process(Index sequence, Text& text, Index first, Index rows, const LogitsOf& logits, Errors& errors) {
    for (Index i = 0; i < rows; ++i)
      errors.about(first + i, 1, [&] { change(sequence, before(text, i, rows), logits(first + i)); });
  }

 private:
  // All tokens before the i-th of the last `rows` rows. They live until the next call.
  static std::span<const Token> before(Text& text, Index i, Index rows) {
    if (text.tree().empty()) return first(text.tokens(), text.length() - rows + 1 + i);
    return text.up_to(text.tree().size() - rows + i);
  }
  void change(Index sequence, std::span<const Token> context, auto logits) {
    if constexpr (std::invocable<Hook&, Index, std::span<const Token>, decltype(logits)>)
      hook_(sequence, context, logits);
    else hook_(context, logits);
  }

  Hook hook_;
};

/// Changes logits by a processor. Each sequence has a copy of the processor, or one of its own.
template <class P, class Logits>
  requires(TextProcessor<P, Logits> || TextProcessor<OfSequence<P>, Logits>)
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

/// Adds a feed to a Text that may have been shown other tokens than these, which come before the feed.
template <class Text>
void add_after(std::span<const Token> context, const Feed& feed, Text& text) {
  text.truncate(std::min(common_length(text.tokens(), context), text.seen()));
  text.add(after(context, text.length()), {});
  text.add(feed.tokens, feed.parents);
}

/// The texts of a model's contexts, kept for a hook or a processor. Also keeps their exceptions about rows, if keeps_errors.
template <class Hook, class Logits, bool keeps_errors>
class TextsOfModel : public FedTexts<typename LogitsChanger<Hook, Logits>::Text> {
  using Text = typename LogitsChanger<Hook, Logits>::Text;

 public:
  explicit TextsOfModel(Hook hook) : changer_(std::move(hook)) {}

  Text begin_text(Index sequence) { return changer_.begin(sequence); }
  void check_number(Index sequence) { changer_.begin(sequence); }

  /// A processor of the twin's own goes through the text again: a copy might refer to what the other processor refers to.
  template <class Model>
  void fork(Index from, Index to, Model& model) {
    const auto twin_of = [&](const Text& text) {
      Text twin = changer_.begin(to);
      twin.FedText::operator=(text);
      return twin;
    };
    TextsOfModel::FedTexts::fork(from, to, model, twin_of);
  }

  /// Changes the rows of the feeds. logits(i) is row number i.
  template <class LogitsOf>
  void change(std::span<const BatchFeed> feeds, const LogitsOf& logits) {
    errors_.begin(rows_of(feeds));
    Index first = 0;
    for (const BatchFeed& feed : feeds) {
      changer_.process(feed.sequence, this->at(feed.sequence), first, feed.rows, logits, errors_);
      first += feed.rows;
    }
  }

  /// The exception about each row, or null. They live until the next call.
  std::span<const std::exception_ptr> errors() const { return errors_.all(); }
  /// The changed rows, with the exceptions about them.
  template <class Rows>
  auto with_errors(const Rows& rows) const {
    if constexpr (keeps_errors)
      return RowsBy(rows.rows(), rows.vocab_size(), [rows, errors = errors_.all()](Index i) {
        rethrow_error_of(errors, i);
        return rows.row(i);
      });
    else return rows;
  }

 private:
  LogitsChanger<Hook, Logits> changer_;
  RowErrors<keeps_errors> errors_;
};

}  // namespace specdec::detail
