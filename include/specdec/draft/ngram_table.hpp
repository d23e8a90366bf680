// Drafts from counts: what followed these words most often, in this text, in earlier ones, in a corpus.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <unordered_set>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/one_hot.hpp"
#include "specdec/token_ids.hpp"

namespace specdec {
namespace detail {

/// A trie of n-grams that grows with what is counted. A node is an n-gram and knows how often it was counted
/// and which of its children was counted most often, the latest among equals. (NgramCounts, of which
/// NgramModel is made, is built once from a whole text and reads contexts backwards: it cannot grow.)
/// Cost: an expected O(1) a call. A node takes 32 bytes and two to four slots of 8.
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
  };

  Node& at(Index node) { return nodes_[static_cast<std::size_t>(node)]; }

  Index enter(Index parent, Token token) {
    if (slots_.size() < 2 * (nodes_.size() + 1)) grow();
    Index& node = slots_[slot(parent, token)];
    if (node != none) return node;
    nodes_.push_back({parent, token});
    return node = static_cast<Index>(nodes_.size()) - 1;
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

}  // namespace detail

/// Proposes, token by token, what most often followed the longest n-gram that is known, the latest among
/// equals, and follows its own proposals. An n-gram is known if something followed it at least min_count
/// times; where no n-gram of min_ngram to max_ngram tokens is, the proposal ends.
///
///   NgramTableDrafter drafter{{.max_ngram = 4}};
///   drafter.learn(corpus);               // a static table, and with .online = false it stays one
///   SpecDec decoder{target, drafter};    // else it learns every text that is written
///
/// What was counted stays until clear(): truncate() forgets where the text stood, not what it said. Online,
/// every context that is shown is counted, once: one that begins with a context shown before is counted from
/// there on, so a prompt counts once however often it is used, and a dialogue is not counted anew with every
/// turn. What the last step of a generation wrote is shown to no drafter, unless a later context has it.
///
/// Beside a ModelDrafter of an NgramModel of the same text: that one draws from a smoothed distribution and
/// reports it, of which more is accepted where the target is far from certain; but it is trained once, and
/// every drafted token costs it a row of V numbers. The table suits targets of low temperature, text that
/// repeats itself, large vocabularies, and cases where there is nothing to train on.
///
/// Source: the multi-level N-gram module of Ou et al., "Lossless Acceleration of Large Language Model via
/// Adaptive N-gram Parallel Decoding", arXiv:2404.08698; successors by their counts, and a corpus beside the
/// text, as in llama.cpp's examples/lookup (there three caches with thresholds of their own, here one table).
/// The proposal depends on nothing but what was shown and learnt, so q is one-hot.
/// Pre: what is learnt are tokens of the target; the loop refuses a proposed one that the target does not
/// know.
/// Random: none. Throws: std::invalid_argument unless 1 <= min_ngram <= max_ngram <= 512 and min_count >= 1.
/// Cost: max_ngram + 1 look-ups for a token that is learnt or proposed, O(max_ngram²) a call; the first call
/// of another text hashes all of it. Memory is bounded by what was learnt, and by nothing else: at most
/// max_ngram + 1 n-grams a token, of about 60 bytes each, and online a hash for each call. For longer matches there
/// is SuffixDrafter, whose memory does not grow with them.
class NgramTableDrafter {
 public:
  struct Options {
    Index max_ngram = 3;  ///< tokens of context that are looked up, at most
    Index min_ngram = 1;  ///< and at least
    bool online = true;   ///< learn every context that is shown
    Index min_count = 1;  ///< propose only what followed this often
  };

  /// The limit of max_ngram: every token that is learnt takes memory for n-grams of all lengths.
  static constexpr Index longest_ngram = 512;

  NgramTableDrafter() : NgramTableDrafter(Options{}) {}

  explicit NgramTableDrafter(const Options& options) : options_(options) {
    if (options.min_ngram < 1 || options.max_ngram < options.min_ngram || options.max_ngram > longest_ngram)
      detail::invalid_argument("n-gram table needs 1 <= min_ngram <= max_ngram <= ", longest_ngram,
                               ", not min_ngram = ", options.min_ngram, ", max_ngram = ", options.max_ngram);
    if (options.min_count < 1)
      detail::invalid_argument("n-gram table needs min_count >= 1, not min_count = ", options.min_count);
  }

