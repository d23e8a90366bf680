// The texts in a model's contexts, as far as a wrapper of the model knows them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The texts that a wrapper keeps, one for each context of its model, with the open tree after it. A Text has
///
///   length()               how many tokens the context has
///   tree()                 the WrappedTree
///   add(tokens)            adds a line; after a throw nothing has changed
///   add(tokens, parents)   adds tokens to the tree; std::invalid_argument if parents make no tree. After a throw nothing
///                          has changed
///   keep(path)             makes a path of the tree part of the context and forgets the rest of the tree
///   forget_from(node)      forgets the tree's tokens from number `node` on
///   truncate(length)       forgets the tree, and keeps the first `length` tokens of the context
template <class Text, bool for_many>
class FedTexts {
 public:
  /// Adds all feeds to their texts; after a throw, none. begin(sequence) makes the Text of a new sequence. Returns the feeds
  /// with the node numbers of the model's own trees; they live until the next call.
  /// Throws: std::invalid_argument if a context does not hold feed.from tokens, or if parents make no tree;
  /// std::logic_error on a line while the sequence's tree is open; what begin() throws.
  template <class Begin>
  std::span<const BatchFeed> enter(std::span<const BatchFeed> feeds, const Begin& begin) {
    of_model_.assign(feeds.begin(), feeds.end());
    before_.resize(feeds.size());
    std::size_t k = 0;
    const auto enter_all = [&] {
      for (; k < feeds.size(); ++k) enter(k, begin);
    };
    undo_on_error(enter_all, [&] { leave(feeds.first(k)); });
    return view_of(of_model_);
  }

  /// Notes that the model has taken the feeds in.
  void taken(std::span<const BatchFeed> feeds) {
    for (const BatchFeed& feed : feeds)
      if (!feed.parents.empty()) texts_.at(feed.sequence).tree().taken(std::ssize(feed.tokens));
  }

  /// The sequence's context is these tokens, whatever it was, and no tree is open after it.
  template <class Begin>
  void adopt(Index sequence, std::span<const Token> tokens, const Begin& begin) {
    texts_.erase(sequence);
    texts_.make(sequence, begin(sequence)).add(tokens);
  }

  Text& at(Index sequence) { return texts_.at(sequence); }
  Text* find(Index sequence) { return texts_.find(sequence); }

  /// Removes the feeds of the last call again, here and in the model. A tree that was open before the call stays open. The
  /// model's own tree then keeps the call's tokens; they have no number here.
  template <class Model>
  void leave(std::span<const BatchFeed> feeds, Model&& model) {
    for (std::size_t k = 0; k < feeds.size(); ++k)
      if (!found_tree(k)) model.keep(feeds[k].sequence, feeds[k].from);
    leave(feeds);
  }

  template <class Model>
  void keep(Index sequence, std::span<const Index> path, Model&& model) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return model.keep(sequence, path);
    check_path(path, text->tree().parents());
    model.keep(sequence, text->tree().of_model(path));
    text->keep(path);
  }
  template <class Model>
  void truncate(Index sequence, Index length, Model&& model) {
    model.keep(sequence, length);
    if (Text* const text = texts_.find(sequence)) text->truncate(length);
  }
  template <class Model>
  void forget(Index sequence, Model&& model) {
    model.release(sequence);
    texts_.erase(sequence);
  }

 private:
  template <class Begin>
  void enter(std::size_t k, const Begin& begin) {
    const Index sequence = of_model_[k].sequence;
    Text* const known = texts_.find(sequence);
    before_[k].begins = known == nullptr;
    if (known) return enter(k, *known);
    Text& begun = texts_.make(sequence, begin(sequence));
    undo_on_error([&] { enter(k, begun); }, [&] { texts_.erase(sequence); });
  }
  void enter(std::size_t k, Text& text) {
    BatchFeed& feed = of_model_[k];
    const FeedCheck<for_many> check{feed, k};
    check.from(text.length());
    before_[k].nodes = text.tree().size();
    check.branches(found_tree(k));
    if (feed.parents.empty()) return text.add(feed.tokens);
    text.add(feed.tokens, feed.parents);
    feed.parents = text.tree().of_model(feed.parents);
  }

  void leave(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      if (before_[k].begins) {
        texts_.erase(feeds[k].sequence);
        continue;
      }
      Text& text = texts_.at(feeds[k].sequence);
      text.forget_from(before_[k].nodes);
      if (!found_tree(k)) text.truncate(feeds[k].from);
    }
  }

  // Whether feed number k of the call found a tree open.
  bool found_tree(std::size_t k) const { return before_[k].nodes > 0; }

  // The state of a feed's text before the call.
  struct Before {
    Index nodes = 0;      // how many nodes the text's tree had
    bool begins = false;  // the feed is the first one of its text
  };

  PerSequence<Text, for_many> texts_;
  std::vector<BatchFeed> of_model_;
  std::vector<Before> before_;  // for each feed of the call
};

}  // namespace specdec::detail
