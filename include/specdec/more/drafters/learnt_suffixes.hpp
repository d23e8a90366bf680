// A store of texts in which drafters look up the longest match.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The suffix automaton of several texts of token ids, each of which may still grow. Every string that occurs in a text leads
/// from the root along its tokens to one state. Strings share a state if they end at the same places.
/// Source: Blumer, Blumer, Haussler, Ehrenfeucht, Chen, Seiferas, "The smallest automaton recognizing the
/// subwords of a text", Theoretical Computer Science 40, 1985. For each further text the construction begins at
/// the root again. If a known string is not the longest string of its state, it gets a state of its own.
///
/// A state holds its longest string s, and each suffix of s that is longer than every string in the state's link. So the
/// states along the links from a text's end hold all suffixes of the text.
/// Cost: n tokens, in any number of texts, take expected O(n) time.
/// Memory: at most 2n states of 48 bytes and 3n edges of 40 bytes, each edge with two to four slots of 8 bytes.
class SuffixAutomaton {
 public:
  static constexpr Index root = 0;
  static constexpr Index none = -1;

  struct State {
    Index length = 0;      // of the longest string
    Index link = none;     // the state of the longest suffix that ends in more places
    Index first = none;    // the first of its edges, which form a linked list
    Index best = none;     // the edge that was counted most often, the latest among equals
    Index followed = 0;    // counts of all edges
    bool is_text = false;  // whether the longest string is the beginning of a text that was marked
  };

  struct Edge {
    Index from;
    Token token;
    Index to;
    Index next;
    Index count = 0;
  };

  const State& state(Index i) const { return detail::at(states_, i); }
  const Edge& edge(Index i) const { return detail::at(edges_, i); }
  Index states() const { return std::ssize(states_); }
  Index edges() const { return std::ssize(edges_); }

  /// The edge of a state for a token, or none.
  Index find(Index state, Token token) const { return slots_.empty() ? none : slots_[slot(state, token)]; }

  /// Adds a token to the text that ends in state `end`. Returns the state where the text now ends.
  Index extend(Index end, Token token) {
    if (find(end, token) != none) return shorten(end, token);  // another text has this string
    const Index added = add_state({.length = state(end).length + 1, .link = root});
    Index p = end;
    for (; p != none && find(p, token) == none; p = state(p).link) add_edge(p, token, added, 0);
    if (p != none) {
      const Index link = shorten(p, token);
      at(added).link = link;
    }
    return added;
  }

  /// Counts `token` after the strings of a state and all their suffixes.
  void count(Index state, Token token) {
    for (; state != none; state = at(state).link) {
      const Index i = find(state, token);
      const Index count = ++detail::at(edges_, i).count;
      ++at(state).followed;
      // Only this edge's count has changed, so comparing it with the best edge is enough.
      if (at(state).best == none || count >= edge(at(state).best).count) at(state).best = i;
    }
  }

  /// The state that holds the suffix of `length` tokens of a state's strings.
  Index suffix(Index i, Index length) const {
    while (i != root && state(state(i).link).length >= length) i = state(i).link;
    return i;
  }

  void mark_text(Index end) { at(end).is_text = true; }

 private:
  State& at(Index i) { return detail::at(states_, i); }

  // Returns the state with this longest string: p's longest string, then the token. Makes the state if there is none.
  Index shorten(Index p, Token token) {
    const Index q = edge(find(p, token)).to;
    if (state(q).length == state(p).length + 1) return q;
    const Index clone = copy(q, state(p).length + 1);
    at(q).link = clone;
    for (; p != none; p = state(p).link) {
      Edge& e = detail::at(edges_, find(p, token));
      if (e.to != q) break;
      e.to = clone;
    }
    return clone;
  }

  // A state for the shorter strings of q, with q's edges and counts.
  Index copy(Index q, Index length) {
    const Index clone = add_state({.length = length, .link = state(q).link, .followed = state(q).followed});
    for (Index i = state(q).first; i != none; i = edge(i).next) {
      const Index copied = add_edge(clone, edge(i).token, edge(i).to, edge(i).count);
      if (i == state(q).best) at(clone).best = copied;
    }
    return clone;
  }

  Index add_state(const State& state) {
    states_.push_back(state);
    return states() - 1;
  }

  Index add_edge(Index from, Token token, Index to, Index count) {
    if (slots_.size() < 2 * (edges_.size() + 1)) grow();
    edges_.push_back({from, token, to, state(from).first, count});
    return at(from).first = slots_[slot(from, token)] = edges() - 1;
  }

  void grow() {
    slots_.assign(std::bit_ceil(2 * (edges_.size() + 1)), none);
    for (Index i = 0; i < edges(); ++i) slots_[slot(edge(i).from, edge(i).token)] = i;
  }

