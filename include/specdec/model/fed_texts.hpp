// The texts in the contexts of a model, as far as a wrapper of the model knows them, and the walk over their trees.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Visits the ends of a tree's branches, depth first: tokens that two branches share are walked once.
class DepthFirst {
 public:
  /// Makes room for a tree of `tokens` tokens.
  void reserve(std::size_t tokens) {
    first_.reserve(tokens + 1);
    next_.reserve(tokens);
  }

  /// Calls visit(end) for the end of each branch to one of the last `wanted` tokens. Allocates nothing within the reserve.
  template <class Visit>
  void operator()(TokenTreeView tree, Index wanted, const Visit& visit) {
    const Index unwanted = tree.size() - wanted;
    next_.resize(static_cast<std::size_t>(tree.size()));
    first_.resize(next_.size() + 1);
    link_children(tree, tree.size(), first_.data(), next_.data(), [=](Index k) { return k >= unwanted; });
    for (Index token = -1;;) {
      while (child(token) >= 0) token = child(token);
      visit(token);
      token = back_while(tree, token, [this](Index k) { return sibling(k) < 0; });
      if (token < 0) return;
      token = sibling(token);
    }
  }

 private:
  Index child(Index token) const { return first_[static_cast<std::size_t>(token + 1)]; }
  Index sibling(Index token) const { return next_[static_cast<std::size_t>(token)]; }

  std::vector<Index> first_;  // the first child of the context, and of every token
  std::vector<Index> next_;   // the next sibling
};

/// The tokens of a model's open tree, for a wrapper that may fail after the model has taken the tokens of a call. The
/// model's tree cannot forget these tokens alone. They stay there, and have no number here.
class WrappedTree : public TokenTree {
 public:
  /// Makes room for `more` tokens and for any path. No other function allocates.
  void reserve(std::size_t more) {
    const std::size_t size = numbers_.size() + more;
    TokenTree::reserve(size);
    numbers_.reserve(size);
    numbered_.reserve(size);
  }

  /// Adds tokens. Call taken() when the model has cached them.
  void append(std::span<const Token> tokens, std::span<const Index> parents) {
    TokenTree::append(tokens, parents);
    for (Index k = 0; k < std::ssize(tokens); ++k) numbers_.push_back(cached_ + k);
  }
  void taken(Index tokens) { cached_ += tokens; }

  void forget_from(Index node) {
    TokenTree::forget_from(node);
    numbers_.resize(static_cast<std::size_t>(node));
  }
  void clear() {
    forget_from(0);
    cached_ = 0;
  }

  /// The numbers that these tokens have in the model's tree; −1, the context, stays −1. They live until the next call.
  std::span<const Index> of_model(std::span<const Index> nodes) & {
    numbered_.clear();
    for (const Index node : nodes) numbered_.push_back(node < 0 ? node : at(numbers_, node));
    return view_of(numbered_);
  }

 private:
  std::vector<Index> numbers_, numbered_;
  Index cached_ = 0;  // how many tokens the model's tree has
};

/// Makes room for so many elements, and for twice as many if the list has to grow.
template <class T>
void reserve_ahead(std::vector<T>& list, Index size) {
  if (size > static_cast<Index>(list.capacity())) reserve(list, 2 * size);
}

/// What the model inside a wrapper keeps of a context: the first `length` tokens, and a path of the tree after them.
struct KeptContext {
  Index length;
  std::span<const Index> path = {};
};

/// A text that a wrapper was fed: the tokens of the context, and the open tree after it. This is the whole Text (see FedTexts) of
/// a wrapper whose model has the same contexts. Others derive from it, and add what they need to know of their model.
class FedText {
 public:
  Index length() const { return length_; }
  Index seen() const { return length_; }
  std::span<const Token> tokens() const& { return first(tokens_, length_); }
  WrappedTree& tree() { return tree_; }
  const WrappedTree& tree() const { return tree_; }

