// Going back, for what can only go forward.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Makes a TextProcessor of what has apply() and push(), and in place of pop() can be copied: keeps a copy from before each
/// of the last tokens.
///
///   Snapshots{state}        keeps 64
///   Snapshots{state, 16}
///
/// Whoever goes back further is brought there anew from the beginning, when it is next asked. Where push() throws or
/// refuses, it may leave the state in any condition.
/// Throws: std::invalid_argument: `most` below 1. What the state throws; this is then as before.
/// Cost: a copy of the state for each token pushed, a swap for each taken back. Memory: the text, and so many states. No
/// allocation of its own in steady state.
template <std::copyable State>
  requires std::is_nothrow_swappable_v<State>
class Snapshots {
 public:
  /// `most` is how many copies are kept: the longest way back that is cheap, which is that of the longest draft.
  explicit Snapshots(State state, Index most = 64) : first_(state), state_(std::move(state)), most_(most) {
    if (most < 1) detail::invalid_argument("most = ", most, ": there is a snapshot at least");
  }

  /// The state behind the text. Throws where it has to be brought there anew and that throws.
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
    try {
      save();
      if (push_saved(x)) return true;
    } catch (...) {
      text_.pop_back();
      throw;
    }
    text_.pop_back();
    return false;
  }

  void pop(Index n) {
    if (n < 1) return;
    text_.resize(text_.size() - static_cast<std::size_t>(n));
    if (lost_) return;
    if (size() >= oldest_) go_back();
    else lost_ = true;
  }

 private:
  Index size() const { return std::ssize(text_); }
  State& saved(Index length) { return saved_[static_cast<std::size_t>(length % most_)]; }
  void go_back() {
    using std::swap;
    swap(state_, saved(size()));
  }

  // Behind all of the text but its last token.
  void save() {
    const Index length = size() - 1;
    if (std::ssize(saved_) <= length % most_) {
      saved_.push_back(state_);
      return;
    }
    if (oldest_ <= length - most_)
      oldest_ = length - most_ + 1;  // what is written over, even if it fails half-way
    saved(length) = state_;
  }

  // Where it comes to nothing, the state is what was saved.
  bool push_saved(Token x) {
    const auto undo = [this] {
      using std::swap;
      swap(state_, saved(size() - 1));
    };
    try {
      if (push_token(state_, x)) return true;
    } catch (...) {
      undo();
      throw;
    }
    undo();
    return false;
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
  std::vector<State> saved_;  // by the length of their text, of which the last `most_` lengths are kept
  Index oldest_ = 0;          // the shortest text of which there is one
  bool lost_ = false;         // the state is not the text's
};

}  // namespace specdec
