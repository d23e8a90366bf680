// How often each token occurs in a text, or in its last tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Counts the last `window` tokens of a text that can grow and be rolled back.
/// Throws: InvalidArgument if the window is negative. A push that throws has changed nothing.
/// Cost: expected O(1) for each token; each() visits the distinct tokens that are counted now. No allocation if the text and
/// the list were as large before.
/// Memory: the text, a list of the distinct tokens, and a hash table into the list with open addressing, at most half full.
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
    for (std::size_t i = 0; i < distinct_; ++i) visit(tokens_[i], counts_[i]);
  }

 private:
  static constexpr Index empty = -1;

  Index size() const { return std::ssize(text_); }
  // The token that leaves the window when the text has `size` tokens.
  Token leaves_window(Index size) const { return at(text_, size - 1 - window_); }

  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t home(Token x) const {
    return as_type<std::size_t>(SplitMix64(static_cast<std::uint32_t>(x))()) & mask();
  }
  Token token_of(std::size_t slot) const { return at(tokens_, slots_[slot]); }
  // The slot of the token, or the empty slot for it.
  std::size_t find(Token x) const {
    std::size_t at = home(x);
    while (slots_[at] != empty && token_of(at) != x) at = (at + 1) & mask();
    return at;
  }

  // Makes room for one token more. pop() needs no call: it never counts more tokens than there were before.
  void make_room() {
    if (distinct_ < counts_.size()) return;
    std::vector<Index> larger(std::bit_ceil(4 * (distinct_ + 4)), empty);
    tokens_.resize(larger.size() / 2);
    counts_.resize(larger.size() / 2);
    slots_ = std::move(larger);
    for (std::size_t i = 0; i < distinct_; ++i) slots_[find(tokens_[i])] = static_cast<Index>(i);
  }

  void add(Token x) {
    Index& place = slots_[find(x)];
    if (place == empty) {
      tokens_[distinct_] = x;
      counts_[distinct_] = 0;
      place = static_cast<Index>(distinct_++);
    }
    ++at(counts_, place);
  }

  void drop(Token x) {
    const std::size_t slot = find(x);
    const auto place = static_cast<std::size_t>(slots_[slot]);
    if (--counts_[place] > 0) return;
    close_gap(slot);
    const std::size_t last = --distinct_;
    if (place == last) return;
    slots_[find(tokens_[last])] = static_cast<Index>(place);
    tokens_[place] = tokens_[last];
    counts_[place] = counts_[last];
  }

  // Moves up the tokens that a search would no longer find because of the empty slot.
  void close_gap(std::size_t gap) {
    slots_[gap] = empty;
    for (std::size_t at = (gap + 1) & mask(); slots_[at] != empty; at = (at + 1) & mask()) {
      const std::size_t from_home = (at - home(token_of(at))) & mask();
      const std::size_t from_gap = (at - gap) & mask();
      if (from_home < from_gap) continue;
      slots_[gap] = std::exchange(slots_[at], empty);
      gap = at;
    }
  }

  Index window_;
  std::vector<Token> text_;
  std::vector<Index> slots_;   // a token's place in the list, or empty
  std::vector<Token> tokens_;  // the list; its first `distinct_` entries are in use
  std::vector<Index> counts_;  // how often each of them occurs
  std::size_t distinct_ = 0;
};

}  // namespace specdec::detail