  /// The tokens of the context and those on the way to a node of the tree, until the next call; −1 is the context alone.
  std::span<const Token> up_to(Index node) & {
    resize(tokens_, length_);
    each_back(tree_, node, [this](Index on_way) { tokens_.push_back(tree_.token(on_way)); });
    std::reverse(tokens_.begin() + length_, tokens_.end());
    return view_of(tokens_);
  }

  /// Adds a line, or with parents a part of the tree. After a throw nothing has changed.
  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    const Index more = std::ssize(tokens);
    reserve_ahead(tokens_, length_ + tree_.size() + more);  // for up_to() and keep()
    if (parents.empty()) {
      resize(tokens_, length_);
      append(tokens_, tokens);
      length_ += more;
    } else {
      tree_.reserve(tokens.size());
      tree_.append(tokens, parents);
    }
  }

  KeptContext keep(std::span<const Index> path) {
    const Index before = length_;
    up_to(path.empty() ? -1 : path.back());
    length_ += std::ssize(path);
    const KeptContext kept{before, tree_.of_model(path)};
    tree_.clear();
    return kept;
  }

  KeptContext truncate(Index length) {
    tree_.clear();
    length_ = std::clamp<Index>(length, 0, length_);
    return {length_};
  }

  void forget_from(Index node) { tree_.forget_from(node); }

 private:
  std::vector<Token> tokens_;  // the context, and sometimes a way through the tree after it
  Index length_ = 0;
  WrappedTree tree_;
};

/// The texts that a wrapper keeps, one for each context of its model. A Text has the functions of FedText:
///
///   length()               how many tokens the context has
///   tree()                 the WrappedTree after it
///   add(tokens, parents)   adds a line or, with parents, tokens to the tree. After a throw nothing has changed
///   keep(path)             makes a path of the tree part of the context and forgets the rest of the tree
///   truncate(length)       forgets the tree, and keeps the first `length` tokens of the context
///   forget_from(node)      forgets the tree's tokens from number `node` on
///
/// The last three must not throw. They return what the model is to keep (KeptContext), or nothing if the model is not told. So
/// each Text says how its model follows, and the order of things is here.
template <class Text>
class FedTexts {
  static constexpr bool tells_model = !std::is_void_v<decltype(std::declval<Text&>().truncate(Index{}))>;

 public:
  /// Adds all feeds to their texts; after a throw, none. begin(sequence) makes the Text of a new sequence. Returns the feeds
  /// with the node numbers of the model's own trees; they live until the next call.
  /// Throws: what check_feed() and begin() throw.
  template <class Begin, class Model>
  std::span<const BatchFeed> enter(std::span<const BatchFeed> feeds, const Begin& begin, Model&& model) {
    of_model_.assign(feeds.begin(), feeds.end());
    before_.resize(feeds.size());
    std::size_t k = 0;
    const auto enter_all = [&] {
      for (; k < feeds.size(); ++k) enter(k, begin);
    };
    undo_on_error(enter_all, [&] { leave(feeds.first(k), model); });
    return view_of(of_model_);
  }

  /// Notes that the model has taken the feeds in.
  void taken(std::span<const BatchFeed> feeds) {
    for (const BatchFeed& feed : feeds)
      if (!feed.parents.empty()) at(feed.sequence).tree().taken(std::ssize(feed.tokens));
  }

