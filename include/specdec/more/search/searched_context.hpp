// What a model has cached of the texts of a beam search, and what it says of them.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/call.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/search/searched_texts.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// What a search needs of a model: its sizes, and how many of the likeliest tokens of each row, with ids below `ids`.
struct SearchedModel {
  const char* name;  ///< of the matrix of its rows, in errors
  ExternalTarget sizes;
  Index likeliest, ids;
  Index new_tokens;  ///< the most that a step of the search adds
};

/// A context of a model that takes trees, as a search has it read. The context has the prompt and the tokens that all beams
/// share; its open tree has the tokens of the beams after them. Texts that the search has given up stay in the tree, as a model
/// can keep no more than one path. When there are too many of them, the tree is given up, and the beams are fed again.
///
/// It calls no model:
///
///   feed(texts, nodes)       what the model is fed, so that the rows after these nodes are known
///   take(rows)               the rows of the call
///   settle(texts, node)      after a step of the search: decides what the model keeps, which kept_path() tells
///   taken(), withdraw()      ends the call, or undoes it: the tree is then fed anew
class SearchedContext {
 public:
  /// The context holds the first `cached` tokens of the prompt.
  SearchedContext(const SearchedModel& model, Index cached) : model_(model), read_{.cached = cached} {}

  /// Whether likeliest(node) is known.
  bool knows(Index node) const { return node < std::ssize(nodes_) && at(node).known; }
  bool knows(std::span<const Index> nodes) const {
    return std::all_of(nodes.begin(), nodes.end(), [this](Index node) { return knows(node); });
  }
  std::span<const LikelyToken> likeliest(Index node) const {
    return std::span(likely_).subspan(at(node).first, at(node).count);
  }

  /// To be called before a search goes on after the node. A row in which no token has a positive probability is an error only
  /// then: a text that was only proposed, and is not kept, may end in one. After the error the row is no longer known.
  /// Throws: InvalidDistribution at such a row.
  void check_node(Index node) {
    if (!at(node).dead_end) return;
    detail::at(nodes_, node).known = false;
    in_row(model_.name, at(node).row, [] { invalid_distribution("no token has positive probability"); });
  }

  /// Whether the search may come to this node, as far as is known: each of the last `levels` tokens on the way is one of the
  /// likeliest after the tokens before it. (A processor's row after a token that it refuses means nothing, so one look at the
  /// last token is not enough.)
  bool can_reach(const SearchedTexts& texts, Index node, Index levels) const {
    for (; levels > 0; --levels, node = texts.parent(node)) {
      const Index parent = texts.parent(node);
      if (!knows(parent)) continue;
      const auto next = likeliest(parent);
      if (std::none_of(next.begin(), next.end(),
                       [&](const LikelyToken& one) { return one.token == texts.token(node); }))
        return false;
    }
    return true;
  }

  /// Whether the context has room for a call that asks about these nodes.
  bool fits(const SearchedTexts& texts, std::span<const Index> nodes) {
    collect(texts, nodes);
    const Index prompt = std::ssize(texts.prompt()) - in_context(texts);
    return read_.cached + read_.tree.size() + prompt + std::ssize(fed_) <= model_.sizes.context;
  }

  /// What the model is fed, so that the nodes are known. Its views live until the next feed().
  /// Throws: what allocation throws; then withdraw() undoes the call.
  Feed feed(const SearchedTexts& texts, std::span<const Index> nodes) {
    call_.out = true;
    call_.cached = read_.cached;
    call_.base = read_.base;
    call_.likely = likely_.size();
    path_.clear();
    collect(texts, nodes);
    call_.rows =
        fed_.end() - std::find_if(fed_.begin(), fed_.end(), [this](Index k) { return !at(k).known; });
    const auto before = static_cast<std::size_t>(read_.tree.size());
    call_.opens = before == 0;
    add_prompt(texts);
    for (const Index node : fed_) add(texts, node);
    if (call_.opens) read_.opened_with = read_.tree.size();
    return {.tokens = tokens_in_vocabulary(read_.tree.tokens().subspan(before), model_.sizes.vocabulary,
                                           call_.replaced),
            .from = read_.cached,
            .rows = call_.rows,
            .parents = read_.tree.parents().subspan(before)};
  }
  /// Whether the last feed begins a tree.
  bool opens() const { return call_.opens; }

  /// Throws: InvalidCall if nothing was fed; InvalidArgument on rows of another shape; InvalidDistribution on a row
  /// that cannot be read. Then withdraw() undoes the call.
  template <class Rows>
  void take(const Rows& rows) {
    if (!call_.out)
      invalid_call("there is no proposal for these rows of the ", model_.name, ": propose first");
    check_shape(model_.name, rows.rows(), row_size(rows), call_.rows, model_.sizes.vocabulary);
    for (Index i = 0; i < call_.rows; ++i)
      take(rows.row(i), i, detail::at(fed_, std::ssize(fed_) - call_.rows + i));
  }

