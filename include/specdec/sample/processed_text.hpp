// The text of a model's context, and how far a processor has gone through it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A Text of FedTexts for a processor: how far the processor has gone through the context, and where it is in the open tree.
///
/// The processor is shown tokens when a row after them is wanted. After a throw, call truncate() or forget_from() to remove
/// the tokens of the call. Then the processor stands somewhere in the text as it was before the call.
template <class Processor>
class ProcessedText : public FedText {
 public:
  explicit ProcessedText(Processor processor) : processor_(std::move(processor)) {}

  /// How many tokens of the context the processor has taken in.
  Index seen() const { return seen_; }

  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    const Index size = tree().size() + std::ssize(parents);
    reserve(refused_, size);
    reserve(entered_, size);
    reserve(way_, size);
    depth_first_.reserve(static_cast<std::size_t>(size));
    new_tree_ = tree().empty();
    FedText::add(tokens, parents);
    resize(refused_, size);
  }

  /// Applies the processor to the last `rows` rows; logits(i) is the i-th row. Rows after a refused token are left
  /// unprocessed, in this call and in later ones, until the token is truncated away. A new draft may start with a refused
  /// token if the previous draft was rolled back to here, and the row before the token was wanted in an earlier call.
  /// Pre: the last call has added as many tokens or more.
  /// Throws: InvalidArgument if the processor refuses a token before all rows, or if it refuses a token that it has not
  /// forbidden; what the processor throws.
  template <class LogitsOf>
  void process(Index rows, const LogitsOf& logits) {
    if (rows < 1 || broken_off_) return;
    if (tree().empty()) return go_through_line(rows, logits);
    if (!pending().empty()) go_through_line(0, logits);
    const Index first = tree().size() - rows;
    depth_first_(tree().view(), rows, [&](Index end) { go_to(end, first, logits); });
  }

  KeptContext keep(std::span<const Index> path) {
    const Index common = common_length(path, entered_);
    leave(common);
    seen_ += common;
    asked_from_ = seen_;
    entered_.clear();
    refused_.clear();
    return FedText::keep(path);
  }

  void forget_from(Index node) {
    leave(std::lower_bound(entered_.begin(), entered_.end(), node) - entered_.begin());
    FedText::forget_from(node);
    resize(refused_, node);
  }

  KeptContext truncate(Index length) {
    leave(0);
    refused_.clear();
    const KeptContext kept = FedText::truncate(length);
    const Index seen = std::min(kept.length, seen_);
    if (seen < seen_ || (broken_off_ && kept.length == seen_)) fork_ = seen > asked_from_ ? seen : -1;
    asked_from_ = std::min(asked_from_, seen);
    if (seen < seen_) processor_.pop(seen_ - seen);
    seen_ = seen;
    if (pending().empty()) broken_off_ = false;
    return kept;
  }

 private:
  // The context's tokens that the processor has not taken in.
  std::span<const Token> pending() const { return detail::after(tokens(), seen_); }

  // Shows the processor the tokens of the context that it has not seen. After a throw it has seen none of them.
  template <class LogitsOf>
  void go_through_line(Index rows, const LogitsOf& logits) {
    const std::span<const Token> pending = this->pending();
    const Index size = std::ssize(pending), first = size - rows;
    Index taken = 0;
    const auto go = [&] {
      for (; taken < size; ++taken) {
        const Token x = at(pending, taken);
        if (!push_token(processor_, x)) {
          if (first == 0 && taken == 0 && seen_ == fork_) break;
          if (taken <= first) refuse_text(x, seen_ + taken);
          check_forbidden(logits(taken - first - 1), x);
          break;
        }
        if (taken < first) continue;
        auto row = logits(taken - first);
        undo_on_error([&] { processor_.apply(row); }, [&] { processor_.pop(1); });
      }
    };
    undo_on_error(go, [&] {
      if (taken > 0) processor_.pop(taken);
    });
    if (first > 0) asked_from_ = seen_ + first;
    seen_ += taken;
    broken_off_ = taken < size;
  }

  // Moves the processor to another node: back to where the two ways part, then forward. Nodes from number `first` on have
  // rows. The processor has not been at them yet.
  template <class LogitsOf>
  void go_to(Index end, Index first, const LogitsOf& logits) {
    tree().view().path_to(end, way_);
    leave(common_length(way_, entered_));
    for (std::size_t i = entered_.size(); i < way_.size(); ++i) {
      const Index node = way_[i];
      if (at(refused_, node) == 1 || !enter(node, first, logits)) return;
      if (node < first) continue;
      auto row = logits(node - first);
      processor_.apply(row);
    }
  }

  template <class LogitsOf>
  bool enter(Index node, Index first, const LogitsOf& logits) {
    const Token x = tree().token(node);
    if (push_token(processor_, x)) {
      entered_.push_back(node);
      return true;
    }
    if (new_tree_ && node <= first) refuse_text(x, seen_ + node);
    if (tree().parent(node) >= first) check_forbidden(logits(tree().parent(node) - first), x);
    at(refused_, node) = 1;
    return false;
  }

  // Goes back: only the first `kept` nodes of the processor's way stay.
  void leave(Index kept) {
    const Index left = std::ssize(entered_) - kept;
    if (left == 0) return;
    processor_.pop(left);
    resize(entered_, kept);
  }

  [[noreturn]] static void refuse_text(Token x, Index place) {
    invalid_argument(
        "token ", place, " of the text is ", x,
        ", which the processor refuses: it sees the prompt, too, where no AfterPrompt leaves it out");
  }

  // A refused token that is not forbidden would be drawn one day, and the text could not go on.
  template <class Logits>
  static void check_forbidden(Logits logits, Token x) {
    using Scalar = typename Logits::Scalar;
    const Scalar* logit = nullptr;  // another rank may have it, or no row
    if constexpr (requires { logits.find(x); }) logit = logits.find(x);
    else if (x >= 0 && x < logits.size()) logit = &logits[x];
    if (logit != nullptr && *logit != -std::numeric_limits<Scalar>::infinity())
      invalid_argument("the processor refuses token ", x, ", which it leaves a logit of ", *logit,
                       ": what it refuses has to be forbidden");
  }

  Processor processor_;
  Index seen_ = 0;
  bool broken_off_ = false;  // the first pending token is a draft's, and was refused
  Index asked_from_ = 0;     // rows after this token and later tokens were wanted
  Index fork_ = -1;          // a draft was rolled back to here after such a row: a new draft may begin here
  bool new_tree_ = false;    // no tree was open before the last call
  std::vector<Index> refused_;  // for each node 1 if the processor refuses it, else 0
  std::vector<Index> entered_;  // the processor's way through the tree
  std::vector<Index> way_;
  DepthFirst depth_first_;
};

}  // namespace specdec::detail
