// The search for strings that end a text, wherever its tokens break them: with it, StopStrings can be made.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/text/stop_search.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The automaton of some strings: one look-up for each byte, however many strings there are.
/// Source: Aho, Corasick, "Efficient string matching: an aid to bibliographic search", CACM 18(6), 1975.
/// A state stands for the longest end of the bytes read that is the beginning of a string. State 0: no bytes.
/// Throws: InvalidArgument on a string without bytes.
/// Cost: memory of 1 kB for each byte of the strings.
class StringMatcher {
 public:
  using State = std::int32_t;

  explicit StringMatcher(const std::vector<std::string>& strings) {
    add_state(0);
    for (std::size_t i = 0; i < strings.size(); ++i) {
      if (strings[i].empty()) invalid_argument("stop_strings[", i, "] is empty: it would end every text");
      enter(strings[i], static_cast<Index>(i));
    }
    complete();
  }

  State next(State state, char byte) const { return next_[place(state, static_cast<unsigned char>(byte))]; }

  /// The number of the longest string that ends in this state, the first of equal strings; −1 if no string ends here.
  Index string(State state) const { return at(strings_, state); }

  /// How many of the last bytes read may be the beginning of a string.
  Index depth(State state) const { return at(depths_, state); }

 private:
  static std::size_t place(State state, std::size_t byte) {
    return 256 * static_cast<std::size_t>(state) + byte;
  }

  State add_state(Index depth) {
    next_.resize(next_.size() + 256);
    strings_.push_back(-1);
    depths_.push_back(depth);
    return static_cast<State>(depths_.size() - 1);
  }

  void enter(std::string_view string, Index number) {
    State state = 0;
    for (const char byte : string) {
      const std::size_t at = place(state, static_cast<unsigned char>(byte));
      if (next_[at] == 0) {
        const State added = add_state(depth(state) + 1);
        next_[at] = added;
      }
      state = next_[at];
    }
    Index& known = at(strings_, state);
    if (known < 0) known = number;
  }

  // Breadth first: if no string goes on with a byte, the search goes on from the state's longest proper end that begins one.
  void complete() {
    std::vector<State> order, shorter(depths_.size(), 0);  // shorter[state]: the state of that end
    order.push_back(0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const State state = order[i], end = at(shorter, state);
      Index& known = at(strings_, state);
      if (known < 0) known = string(end);
      for (std::size_t byte = 0; byte < 256; ++byte) {
        State& next = next_[place(state, byte)];
        const State beside = state == 0 ? 0 : next_[place(end, byte)];
        if (next == 0) {
          next = beside;
        } else {
          at(shorter, next) = beside;
          order.push_back(next);
        }
      }
    }
  }

  // Indexed by state; next_ has 256 entries for each state. Vectors of numbers, not of states: the library uses these vector
  // types anyway, and each further one takes compile time.
  std::vector<State> next_;
  std::vector<Index> strings_, depths_;
};

template <class Bytes>
class StopSearcherOf final : public StopSearcher {
 public:
  StopSearcherOf(std::vector<std::string> all, Bytes bytes)
      : StopSearcher(std::move(all)), matcher_(strings), bytes_(std::move(bytes)) {}

  std::optional<StopMatch> find(StopSearch& search, Token token, bool counts) const override {
    const auto& piece = bytes_(token);
    return find(search, std::string_view(piece), counts);
  }

  std::optional<StopMatch> find(StopSearch& search, std::string_view bytes, bool counts) const override {
    for (const char byte : bytes) {
      search.state = matcher_.next(search.state, byte);
      ++search.bytes;
      const Index string = matcher_.string(search.state);
      if (string < 0 || !counts) continue;
      const Index length = std::ssize(at(strings, string));
      return StopMatch{string, search.bytes - length, search.bytes};
    }
    return std::nullopt;
  }

  Index begun(const StopSearch& search) const override { return matcher_.depth(search.state); }

 private:
  StringMatcher matcher_;
  Bytes bytes_;
};

}  // namespace specdec::detail