  void taken() {
    call_.out = false;
    call_.told.clear();
  }
  /// The rows of the call are forgotten, if it is not taken. The model may have closed its tree.
  void withdraw() {
    if (!call_.out) return;
    for (const Index node : call_.told) detail::at(nodes_, node).known = false;
    likely_.resize(call_.likely);
    read_.cached = call_.cached;
    read_.base = call_.base;
    path_.clear();
    close();
    taken();
  }

  /// Says that from now on all beams that go on go through this node; −1: none goes on. The tree is given up if it has the
  /// prompt, many more tokens than it began with, or so many that there may be no room for the next step.
  /// Throws: std::bad_alloc; then nothing has changed.
  void settle(const SearchedTexts& texts, Index node) {
    reserve(path_, read_.tree.size());
    path_.clear();
    const Index room = model_.sizes.context - read_.cached - read_.tree.size();
    if (read_.tree.size() > most_added + 2 * read_.opened_with || read_.prompt > 0 ||
        room < model_.new_tokens)
      give_up_tree(texts, node);
  }
  /// The path of the tree that the model is to keep since the last settle(). Empty: it keeps all.
  std::span<const Index> kept_path() const { return view_of(path_); }

 private:
  // A token in the tree costs a little in each call, as attention is computed over it; a token that is fed again costs more.
  // After a tree is given up, the tokens that the beams do not share are fed again, so a tree must outgrow them first.
  static constexpr Index most_added = 256;

  // What is known of a node.
  struct KnownNode {
    Index number = -1;                 // in the model's tree
    std::size_t first = 0, count = 0;  // its place in likely_
    bool known = false, dead_end = false;
    Index row = -1;  // of the call that told it
  };
  // What the model has read.
  struct ReadTokens {
    Index cached = 0;  // tokens of the context, without the tree
    Index base = -1;   // the last node in the context; −1: no node is
    TokenTree tree = {};
    Index opened_with = 0;  // tokens of the tree's first call
    Index prompt = 0;       // how many tokens of the tree are prompt
  };
  struct LastCall {
    bool out = false, opens = false;  // whether its rows are still to come; whether it begins a tree
    Index rows = 0;
    Index cached = 0, base = -1;  // as they were before it
    std::size_t likely = 0;
    std::vector<Index> told = {};
    std::vector<Token> replaced = {};
  };

  const KnownNode& at(Index node) const { return detail::at(nodes_, node); }
  bool in_tree(Index node) const { return node < std::ssize(nodes_) && at(node).number >= 0; }
  Index in_context(const SearchedTexts& texts) const {
    return std::min(read_.cached + read_.prompt, std::ssize(texts.prompt()));
  }

  // The tokens that all beams share enter the context.
  void give_up_tree(const SearchedTexts& texts, Index shared) {
    const Index node = back_while(
        texts, shared, [this](Index k) { return !in_tree(k); }, read_.base);
    const auto add = [&](Index k) { path_.push_back(at(k).number); };
    each_back(texts, node, add, read_.base);
    for (Index k = read_.prompt; k-- > 0;) path_.push_back(k);
    std::reverse(path_.begin(), path_.end());
    read_.cached += std::ssize(path_);
    read_.base = node;
    close();
  }

  void close() {
    for (KnownNode& seen : nodes_) seen.number = -1;
    read_.tree.clear();
    read_.prompt = 0;
  }

  // Sets fed_ to the nodes that must be fed.
  void collect(const SearchedTexts& texts, std::span<const Index> nodes) {
    resize(nodes_, texts.size());
    fed_.clear();
    for (const Index node : nodes) {
      if (at(node).known) continue;
      const auto feed = [this](Index k) {
        if (in_tree(k)) return false;
        fed_.push_back(k);
        return true;
      };
      back_while(texts, node, feed, read_.base);
    }
    std::sort(fed_.begin(), fed_.end());
    fed_.erase(std::unique(fed_.begin(), fed_.end()), fed_.end());
  }

  void add_prompt(const SearchedTexts& texts) {
    for (const Token token : after(texts.prompt(), in_context(texts))) {
      read_.tree.append(token, read_.tree.size() - 1);
      ++read_.prompt;
    }
  }
  void add(const SearchedTexts& texts, Index node) {
    const Index parent = texts.parent(node);
    detail::at(nodes_, node).number =
        read_.tree.append(texts.token(node), parent == read_.base ? read_.prompt - 1 : at(parent).number);
  }

  template <class Row>
  void take(const Row& row, Index i, Index node) {
    const std::size_t first = likely_.size();
    bool dead_end = false;
    in_row(model_.name, i, [&] {
      const auto found = top_.of(row, model_.likeliest);
      dead_end = found.empty();
      for (const TopToken& top : found)
        if (top.token < model_.ids) likely_.push_back({top.token, log_probability(row, top.token)});
    });
    call_.told.push_back(node);
    KnownNode& seen = detail::at(nodes_, node);
    seen.first = first;
    seen.count = likely_.size() - first;
    seen.known = true;
    seen.row = i;
    seen.dead_end = dead_end;
  }

  SearchedModel model_;
  ReadTokens read_;
  std::vector<KnownNode> nodes_;
  std::vector<LikelyToken> likely_;
  LastCall call_;
  std::vector<Index> fed_, path_;
  TopTokens top_;
};

}  // namespace specdec::detail