  // The slot of the edge, or the empty slot for it. Open addressing, at most half full.
  std::size_t slot(Index from, Token token) const {
    const auto key = SplitMix64(static_cast<std::uint64_t>(from))() ^ static_cast<std::uint32_t>(token);
    for (auto slot = as_type<std::size_t>(SplitMix64(key)());; ++slot) {
      slot &= slots_.size() - 1;
      if (slots_[slot] == none) return slot;
      const Edge& e = edge(slots_[slot]);
      if (e.from == from && e.token == token) return slot;
    }
  }

  std::vector<State> states_ = std::vector<State>(1);
  std::vector<Edge> edges_;
  std::vector<Index> slots_;
};

/// What a SuffixDrafter has learnt: from every context that it was shown, and from texts that it was given with learn().
/// Throws: InvalidArgument unless 1 <= min_match <= max_match.
/// Cost: a learnt token takes amortised O(1) steps to enter and up to max_match steps to count.
class LearntSuffixes {
 public:
  LearntSuffixes(Index min_match, Index max_match) : min_match_(min_match), max_match_(max_match) {
    if (min_match_ < 1 || max_match_ < min_match_)
      invalid_argument("suffix drafter needs 1 <= min_match <= max_match, not min_match = ", min_match_,
                       ", max_match = ", max_match_);
  }

  /// Learns a separate text: no match reaches from one text into another. A text that is learnt twice counts twice.
  /// Throws: InvalidArgument on an id that is negative or too large for a Token; then nothing has been learnt.
  void learn(TokenIds tokens) {
    check_tokens("tokens", tokens, most_tokens);
    End end;
    for (Index i = 0; i < tokens.size(); ++i) advance(end, static_cast<Token>(tokens[i]));
  }

  /// Rolls back the position in the text to `length` tokens. All that was learnt stays.
  void truncate(Index length) noexcept {
    if (length >= end_.length) return;
    end_.length = std::max<Index>(length, 0);
    cut_ = true;
  }

  /// Forgets all that was learnt.
  void clear() {
    automaton_ = {};
    end_ = {};
    cut_ = false;
  }

 protected:
  static constexpr Index none = SuffixAutomaton::none;

  /// The last `length` tokens of a text, which the state holds.
  struct Match {
    Index state, length;
  };

  const SuffixAutomaton& automaton() const { return automaton_; }
  Index max_match() const { return max_match_; }

  /// Learns the new tokens of the context.
  void show(std::span<const Token> context) {
    truncate(std::ssize(context));
    if (cut_) resume(context);
    for (const Token x : context.subspan(static_cast<std::size_t>(end_.length))) advance(end_, x);
    automaton_.mark_text(end_.text);
  }

  /// The longest match at the end of the context that was shown last.
  Match longest() const {
    const Index length = matched(end_);
    return {automaton_.suffix(end_.match, length), length};
  }

  /// The longest match, not longer than this one, with a counted token after it; none if it is shorter than min_match.
  Match followed(Match match) const {
    while (match.state != none && automaton_.state(match.state).best == none) match = shorter(match);
    return match.length < min_match_ ? Match{none, 0} : match;
  }

  Match shorter(Match match) const {
    const Index link = automaton_.state(match.state).link;
    return {link, link == none ? 0 : automaton_.state(link).length};
  }

  /// The match with the token of an edge after it.
  Match longer(Match match, const SuffixAutomaton::Edge& edge) const {
    const Index length = std::min(match.length + 1, max_match_);
    return {automaton_.suffix(edge.to, length), length};
  }

 private:
  // Where a text ends in the automaton.
  struct End {
    Index length = 0;
    Index text = SuffixAutomaton::root;  // the state of the whole text
    // The state of the last max_match tokens. Or the state that held them until another text split it: its longer strings
    // end here, too, so counting may begin with them.
    Index match = SuffixAutomaton::root;
  };

  // Finds how much of the context has been learnt: the tokens that survived the cut, or the longest beginning that was
  // shown. A beginning of a text is always the longest string of its state, as no token stands before it.
  void resume(std::span<const Token> context) {
    const Index survived = end_.length;
    end_ = {};
    Index state = SuffixAutomaton::root;
    for (Index i = 1; i <= std::ssize(context); ++i) {
      const Index edge = automaton_.find(state, detail::at(context, i - 1));
      if (edge == none) break;
      state = automaton_.edge(edge).to;
      if (automaton_.state(state).length != i) break;
      if (i <= survived || automaton_.state(state).is_text) end_ = {i, state, state};
    }
    end_.match = automaton_.suffix(end_.text, matched(end_));
    cut_ = false;
  }

  void advance(End& end, Token token) {
    end.text = automaton_.extend(end.text, token);
    automaton_.count(end.match, token);
    ++end.length;
    end.match = automaton_.suffix(automaton_.edge(automaton_.find(end.match, token)).to, matched(end));
  }

  Index matched(const End& end) const { return std::min(end.length, max_match_); }

  Index min_match_, max_match_;
  SuffixAutomaton automaton_;
  End end_;           // of the current text, as far as it has been learnt
  bool cut_ = false;  // the text was cut: the next context may be another text
};

}  // namespace specdec::detail