  /// Counts a text of its own: no n-gram reaches from one text into another. Every call counts.
  /// Throws: std::invalid_argument on an id that is negative or no Token holds; nothing has been learnt then.
  void learn(TokenIds tokens) {
    detail::check_tokens("tokens", tokens, Index{std::numeric_limits<Token>::max()} + 1);
    ends_.assign(1, detail::NgramTrie::root);
    for (Index i = 0; i < tokens.size(); ++i) count(static_cast<Token>(tokens[i]));
  }

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    if (options_.online) learn_context(context);
    tokens_.clear();
    if (gamma > 0) propose(context, gamma);
    return {tokens_, OneHotRows(tokens_)};
  }

  /// What was counted stays; see above.
  void truncate(Index length) noexcept {
    if (length >= learnt_) return;
    learnt_ = std::max<Index>(length, 0);
    cut_ = true;
  }

  /// Forgets all that was learnt.
  void clear() { *this = NgramTableDrafter(options_); }

  /// How often the tokens were counted as an n-gram. Throws: std::invalid_argument unless they are 1 to
  /// max_ngram + 1, which are counted.
  Index occurrences(std::span<const Token> tokens) const {
    if (tokens.empty() || std::ssize(tokens) > options_.max_ngram + 1)
      detail::invalid_argument("n-grams of 1..", options_.max_ngram + 1, " tokens are counted, not of ",
                               tokens.size());
    Index node = detail::NgramTrie::root;
    for (const Token x : tokens)
      if ((node = child(node, x)) == detail::NgramTrie::none) return 0;
    return trie_.occurrences(node);
  }

  /// How many different n-grams are held.
  Index size() const { return trie_.size(); }

 private:
  void learn_context(std::span<const Token> context) {
    truncate(std::ssize(context));
    if (cut_) resume(context);
    if (learnt_ == std::ssize(context)) return;
    stand_behind(context.first(static_cast<std::size_t>(learnt_)));
    for (const Token x : context.subspan(static_cast<std::size_t>(learnt_))) {
      count(x);
      text_ = detail::ShownTexts::extend(text_, x);
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
      text = detail::ShownTexts::extend(text, context[static_cast<std::size_t>(i - 1)]);
      if (i > survived && !shown_.contains(text)) continue;
      learnt_ = i;
      text_ = text;
    }
    cut_ = false;
  }

  void propose(std::span<const Token> context, Index gamma) {
    stand_behind(context);
    while (std::ssize(tokens_) < gamma) {
      const Index next = best();
      if (next == detail::NgramTrie::none) return;
      tokens_.push_back(trie_.token(next));
      step(tokens_.back(), [this](Index node, Token x) { return child(node, x); });
    }
  }

  // What most often followed the longest n-gram known; none where none is.
  Index best() const {
    for (Index n = std::ssize(ends_) - 1; n >= options_.min_ngram; --n) {
      const Index node = ends_[static_cast<std::size_t>(n)];
      if (node == detail::NgramTrie::none) continue;
      const Index next = trie_.best(node);
      if (next != detail::NgramTrie::none && trie_.occurrences(next) >= options_.min_count) return next;
    }
    return detail::NgramTrie::none;
  }

  void stand_behind(std::span<const Token> context) {
    ends_.assign(1, detail::NgramTrie::root);
    const auto used = std::min(context.size(), static_cast<std::size_t>(options_.max_ngram));
    for (const Token x : context.last(used)) step(x, [this](Index node, Token y) { return child(node, y); });
  }

  void count(Token token) {
    const auto counted = [this](Index node, Token x) {
      return node == detail::NgramTrie::none ? node : trie_.count(node, x);
    };
    if (std::ssize(ends_) > options_.max_ngram)
      counted(ends_.back(), token);  // too long to be looked up itself
    step(token, counted);
  }

  Index child(Index node, Token token) const {
    return node == detail::NgramTrie::none ? node : trie_.child(node, token);
  }

  // The text goes on with `token`: each n-gram at its end becomes one of n + 1 tokens. The longest first, as
  // each takes the place of the next longer one.
  template <class Child>
  void step(Token token, Child&& child) {
    if (std::ssize(ends_) <= options_.max_ngram) ends_.push_back(detail::NgramTrie::none);
    for (std::size_t n = ends_.size() - 1; n > 0; --n) ends_[n] = child(ends_[n - 1], token);
  }

  Options options_;
  detail::NgramTrie trie_;
  detail::ShownTexts shown_;
  Index learnt_ = 0;         // how much of the current text has been counted
  std::uint64_t text_ = 0;   // which text that is
  bool cut_ = false;         // whether the text may be another one since
  std::vector<Index> ends_;  // ends_[n]: the last n tokens, or none
  std::vector<Token> tokens_;
};

}  // namespace specdec
