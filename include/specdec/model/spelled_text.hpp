// A text, and the tree after it, in the tokens of another vocabulary.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/kinds/mapped.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The draft tokens that each target token is shown as: its partner, or else spelled(x), which is called once.
class Spellings {
 public:
  /// Shown for a token without partner and spelling; every vocabulary has it.
  static constexpr Token unknown = 0;

  /// Throws: std::invalid_argument on a spelling with a token outside the draft vocabulary; what spelled() throws.
  template <std::invocable<Token> Spelled>
  Spellings(const TokenMap& map, const Spelled& spelled) {
    for (Index x = 0; x < map.vocab_size(); ++x) {
      const std::size_t before = tokens_.size();
      if (const Token d = map.from(static_cast<Token>(x)); d != TokenMap::none) tokens_.push_back(d);
      else
        for (const Token part : spelled(static_cast<Token>(x))) tokens_.push_back(part);
      check_tokens("spelled", std::span<const Token>(tokens_).subspan(before), map.draft_vocab_size());
      if (tokens_.size() == before) tokens_.push_back(unknown);
      ends_.push_back(std::ssize(tokens_));
    }
  }

  /// The spelling of x, never empty. A token beyond the map is shown as `unknown`.
  std::span<const Token> of(Token x) const& {
    if (x < 0 || x >= std::ssize(ends_)) return {&unknown, 1};
    const Index begin = x == 0 ? 0 : detail::at(ends_, x - 1);
    return detail::part(tokens_, begin, detail::at(ends_, x) - begin);
  }

 private:
  std::vector<Token> tokens_;  // all spellings, one after another
  std::vector<Index> ends_;
};

/// A text and the tree after it, for a model with another vocabulary: what the model has cached, and what it is fed next.
///
/// The text is shown as the spellings of its tokens, one after another. In a tree, a spelling of several tokens is a chain
/// of nodes. A line is treated as a tree without branches. If the model's context has no room for a token, the token is not
/// fed and has no row. All nodes of a tree take room.
class SpelledText {
 public:
  /// The place of a row that the model has no room for.
  static constexpr Index nowhere = -1;

  /// How many tokens the text and its tree have, in the target's vocabulary.
  Index length() const { return std::ssize(ends_); }
  Index tree_size() const { return told_.size(); }

  /// Adds the tokens of a feed. Returns what the model is fed for the wanted rows; nothing if its context has no room.
  /// Appends to `places` where each wanted row is among the model's rows. The first of the model's rows for this feed has
  /// the number `first`.
  Feed feed(const Feed& told, const Spellings& spellings, Index room, Index first,
            std::vector<Index>& places) {
    const Index begin = nodes_.size();
    // The part of the text that the model has not cached is a line; the tree branches from its end.
    if (lasts_.empty()) root_ = add_chain(detail::after(shown_, cached_), context, room);
    for (std::size_t k = 0; k < told.tokens.size(); ++k)
      add(told.tokens[k], told.parents.empty() ? told_.size() - 1 : told.parents[k], spellings, room);
    reserve_for_keep();

    const auto wanted = detail::after(lasts_, std::ssize(lasts_) - told.rows);
    Index first_node = nodes_.size();
    for (const Index node : wanted)
      if (node != lost) first_node = std::min(first_node, node);
    for (const Index node : wanted) places.push_back(node == lost ? nowhere : first + node - first_node);
    const auto parents = detail::after(nodes_.parents(), begin);
    return {.tokens = detail::after(nodes_.tokens(), begin),
            .from = cached_,
            .rows = nodes_.size() - first_node,
            .parents = told.parents.empty() ? std::span<const Index>{} : parents};
  }

  /// The model has cached the line that it was fed.
  void close_line(const Spellings& spellings) {
    for (const Token x : told_.tokens()) append(x, spellings);
    cached_ += nodes_.size();
    forget_tree();
  }

  /// Keeps the first tokens of the text and forgets the tree. Returns how many tokens the model's context keeps.
  Index keep(Index length) {
    forget_tree();
    detail::resize(ends_, std::clamp<Index>(length, 0, this->length()));
    detail::resize(shown_, ends_.empty() ? 0 : ends_.back());
    return cached_ = std::min(cached_, std::ssize(shown_));
  }

  /// Appends a path of the tree to the text and forgets the rest. Returns the path in the model's tree; it lives until the
  /// next call.
  /// Throws: std::invalid_argument if `path` is no path of the tree; nothing else.
  std::span<const Index> keep(std::span<const Index> path, const Spellings& spellings) & {
    check_path(path, told_.parents());
    Index end = root_;
    for (const Index node : path) {
      append(told_.token(node), spellings);
      if (detail::at(lasts_, node) != lost) end = detail::at(lasts_, node);
    }
    nodes_.view().path_to(end, path_);
    cached_ += std::ssize(path_);
    forget_tree();
    return view_of(path_);
  }

 private:
  static constexpr Index context = -1, lost = -2;

  void append(Token x, const Spellings& spellings) {
    const auto spelled = spellings.of(x);
    detail::append(shown_, spelled);
    ends_.push_back(std::ssize(shown_));
  }

  void add(Token x, Index parent, const Spellings& spellings, Index room) {
    const auto spelled = spellings.of(x);
    told_.append(x, parent);
    lasts_.push_back(add_chain(spelled, parent < 0 ? root_ : detail::at(lasts_, parent), room));
    spelled_ += spelled.size();
  }

  // Adds a chain of nodes and returns the last one. Adds nothing if the model's context has no room for the whole chain.
  Index add_chain(std::span<const Token> chain, Index parent, Index room) {
    if (parent == lost || cached_ + nodes_.size() + std::ssize(chain) > room) return lost;
    for (const Token d : chain) parent = nodes_.append(d, parent);
    return parent;
  }

  // Makes room now: keep() must not allocate.
  void reserve_for_keep() {
    reserve(shown_, shown_.size() + spelled_);
    reserve(ends_, ends_.size() + lasts_.size());
    reserve(path_, static_cast<std::size_t>(nodes_.size()));
  }
  template <class T>
  static void reserve(std::vector<T>& values, std::size_t size) {
    if (size > values.capacity()) values.reserve(2 * size);
  }

  void forget_tree() {
    told_.clear();
    lasts_.clear();
    nodes_.clear();
    spelled_ = 0;
    root_ = context;
  }

  std::vector<Token> shown_;  // the text in the model's tokens
  std::vector<Index> ends_;   // where each token's spelling ends in shown_
  Index cached_ = 0;          // how many tokens of shown_ the model has cached

  TokenTree told_;            // the tree in the target's tokens
  std::vector<Index> lasts_;  // the last node of each one's spelling in the model's tree
  std::size_t spelled_ = 0;   // how many tokens all spellings in the tree have
  Index root_ = context;      // the model's node that the text ends with
  TokenTree nodes_;           // the model's tree
  std::vector<Index> path_;
};

}  // namespace specdec::detail