  /// Removes the feeds of the last call again, here and in the model: after a throw. A tree that was open before the call stays
  /// open. The model's own tree then keeps the call's tokens; they have no number here.
  template <class Model>
  void leave(std::span<const BatchFeed> feeds, Model&& model) {
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      const Index sequence = feeds[k].sequence;
      Text& text = at(sequence);
      if (before_[k].nodes > 0) change(model, sequence, [&] { return text.forget_from(before_[k].nodes); });
      else change(model, sequence, [&] { return text.truncate(feeds[k].from); });
      // Where the model is not told, the Text may know how its context began.
      if (before_[k].begins && tells_model) texts_.erase(sequence);
    }
  }

  /// Makes the Text of a sequence now.
  template <class Begin>
  Text& begin(Index sequence, const Begin& begin_text) {
    return texts_.make(sequence, begin_text(sequence));
  }

  /// The sequence's context is these tokens, whatever it was, and no tree is open after it.
  template <class Begin>
  Text& adopt(Index sequence, std::span<const Token> tokens, const Begin& begin_text) {
    texts_.erase(sequence);
    Text& text = begin(sequence, begin_text);
    undo_on_error([&] { text.add(tokens, {}); }, [&] { texts_.erase(sequence); });
    return text;
  }

  Text& at(Index sequence) { return texts_.at(sequence); }
  Text* find(Index sequence) { return texts_.find(sequence); }

  /// Does nothing for an unknown number. Returns whether the number is known.
  /// Throws: InvalidArgument if `path` is no path of the tree; then nothing has changed.
  template <class Model>
  bool keep(Index sequence, std::span<const Index> path, Model&& model) {
    Text* const text = find(sequence);
    if (text == nullptr) return false;
    check_path(path, text->tree().parents());
    change(model, sequence, [&] { return text->keep(path); });
    return true;
  }
  /// A context that is not known here was filled by others, and is emptied.
  template <class Model>
  void truncate(Index sequence, Index length, Model&& model) {
    if (Text* const text = find(sequence)) change(model, sequence, [&] { return text->truncate(length); });
    else if constexpr (tells_model) model.keep(sequence, Index{0});
  }
  /// Gives the new sequence `to` the text of `from` without an open tree, and the model a copy of its context. twin_of(text)
  /// makes the Text. After a throw nothing has changed.
  /// Throws: InvalidArgument if `to` has a context; what the model and twin_of() throw.
  template <class Model, class Twin = std::identity>
  void fork(Index from, Index to, Model&& model, const Twin& twin_of = {}) {
    if (find(to)) invalid_argument("to = ", to, ": this sequence has a context already");
    const Text* const text = find(from);
    if (text == nullptr) return;
    Text& twin = texts_.make(to, twin_of(*text));
    if constexpr (tells_model) undo_on_error([&] { model.fork(from, to); }, [&] { texts_.erase(to); });
    change(model, to, [&] { return twin.truncate(twin.length()); });
  }

  template <class Model>
  void forget(Index sequence, Model&& model) {
    if constexpr (requires { model.release(sequence); }) model.release(sequence);
    texts_.erase(sequence);
  }

 private:
  template <class Begin>
  void enter(std::size_t k, const Begin& begin) {
    const Index sequence = of_model_[k].sequence;
    Text* const known = find(sequence);
    before_[k].begins = known == nullptr;
    if (known) return enter(k, *known);
    Text& begun = this->begin(sequence, begin);
    undo_on_error([&] { enter(k, begun); }, [&] { texts_.erase(sequence); });
  }
  void enter(std::size_t k, Text& text) {
    BatchFeed& feed = of_model_[k];
    before_[k].nodes = text.tree().size();
    check_feed(feed, k, text.length(), before_[k].nodes);
    text.add(feed.tokens, feed.parents);
    feed.parents = text.tree().of_model(feed.parents);
  }

  // Changes a text, and tells the model what it keeps.
  template <class Model, class Change>
  static void change(Model& model, Index sequence, const Change& change_text) {
    if constexpr (std::is_void_v<decltype(change_text())>) {
      change_text();
    } else {
      const KeptContext kept = change_text();
      if constexpr (requires { model.keep(sequence, kept.path); })
        if (!kept.path.empty()) return model.keep(sequence, kept.path);
      model.keep(sequence, kept.length);
    }
  }

  // The state of a feed's text before the call.
  struct Before {
    Index nodes = 0;      // how many nodes the text's tree had
    bool begins = false;  // the feed is the first one of its text
  };

  PerSequence<Text> texts_;
  std::vector<BatchFeed> of_model_;
  std::vector<Before> before_;  // for each feed of the call
};

}  // namespace specdec::detail
