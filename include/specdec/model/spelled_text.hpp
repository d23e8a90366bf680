// A text, and the tree after it, in the tokens of another vocabulary.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "specdec/model/feed.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/kinds/mapped.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The draft tokens that each token of the target is shown as. Copies share their content, which never changes.
class Spellings {
 public:
  /// What stands for a token of which nothing is known, in a vocabulary of any size.
  static constexpr Token unknown = 0;

  /// A token's partner, or spelled(x), which is asked for once.
  /// Throws: std::invalid_argument on a spelling with a token outside the draft vocabulary; what spelled() throws.
  template <std::invocable<Token> Spelled>
  Spellings(const TokenMap& map, const Spelled& spelled) {
    const auto content = std::make_shared<Content>();
    for (Index x = 0; x < map.vocab_size(); ++x) content->add(static_cast<Token>(x), map, spelled);
    content_ = content;
  }

  /// Of a token beyond the map it is the unknown one.
  std::span<const Token> of(Token x) const& {
    const auto i = static_cast<std::size_t>(x);
    if (i >= content_->ends.size()) return {&unknown, 1};
    const std::size_t begin = i == 0 ? 0 : content_->ends[i - 1];
    return std::span(content_->tokens).subspan(begin, content_->ends[i] - begin);
  }

 private:
  struct Content {
    std::vector<Token> tokens;  // of all spellings, one after the other
    std::vector<std::size_t> ends;

    template <class Spelled>
    void add(Token x, const TokenMap& map, const Spelled& spelled) {
      if (const Token d = map.from(x); d != TokenMap::none) {
        tokens.push_back(d);
      } else {
        const std::size_t before = tokens.size();
        for (const Token part : spelled(x)) tokens.push_back(part);
        check_tokens("spelled", std::span<const Token>(tokens).subspan(before), map.draft_vocab_size());
      }
      ends.push_back(tokens.size());
    }
  };

  std::shared_ptr<const Content> content_;
};

/// What of a text, and of the tree after it, a model of another vocabulary has cached, and what it is fed next.
///
/// The text is shown as the spellings of its tokens, one after the other; one that begins with an empty spelling begins
/// with the unknown token. In a tree a spelling of several tokens is a chain of nodes. The row after a token is the model's
/// after the last token shown so far. The model may have been fed that before (after a token of an empty spelling): then the
/// token is taken out of its context, or the tree is closed, and it is fed again. What is beyond the room of the model's
/// context, in which all nodes of a tree take a place, is not fed, and has no rows.
class SpelledText {
 public:
  /// The place of a row that the model has no room for.
  static constexpr Index nowhere = -1;

  /// How many tokens the text has, in the vocabulary that it is told in, and its tree.
  Index length() const { return std::ssize(ends_); }
  Index tree_size() const { return std::ssize(lasts_); }

  /// Appends tokens to the text, or nodes to the tree.
  void add(std::span<const Token> tokens, std::span<const Index> parents, const Spellings& spellings,
           Index room) {
    room_ = room;
    if (parents.empty()) add_line(tokens, spellings);
    else add_tree(tokens, parents, spellings);
  }

  /// What the model is fed, so that it returns the rows after the last `rows` tokens of the text, or of its tree. Where it
  /// has to forget something before, keep(length) makes it keep the first `length` tokens of its context.
  template <class Keep>
  Feed feed(Index rows, bool is_tree, const Keep& keep) {
    const auto ends = std::span<const Index>(is_tree ? lasts_ : ends_).last(static_cast<std::size_t>(rows));
    return is_tree ? tree_feed(ends, keep) : line_feed(ends, keep);
  }

  /// The places of these rows among those that the model returned for the feed.
  template <class Put>
  void places(Index rows, bool is_tree, const Put& put) const {
    const auto ends = std::span<const Index>(is_tree ? lasts_ : ends_).last(static_cast<std::size_t>(rows));
    for (const Index end : ends) put(has_row(end, is_tree) ? end - first_ : nowhere);
  }

  /// The model has taken the feed in.
  void taken(bool is_tree) {
    if (!is_tree) cached_ = fed_end();
  }

  /// Keeps the first tokens of the text and forgets the tree. Returns how many tokens the model's context keeps.
  Index keep(Index length) {
    forget_tree();
    ends_.resize(static_cast<std::size_t>(std::clamp<Index>(length, 0, this->length())));
    shown_.resize(static_cast<std::size_t>(ends_.empty() ? 0 : ends_.back()));
    return cached_ = std::min(cached_, std::ssize(shown_));
  }

  /// Appends a path of the tree to the text, and forgets the rest. Returns that path, for the model, which lives until the
  /// next call. Throws: std::invalid_argument on no path of the tree, and nothing else.
  std::span<const Index> keep(std::span<const Index> path, const Spellings& spellings) & {
    check_path(path, parents_);
    Index end = root_;
    for (const Index node : path) {
      spell(tokens_[at(node)], spellings);
      if (lasts_[at(node)] != lost) end = lasts_[at(node)];
    }
    path_.clear();
    for (; end >= 0; end = node_parents_[at(end)]) path_.push_back(end);
    std::ranges::reverse(path_);
    cached_ += std::ssize(path_);
    forget_tree();
    return path_;
  }

 private:
  static constexpr Index context = -1, lost = -2;

  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  // A line.

