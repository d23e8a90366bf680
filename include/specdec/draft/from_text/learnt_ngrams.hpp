// What drafters learn of texts as counts of n-grams.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// A trie of n-grams that grows with what is counted. A node is an n-gram and knows how often it was counted
/// and which of its children was counted most often, the latest among equals. (NgramCounts, of which
/// NgramModel is made, is built once from a whole text and reads contexts backwards: it cannot grow.)
/// Cost: an expected O(1) a call. A node takes 40 bytes and two to four slots of 8.
class NgramTrie {
 public:
  static constexpr Index root = 0;
  static constexpr Index none = -1;

  /// The n-gram of `node` with `token` behind it, or none.
  Index child(Index node, Token token) const { return nodes_.size() == 1 ? none : slots_[slot(node, token)]; }

  /// Counts the n-gram of `node` with `token` behind it, and returns it.
  Index count(Index node, Token token) {
    const Index counted = enter(node, token);
    const Index occurrences = ++at(counted).occurrences, leader = at(node).best;
    // Only this child's count has changed, so that comparing it with the leader finds the new one.
    if (leader == none || occurrences >= at(leader).occurrences) at(node).best = counted;
    return counted;
  }

  /// The child that was counted most often, the latest among equals; none where there is no child.
  Index best(Index node) const { return nodes_[static_cast<std::size_t>(node)].best; }

  /// Visits the children of a node: best() first, the others in no order.
  template <class Visit>
  void each_child(Index node, const Visit& visit) const {
    const Index first = best(node);
    if (first == none) return;
    Index child = first;
    do {
      visit(child);
      child = nodes_[static_cast<std::size_t>(child)].next;
    } while (child != first);
  }

  /// The last token of the n-gram.
  Token token(Index node) const { return nodes_[static_cast<std::size_t>(node)].token; }
  Index occurrences(Index node) const { return nodes_[static_cast<std::size_t>(node)].occurrences; }

  /// How many n-grams there are.
  Index size() const { return static_cast<Index>(nodes_.size()) - 1; }

 private:
  struct Node {
    Index parent;
    Token token;
    Index occurrences = 0;
    Index best = none;
    Index next = none;  // of the children of the parent, which form a ring
  };

  Node& at(Index node) { return nodes_[static_cast<std::size_t>(node)]; }

  Index enter(Index parent, Token token) {
    if (slots_.size() < 2 * (nodes_.size() + 1)) grow();
    Index& node = slots_[slot(parent, token)];
    if (node != none) return node;
    nodes_.push_back({parent, token});
    node = size();
    const Index leader = at(parent).best;  // the first child is its own next
    at(node).next = leader == none ? node : std::exchange(at(leader).next, node);
    return node;
  }

  void grow() {
    slots_.assign(std::bit_ceil(2 * (nodes_.size() + 1)), none);
    for (std::size_t i = 1; i < nodes_.size(); ++i)
      slots_[slot(nodes_[i].parent, nodes_[i].token)] = static_cast<Index>(i);
  }

  // Where the child stands, or would stand: open addressing, at most half full.
  std::size_t slot(Index parent, Token token) const {
    const auto key = SplitMix64(static_cast<std::uint64_t>(parent))() ^ static_cast<std::uint32_t>(token);
    for (std::uint64_t slot = SplitMix64(key)();; ++slot) {
      slot &= slots_.size() - 1;
      if (slots_[slot] == none) return slot;
      const Node& node = nodes_[static_cast<std::size_t>(slots_[slot])];
      if (node.parent == parent && node.token == token) return slot;
    }
  }

  std::vector<Node> nodes_{{none, 0}};
  std::vector<Index> slots_;
};

/// Which texts have been shown, by a hash of all their tokens. Two texts that share one (which is not to be
/// met in practice) are taken for the same.
class ShownTexts {
 public:
  static std::uint64_t extend(std::uint64_t text, Token token) {
    return SplitMix64(text ^ static_cast<std::uint32_t>(token))();
  }
  void add(std::uint64_t text) { texts_.insert(text); }
  bool contains(std::uint64_t text) const { return texts_.contains(text); }

 private:
  std::unordered_set<std::uint64_t> texts_;
};

/// What drafters of n-grams learn, online from every context that is shown, and from texts of their own.
///
/// Throws: std::invalid_argument unless 1 <= min_ngram <= max_ngram <= 512 and min_count >= 1.
/// Cost: max_ngram + 1 look-ups for a token that is learnt; the first context of another text is hashed, all of it.
class LearntNgrams {
 public:
  struct Options {
    Index max_ngram = 3;  ///< tokens of context that are looked up, at most
    Index min_ngram = 1;  ///< and at least
    bool online = true;   ///< learn every context that is shown
    Index min_count = 1;  ///< propose only what followed this often
  };

  /// The limit of max_ngram: every token that is learnt takes memory for n-grams of all lengths.
  static constexpr Index longest_ngram = 512;

