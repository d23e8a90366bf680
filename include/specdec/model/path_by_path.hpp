// Trees of tokens for models whose calls do not branch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/depth_first.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Lets any model take trees. Feeds one branch after another, and cuts the context back between them. A wrapper: see
/// model/feeds.hpp.
///
///   PathByPath target{model};
///   ProcessedModel target{PathByPath{engine}, chain, processor};    // if the model returns logits
///
/// Each row is the model's own row after the context and the tokens on the way. For tests, and for models with cheap calls:
/// each branch of a tree costs a call. With many texts, each call feeds one branch of each tree.
/// Put the ProcessedModel with a processor outside, as above: then the processor sees the tree. Inside, it would see each
/// branch as a text. Then a call for a row after a refused token must also want the row before that token.
/// Throws: also std::invalid_argument on a token outside the vocabulary, and in keep(path) if `path` is no path of the tree.
/// After a throw open trees, too, are as before.
/// Cost: a call of the model for each branch that leads to a wanted row. The call feeds only tokens that the branch before
/// does not share. With many texts, the tree with the most of these branches decides how many calls. Each row is copied,
/// also after a line, so that all rows have one type. Tokens that lead to no wanted row are not fed. keep() may keep tokens
/// that the model has not cached: the next call feeds them.
template <class M>
class PathByPath : public detail::WrapsModel<PathByPath<M>, M, true> {
  using Base = detail::WrapsModel<PathByPath, M, true>;
  friend typename Base::Functions;
  using Base::for_many;
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::can_be_wrapped<Bare>());
  using Output = std::remove_cvref_t<detail::OutputOf<Bare>>;
  static_assert(
      Probabilities<Output>,
      "the model's forward() returns no rows, of probabilities or of logits: see specdec::Model and "
      "specdec::BatchModel");

  struct Text {
    Index cached = 0;                    // how many tokens of the context the model has cached
    std::vector<Token> uncached = {};    // the other tokens of the context
    TokenTree tree = {};                 // the open tree
    std::vector<Index> cached_way = {};  // the tree's cached tokens: a way from the context
    std::vector<Index> way = {};         // to the end of the branch that is fed
    std::vector<Token> fed = {};

    // For one call: the tree's size before it, the ends of the branches to feed, how many of them have been fed, the first
    // token whose row is wanted, and the place of that row among the rows of the call.
    Index before = 0;
    std::vector<Index> ends = {};
    std::size_t next = 0;
    Index first = 0, place = 0;

    Index length() const { return cached + std::ssize(uncached); }
    void forget_tree() {
      tree.clear();
      cached_way.clear();
    }
  };

 public:
  explicit PathByPath(M&& model) : Base(std::forward<M>(model)) {}

  /// Begins with a context that somebody else has filled: see can_adopt.
  void adopt(std::span<const Token> tokens)
    requires(!for_many && can_adopt<Bare>)
  {
    texts_.erase(0);
    texts_.make(0).cached = std::ssize(tokens);
    this->adopt_inside(tokens);
  }

  /// This does not know tokens that the model was fed directly.
  static constexpr bool keeps_context = true;

 private:
  auto forward_feeds(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) check_feed(feeds[k], k);
    const auto ask = [&] {
      rows_.clear();
      enter(feeds);
      while (begin_round(feeds)) take_rows(this->inner().forward(detail::view_of(round_)));
    };
    detail::undo_on_error(ask, [&] {
      for (const BatchFeed& feed : feeds)
        if (Text* const text = texts_.find(feed.sequence)) forget_from(text->before, feed.sequence, *text);
    });
    for (const BatchFeed& feed : feeds)
      if (feed.parents.empty()) close_line(texts_.at(feed.sequence));
    return rows_.in_places(this->vocab_size());
  }

  void keep_path(Index sequence, std::span<const Index> path) {
    Text& text = texts_.make(sequence);
    detail::check_path(path, text.tree.parents());
    const Index common = detail::common_length(path, text.cached_way);
    detail::resize(text.cached_way, common);
    text.cached += common;
    this->inner().keep(sequence, text.cached);
    for (const Index node : path.subspan(static_cast<std::size_t>(common)))
      text.uncached.push_back(text.tree.token(node));
    text.forget_tree();
  }

  void keep_length(Index sequence, Index length) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return this->inner().keep(sequence, Index{0});  // what others left there
    text->forget_tree();
    const Index uncached = std::max<Index>(length - text->cached, 0);
    if (uncached < std::ssize(text->uncached)) detail::resize(text->uncached, uncached);
    text->cached = std::clamp<Index>(length, 0, text->cached);
    this->inner().keep(sequence, text->cached);
  }

  void forget(Index sequence) {
    this->inner().release(sequence);
    texts_.erase(sequence);
  }

  // Throws if the feed is not valid. Notes the tree's size: a failed call goes back to it.
  void check_feed(const BatchFeed& feed, std::size_t k) {
    Text* const text = texts_.find(feed.sequence);
    const Index size = text == nullptr ? 0 : text->tree.size();
    detail::FeedCheck<for_many>{feed, k}.after(text == nullptr ? 0 : text->length(), size);
    detail::check_tokens("tokens", feed.tokens, this->vocab_size());
    if (text != nullptr) text->before = size;
  }

  void enter(std::span<const BatchFeed> feeds) {
    Index place = 0;
    for (const BatchFeed& feed : feeds) {
      enter(feed, texts_.make(feed.sequence), place);
      place += feed.rows;
    }
  }

  // A line is fed as a tree without branches, so that the rows of both have one type.
  void enter(const BatchFeed& feed, Text& text, Index place) {
    reserve(text, static_cast<std::size_t>(text.tree.size()) + feed.tokens.size());
    text.tree.append(feed.tokens, feed.parents);
    const bool is_line = feed.parents.empty();
    text.place = place;
    text.first = text.tree.size() - feed.rows;
    text.next = 0;
    text.ends.clear();
    // A part of a prompt is fed although no row is wanted.
    const Index wanted = is_line && !feed.tokens.empty() ? std::max<Index>(feed.rows, 1) : feed.rows;
    if (wanted > 0) depth_first_(text.tree.view(), wanted, [&](Index end) { text.ends.push_back(end); });
  }

  // Makes room for a tree of `tokens` tokens: later steps need no memory.
  void reserve(Text& text, std::size_t tokens) {
    text.tree.reserve(tokens);
    text.way.reserve(tokens);
    text.cached_way.reserve(tokens);
    text.ends.reserve(tokens);
    text.uncached.reserve(text.uncached.size() + tokens);
    text.fed.reserve(text.uncached.size() + tokens);
    depth_first_.reserve(tokens);
  }

  // Takes the next branch of each tree. False if no tree has one left.
  bool begin_round(std::span<const BatchFeed> feeds) {
    round_.clear();
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      if (text.next < text.ends.size()) round_.push_back(branch(feed.sequence, text, text.ends[text.next++]));
    }
    return !round_.empty();
  }

  // The tokens on the way to `end` that the model has not cached. The wanted rows stand after the last tokens of the tree.
  // So on the way, too, they stand after its last tokens.
  BatchFeed branch(Index sequence, Text& text, Index end) {
    text.tree.view().path_to(end, text.way);
    leave(detail::common_length(text.way, text.cached_way), sequence, text);
    const Index cached = std::ssize(text.cached_way);
    text.fed.clear();
    detail::append(text.fed, text.uncached);
    for (auto node = text.way.begin() + cached; node != text.way.end(); ++node)
      text.fed.push_back(text.tree.token(*node));
    const auto rows =
        text.way.end() - std::lower_bound(text.way.begin() + cached, text.way.end(), text.first);
    return {{.tokens = text.fed, .from = text.cached + cached, .rows = rows}, sequence};
  }

  // Keeps the first `kept` of the tree's cached tokens.
  void leave(Index kept, Index sequence, Text& text) {
    if (kept == std::ssize(text.cached_way)) return;
    detail::resize(text.cached_way, kept);
    this->inner().keep(sequence, text.cached + kept);
  }

  // The model has cached the branches.
  void take_rows(const Output& output) {
    for (const BatchFeed& feed : round_) {
      Text& text = texts_.at(feed.sequence);
      text.cached += std::ssize(text.uncached);
      text.uncached.clear();
      text.cached_way = text.way;
    }
    const auto rows =
        detail::checked_rows(output, detail::rows_of(detail::view_of(round_)), this->vocab_size());
    Index row = 0;
    for (const BatchFeed& feed : round_) {
      const Text& text = texts_.at(feed.sequence);
      for (auto node = text.way.end() - feed.rows; node != text.way.end(); ++node, ++row)
        detail::in_row("model", row, [&] { rows_.add(rows.row(row), text.place + *node - text.first); });
    }
  }

  static void close_line(Text& text) {
    text.cached += std::ssize(text.cached_way);
    text.forget_tree();
  }

  // Forgets the tree's tokens from number `size` on. The model may have cached some of them before it failed.
  void forget_from(Index size, Index sequence, Text& text) {
    text.tree.forget_from(size);
    text.cached_way.erase(std::lower_bound(text.cached_way.begin(), text.cached_way.end(), size),
                          text.cached_way.end());
    this->inner().keep(sequence, text.cached + std::ssize(text.cached_way));
  }

  detail::PerSequence<Text, for_many> texts_;
  std::vector<BatchFeed> round_;
  detail::DepthFirst depth_first_;
  // Copies, even of stable rows: those live until their positions are truncated away, which may be before the next call.
  StoredRows<detail::RowAsStored<Output>, false> rows_;
};

template <class M>
PathByPath(M&&) -> PathByPath<M>;

}  // namespace specdec
