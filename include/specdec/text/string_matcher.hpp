// Finds any of several strings in bytes that come a few at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The automaton of some strings: one look-up a byte, however many strings there are.
///
/// Source: Aho, Corasick, "Efficient string matching: an aid to bibliographic search", CACM 18(6), 1975.
/// A state is the longest end of what has been read that begins a string. State 0 is the beginning.
/// Throws std::invalid_argument on a string without bytes.
/// Cost: 1 kB for each byte of the strings.
class StringMatcher {
 public:
  using State = std::uint32_t;

  explicit StringMatcher(const std::vector<std::string>& strings) : nodes_(1) {
    for (std::size_t i = 0; i < strings.size(); ++i) {
      if (strings[i].empty()) invalid_argument("stop_strings[", i, "] is empty: it would end every text");
      enter(strings[i], static_cast<Index>(i));
    }
    complete();
  }

  State next(State state, char byte) const { return nodes_[state].next[static_cast<unsigned char>(byte)]; }

  /// The longest string that ends in this state, the first of equal ones; −1 if none does.
  Index string(State state) const { return nodes_[state].string; }

  /// How many of the bytes read last may begin a string.
  Index depth(State state) const { return nodes_[state].depth; }

 private:
  struct Node {
    std::array<State, 256> next{};
    State shorter = 0;  // of its longest proper end that begins a string
    Index string = -1, depth = 0;
  };

  void enter(std::string_view string, Index number) {
    State state = 0;
    for (const char byte : string) {
      const auto k = static_cast<unsigned char>(byte);
      if (nodes_[state].next[k] == 0) {
        const Index depth = nodes_[state].depth + 1;
        nodes_[state].next[k] = static_cast<State>(nodes_.size());
        nodes_.emplace_back().depth = depth;
      }
      state = nodes_[state].next[k];
    }
    if (nodes_[state].string < 0) nodes_[state].string = number;
  }

  // Breadth first: where a string does not go on, what goes on is its longest end that begins one.
  void complete() {
    std::vector<State> order{0};
    for (std::size_t i = 0; i < order.size(); ++i) {
      const State state = order[i], shorter = nodes_[state].shorter;
      if (nodes_[state].string < 0) nodes_[state].string = nodes_[shorter].string;
      for (std::size_t byte = 0; byte < 256; ++byte) {
        State& next = nodes_[state].next[byte];
        const State beside = state == 0 ? 0 : nodes_[shorter].next[byte];
        if (next == 0) {
          next = beside;
        } else {
          nodes_[next].shorter = beside;
          order.push_back(next);
        }
      }
    }
  }

  std::vector<Node> nodes_;
};

}  // namespace specdec::detail
