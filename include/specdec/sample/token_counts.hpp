// How often each token occurs in a text, or in its last tokens.
#pragma once

#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The counts of the last `window` tokens of a text that grows and is taken back.
///
/// Throws std::invalid_argument: a negative window. A push that throws has changed nothing.
/// Cost: an expected O(1) for each token; each() goes over the distinct tokens. Memory: the text, and a hash table with
/// open addressing, at most half full. No allocation where both were as large before.
class TokenCounts {
 public:
  explicit TokenCounts(Index window) : window_(window) {
    if (window < 0) invalid_argument("last_n = ", window, " is negative");
  }

  void push(Token x) {
    if (window_ == 0) return;
    make_room();
    text_.push_back(x);
    add(x);
    if (size() > window_) drop(leaves_window(size()));
  }

  void pop(Index n) {
    if (window_ == 0) return;
    for (; n > 0; --n) {
      const Token last = text_.back();
      drop(last);
      if (size() > window_) add(leaves_window(size()));
      text_.pop_back();
    }
  }

  /// Calls visit(token, count) for each token that occurs, in no order.
  template <class Visit>
  void each(const Visit& visit) const {
    for (const Slot& slot : slots_)
      if (slot.count > 0) visit(slot.token, slot.count);
  }

 private:
  struct Slot {
    Token token = 0;
    Index count = 0;  // 0: empty
  };

  Index size() const { return std::ssize(text_); }
  // The token that is no longer counted once the text is so long.
  Token leaves_window(Index size) const { return text_[static_cast<std::size_t>(size - 1 - window_)]; }

  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t home(Token x) const {
    return static_cast<std::size_t>(SplitMix64(static_cast<std::uint32_t>(x))()) & mask();
  }
  // Where the token is, or would be.
  std::size_t find(Token x) const {
    std::size_t at = home(x);
    while (slots_[at].count > 0 && slots_[at].token != x) at = (at + 1) & mask();
    return at;
  }

  // For one token more; within pop() there are never more than there were before.
  void make_room() {
    if (2 * (distinct_ + 1) <= slots_.size()) return;
    TokenCounts larger(window_);
    larger.slots_.resize(std::bit_ceil(4 * (distinct_ + 4)));
    each([&](Token x, Index count) { larger.slots_[larger.find(x)] = {x, count}; });
    slots_ = std::move(larger.slots_);
  }

  void add(Token x) {
    Slot& slot = slots_[find(x)];
    if (slot.count == 0) ++distinct_;
    slot = {x, slot.count + 1};
  }

  void drop(Token x) {
    const std::size_t at = find(x);
    if (--slots_[at].count == 0) close_gap(at);
  }

  // Moves up what would no longer be found behind an empty slot.
  void close_gap(std::size_t gap) {
    --distinct_;
    for (std::size_t at = (gap + 1) & mask(); slots_[at].count > 0; at = (at + 1) & mask()) {
      const std::size_t from_home = (at - home(slots_[at].token)) & mask(), from_gap = (at - gap) & mask();
      if (from_home < from_gap) continue;
      slots_[gap] = slots_[at];
      slots_[at].count = 0;
      gap = at;
    }
  }

  Index window_;
  std::vector<Token> text_;
  std::vector<Slot> slots_;
  std::size_t distinct_ = 0;
};

}  // namespace specdec::detail
