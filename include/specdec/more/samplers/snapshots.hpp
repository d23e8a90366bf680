// Rollback for processors that can only go forward.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Makes a TextProcessor of a class that has apply() and push() and can be copied, but has no pop(). Keeps a copy from
/// before each of the last tokens.
///
///   Snapshots{state}        keeps 64 copies
///   Snapshots{state, 16}
///
/// To go back further than the copies reach, the text is pushed again from its beginning, at the next push() or apply().
/// The state's own push() may leave it in any condition when it throws or refuses.
/// Throws: InvalidArgument if `most` is below 1; what the state throws, and then this is as before.
/// Cost: a copy of the state for each pushed token, a swap for each pop(). No allocation of its own in steady state.
/// Memory: the text and `most` states.
template <std::copyable State>
  requires std::is_nothrow_swappable_v<State>
class Snapshots {
 public:
  /// `most` is how many copies are kept. Going back by at most `most` tokens is cheap: choose the longest draft's length.
  explicit Snapshots(State state, Index most = 64) : first_(state), state_(std::move(state)), most_(most) {
    if (most < 1) detail::invalid_argument("most = ", most, ": there is a snapshot at least");
  }

  /// The state after the text.
  /// Throws: what pushing the text again throws, if that is needed.
  State& state() & {
    bring_forward();
    return state_;
  }

  template <class Logits>
    requires requires(State& state, Logits& logits) { state.apply(logits); }
  void apply(Logits&& logits) {
    state().apply(logits);
  }

  bool push(Token x) {
    bring_forward();
    text_.push_back(x);
    const auto try_push = [&] {
      save();
      return push_saved(x);
    };
    const bool pushed = detail::undo_on_error(try_push, [&] { text_.pop_back(); });
    if (!pushed) text_.pop_back();
    return pushed;
  }

  void pop(Index n) {
    if (n < 1) return;
    detail::resize(text_, std::ssize(text_) - n);
    if (lost_) return;
    if (size() >= oldest_) rewind(size());
    else lost_ = true;
  }

 private:
  Index size() const { return std::ssize(text_); }
  State& saved(Index length) { return detail::at(saved_, length % most_); }
  void rewind(Index length) {
    using std::swap;
    swap(state_, saved(length));
  }

  // Saves the state, which is the one before the text's last token.
  void save() {
    const Index length = size() - 1;
    if (std::ssize(saved_) <= length % most_) {
      saved_.push_back(state_);
      return;
    }
    oldest_ = std::max(oldest_, length - most_ + 1);  // the oldest copy is lost even if the next line throws
    saved(length) = state_;
  }

  // If the push throws or is refused, goes back to the saved state.
  bool push_saved(Token x) {
    const auto undo = [this] { rewind(size() - 1); };
    const bool pushed = detail::undo_on_error([&] { return push_token(state_, x); }, undo);
    if (!pushed) undo();
    return pushed;
  }

  void bring_forward() {
    if (!lost_) return;
    state_ = first_;
    for (const Token x : text_)
      if (!push_token(state_, x))
        detail::invalid_argument("a processor refuses token ", x, ", which it has taken in before");
    oldest_ = size();
    lost_ = false;
  }

  State first_, state_;
  Index most_;
  std::vector<Token> text_;
  std::vector<State> saved_;  // copies for the last `most_` lengths of the text, at length % most_
  Index oldest_ = 0;          // the shortest length with a copy
  bool lost_ = false;         // the state does not belong to the text: push the text again
};

}  // namespace specdec