  // Nothing but a first token of an empty spelling is shown as the unknown token.
  static std::span<const Token> spelling(Token x, const Spellings& spellings, bool is_first) {
    const auto tokens = spellings.of(x);
    return tokens.empty() && is_first ? std::span(&Spellings::unknown, 1) : tokens;
  }
  void spell(Token x, const Spellings& spellings) {
    const auto tokens = spelling(x, spellings, shown_.empty());
    shown_.insert(shown_.end(), tokens.begin(), tokens.end());
    ends_.push_back(std::ssize(shown_));
  }
  void add_line(std::span<const Token> tokens, const Spellings& spellings) {
    for (const Token x : tokens) spell(x, spellings);
  }

  // How many tokens of the text the model has room for.
  Index fed_end() const { return std::min(std::ssize(shown_), room_); }

  bool has_row(Index end, bool is_tree) const { return is_tree ? end != lost : end <= room_; }

  template <class Keep>
  Feed line_feed(std::span<const Index> ends, const Keep& keep) {
    const Index end = fed_end();
    first_ = ends.empty() ? end + 1 : std::min(ends.front(), end + 1);
    if (first_ <= cached_) keep(cached_ = first_ - 1);
    return {.tokens = std::span<const Token>(shown_).subspan(at(cached_), at(end - cached_)),
            .from = cached_,
            .rows = end + 1 - first_};
  }

  // A tree, whose nodes in the model are others.

  void add_tree(std::span<const Token> tokens, std::span<const Index> parents, const Spellings& spellings) {
    fed_ = std::ssize(nodes_);
    if (nodes_.empty()) begin_tree();
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      const Index parent = parents[k] < 0 ? root_ : lasts_[at(parents[k])];
      const auto spelled = spelling(tokens[k], spellings, parents[k] < 0 && shown_.empty());
      lasts_.push_back(add_nodes(spelled, parent));
      tree_spelled_ += std::ssize(spelled);
    }
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    parents_.insert(parents_.end(), parents.begin(), parents.end());
    reserve(shown_, shown_.size() + at(tree_spelled_));
    reserve(ends_, ends_.size() + tokens_.size());
    reserve(path_, nodes_.size() + 1);
  }

  // So that keep(path) allocates nothing.
  template <class T>
  static void reserve(std::vector<T>& values, std::size_t size) {
    if (size > values.capacity()) values.reserve(2 * size);
  }

  // What the model lacks of the text is a line that the tree branches from.
  void begin_tree() { root_ = add_nodes(std::span<const Token>(shown_).subspan(at(cached_)), context); }

  // The chain's last node. Where the model has no room for all of it, beside all the rest, none is added.
  Index add_nodes(std::span<const Token> chain, Index parent) {
    if (parent == lost || cached_ + std::ssize(nodes_) + std::ssize(chain) > room_) return lost;
    for (const Token d : chain) {
      nodes_.push_back(d);
      node_parents_.push_back(parent);
      parent = std::ssize(nodes_) - 1;
    }
    return parent;
  }

  template <class Keep>
  Feed tree_feed(std::span<const Index> lasts, const Keep& keep) {
    first_ = first_of(lasts);
    if (first_ < fed_) {
      feed_again(keep);
      first_ = first_of(lasts);
    }
    return {.tokens = std::span<const Token>(nodes_).subspan(at(fed_)),
            .from = cached_,
            .rows = std::ssize(nodes_) - first_,
            .parents = std::span<const Index>(node_parents_).subspan(at(fed_))};
  }

  Index first_of(std::span<const Index> lasts) const {
    Index first = std::ssize(nodes_);
    for (const Index last : lasts)
      if (last != lost) first = std::min(first, last);
    return first;
  }

  // The whole tree, and with it the last token of the text, for the row after that may be wanted.
  template <class Keep>
  void feed_again(const Keep& keep) {
    fed_ = 0;
    if (cached_ > 0) {
      --cached_;
      for (std::vector<Index>* const numbers : {&node_parents_, &lasts_})
        for (Index& number : *numbers) number += number == lost ? 0 : 1;
      nodes_.insert(nodes_.begin(), shown_[at(cached_)]);
      node_parents_.insert(node_parents_.begin(), context);
      ++root_;
    }
    keep(cached_);
  }

  void forget_tree() {
    tokens_.clear();
    parents_.clear();
    lasts_.clear();
    nodes_.clear();
    node_parents_.clear();
    tree_spelled_ = 0;
    root_ = context;
  }

  std::vector<Token> shown_;  // the text in the model's tokens
  std::vector<Index> ends_;   // of the text's tokens in it
  Index cached_ = 0;          // how many of them the model has cached
  Index room_ = unlimited;    // how many it can hold
  Index first_ = 0;           // which token, or node, of the model's the first row of the feed follows

  std::vector<Token> tokens_;   // of the tree
  std::vector<Index> parents_;  // of them
  std::vector<Index> lasts_;    // the model's node that each one's spelling ends with
  Index root_ = context;        // the model's node that the text ends with
  Index tree_spelled_ = 0;      // how many tokens all spellings in the tree have
  std::vector<Token> nodes_;    // the model's tree
  std::vector<Index> node_parents_;
  Index fed_ = 0;  // how many nodes the model had before the feed
  std::vector<Index> path_;
};

}  // namespace specdec::detail
