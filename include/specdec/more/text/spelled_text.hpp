// A text, and the tree after it, in the tokens of another vocabulary.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/more/rows/mapped.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The draft tokens that each target token is shown as: its partner, or else spelled(x), which is called once.
class Spellings {
 public:
  /// Shown for a token without partner and spelling; every vocabulary has it.
  static constexpr Token unknown = 0;

  /// Throws: InvalidArgument on a spelling with a token outside the draft vocabulary; what spelled() throws.
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

/// A Text of FedTexts, shown to a model with another vocabulary: what the model has cached, and what it is fed next.
///
/// The text is shown as the spellings of its tokens, one after another. In a tree, a spelling of several tokens is a chain
/// of nodes. A line is treated as a tree without branches. If the model's context has no room for a token, the token is not
/// fed and has no row. All nodes of a tree take room.
class SpelledText {
 public:
  /// The place of a row that the model has no room for.
  static constexpr Index nowhere = -1;

  /// The spellings must outlive this.
  explicit SpelledText(const Spellings& spellings) : spellings_(&spellings) {}

  /// In the target's vocabulary: how many tokens the text has, and the tree or the line after it.
  Index length() const { return std::ssize(ends_); }
  WrappedTree& tree() { return told_; }

  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    told_.reserve(tokens.size());
    told_.append(tokens, parents);
  }

  /// What the model is fed for the last `rows` of the added tokens; nothing if its context has no room. Appends to `places`
  /// where each row is among the model's rows, whose first one for this text has the number `first`.
  Feed feed(bool line, Index rows, Index room, Index first, std::vector<Index>& places) {
    const Index begin = nodes_.size();
    // The part of the text that the model has not cached is a line; the tree branches from its end.
    if (lasts_.empty()) root_ = add_chain(detail::after(shown_, cached_), context, room);
    for (Index k = std::ssize(lasts_); k < told_.size(); ++k) add(told_.token(k), told_.parent(k), room);
    reserve_for_keep();

    const auto wanted = detail::after(lasts_, std::ssize(lasts_) - rows);
    Index first_node = nodes_.size();
    for (const Index node : wanted)
      if (node != lost) first_node = std::min(first_node, node);
    for (const Index node : wanted) places.push_back(node == lost ? nowhere : first + node - first_node);
    const auto parents = detail::after(nodes_.parents(), begin);
    return {.tokens = detail::after(nodes_.tokens(), begin),
            .from = cached_,
            .rows = nodes_.size() - first_node,
            .parents = line ? std::span<const Index>{} : parents};
  }

  /// The model has cached the line that it was fed.
  void close_line() {
    for (const Token x : told_.tokens()) append(x);
    cached_ += nodes_.size();
    forget_tree();
  }

  KeptContext truncate(Index length) {
    forget_tree();
    detail::resize(ends_, std::clamp<Index>(length, 0, this->length()));
    detail::resize(shown_, ends_.empty() ? 0 : ends_.back());
    return {cached_ = std::min(cached_, std::ssize(shown_))};
  }

  KeptContext keep(std::span<const Index> path) & {
    Index end = root_;
    for (const Index node : path) {
      append(told_.token(node));
      if (detail::at(lasts_, node) != lost) end = detail::at(lasts_, node);
    }
    nodes_.view().path_to(end, path_);
    const KeptContext kept{cached_, view_of(path_)};
    cached_ += std::ssize(path_);
    forget_tree();
    return kept;
  }

  /// Closes the tree: which of its tokens the model has taken in is not known.
  KeptContext forget_from(Index) { return truncate(length()); }

 private:
  static constexpr Index context = -1, lost = -2;

  void append(Token x) {
    detail::append(shown_, spellings_->of(x));
    ends_.push_back(std::ssize(shown_));
  }

  void add(Token x, Index parent, Index room) {
    const auto spelled = spellings_->of(x);
    lasts_.push_back(add_chain(spelled, parent < 0 ? root_ : detail::at(lasts_, parent), room));
    spelled_ += std::ssize(spelled);
  }

  // Adds a chain of nodes and returns the last one. Adds nothing if the model's context has no room for the whole chain.
  Index add_chain(std::span<const Token> chain, Index parent, Index room) {
    if (parent == lost || cached_ + nodes_.size() + std::ssize(chain) > room) return lost;
    for (const Token d : chain) parent = nodes_.append(d, parent);
    return parent;
  }

  // Makes room now: keep() must not allocate.
  void reserve_for_keep() {
    reserve_ahead(shown_, std::ssize(shown_) + spelled_);
    reserve_ahead(ends_, std::ssize(ends_) + std::ssize(lasts_));
    reserve_ahead(path_, nodes_.size());
  }

  void forget_tree() {
    told_.clear();
    lasts_.clear();
    nodes_.clear();
    spelled_ = 0;
    root_ = context;
  }

  const Spellings* spellings_;
  std::vector<Token> shown_;  // the text in the model's tokens
  std::vector<Index> ends_;   // where each token's spelling ends in shown_
  Index cached_ = 0;          // how many tokens of shown_ the model has cached

  WrappedTree told_;          // the tree in the target's tokens
  std::vector<Index> lasts_;  // the last node of each one's spelling in the model's tree
  Index spelled_ = 0;         // how many tokens all spellings in the tree have
  Index root_ = context;      // the model's node that the text ends with
  TokenTree nodes_;           // the model's tree
  std::vector<Index> path_;
};

}  // namespace specdec::detail