  explicit LearntNgrams(const Options& options) : options_(options) {
    if (options.min_ngram < 1 || options.max_ngram < options.min_ngram || options.max_ngram > longest_ngram)
      invalid_argument("n-gram table needs 1 <= min_ngram <= max_ngram <= ", longest_ngram,
                       ", not min_ngram = ", options.min_ngram, ", max_ngram = ", options.max_ngram);
    if (options.min_count < 1)
      invalid_argument("n-gram table needs min_count >= 1, not min_count = ", options.min_count);
  }

  /// Counts a text of its own: no n-gram reaches from one text into another. Every call counts.
  /// Throws: std::invalid_argument on an id that is negative or no Token holds; nothing has been learnt then.
  void learn(TokenIds tokens) {
    check_tokens("tokens", tokens, Index{std::numeric_limits<Token>::max()} + 1);
    ends_.assign(1, NgramTrie::root);
    for (Index i = 0; i < tokens.size(); ++i) count(static_cast<Token>(tokens[i]));
  }

  /// Forgets where the text stood behind so many tokens. What was counted stays.
  void truncate(Index length) noexcept {
    if (length >= learnt_) return;
    learnt_ = std::max<Index>(length, 0);
    cut_ = true;
  }

  /// Forgets all that was learnt.
  void clear() { *this = LearntNgrams(options_); }

  /// How often the tokens were counted as an n-gram. Throws: std::invalid_argument unless they are 1 to
  /// max_ngram + 1, which are counted.
  Index occurrences(std::span<const Token> tokens) const {
    if (tokens.empty() || std::ssize(tokens) > options_.max_ngram + 1)
      invalid_argument("n-grams of 1..", options_.max_ngram + 1, " tokens are counted, not of ",
                       tokens.size());
    Index node = NgramTrie::root;
    for (const Token x : tokens)
      if ((node = child(node, x)) == none) return 0;
    return trie_.occurrences(node);
  }

  /// How many different n-grams are held.
  Index size() const { return trie_.size(); }

 protected:
  static constexpr Index none = NgramTrie::none;

  const Options& options() const { return options_; }
  const NgramTrie& trie() const { return trie_; }

  /// Counts what is new of the context, if that is wanted.
  void show(std::span<const Token> context) {
    if (options_.online) learn_context(context);
  }

  /// The n-grams at the end of a text: [n] the last n tokens of it, or none.
  std::span<const Index> ends() const { return ends_; }

  /// Goes to the end of this text.
  void stand_behind(std::span<const Token> text) {
    ends_.assign(1, NgramTrie::root);
    const auto used = std::min(text.size(), static_cast<std::size_t>(options_.max_ngram));
    for (const Token x : text.last(used)) go_on(x);
  }

  /// Goes on by a token, which is not counted.
  void go_on(Token token) {
    step(token, [this](Index node, Token x) { return child(node, x); });
  }

  /// The n-gram of `node` with `token` behind it; none where it was not counted, or where node is none.
  Index child(Index node, Token token) const { return node == none ? none : trie_.child(node, token); }

  /// Whether a continuation was counted often enough.
  bool proposes(Index node) const { return node != none && trie_.occurrences(node) >= options_.min_count; }

 private:
  void learn_context(std::span<const Token> context) {
    truncate(std::ssize(context));
    if (cut_) resume(context);
    if (learnt_ == std::ssize(context)) return;
    stand_behind(context.first(static_cast<std::size_t>(learnt_)));
    for (const Token x : context.subspan(static_cast<std::size_t>(learnt_))) {
      count(x);
      text_ = ShownTexts::extend(text_, x);
      ++learnt_;
    }
    shown_.add(text_);
  }

  // How much of the context has been counted: what survived the cut, or the longest beginning that was shown.
  void resume(std::span<const Token> context) {
    const Index survived = learnt_;
    std::uint64_t text = 0;
    learnt_ = 0;
    text_ = 0;
    for (Index i = 1; i <= std::ssize(context); ++i) {
      text = ShownTexts::extend(text, context[static_cast<std::size_t>(i - 1)]);
      if (i > survived && !shown_.contains(text)) continue;
      learnt_ = i;
      text_ = text;
    }
    cut_ = false;
  }

  void count(Token token) {
    const auto counted = [this](Index node, Token x) { return node == none ? node : trie_.count(node, x); };
    if (std::ssize(ends_) > options_.max_ngram)
      counted(ends_.back(), token);  // too long to be looked up itself
    step(token, counted);
  }

  // The text goes on with `token`: each n-gram at its end becomes one of n + 1 tokens. The longest first, as
  // each takes the place of the next longer one.
  template <class Child>
  void step(Token token, Child&& child) {
    if (std::ssize(ends_) <= options_.max_ngram) ends_.push_back(none);
    for (std::size_t n = ends_.size() - 1; n > 0; --n) ends_[n] = child(ends_[n - 1], token);
  }

  Options options_;
  NgramTrie trie_;
  ShownTexts shown_;
  Index learnt_ = 0;         // how much of the current text has been counted
  std::uint64_t text_ = 0;   // which text that is
  bool cut_ = false;         // whether the text may be another one since
  std::vector<Index> ends_;  // ends_[n]: the last n tokens, or none
};

}  // namespace specdec::detail
