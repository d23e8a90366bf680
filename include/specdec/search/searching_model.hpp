// What a model has cached of the texts of a beam search, and what it says of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/search/searched_texts.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// A model that takes trees, held by value (M) or referred to (M&). Its context has the prompt and the tokens that all beams
/// share; its open tree has the tokens of the beams after them. Texts that the search has given up stay in the tree, as a
/// model can keep no more than one path. When there are too many of them, the tree is given up, and the beams are fed again.
template <class M>
class SearchingModel {
  using Feeds = OverFeeds<M>;

 public:
  explicit SearchingModel(M&& model) : model_(std::forward<M>(model)), turns_(Turns::of<M>(model_.model())) {}

  Index vocab_size() const { return model_.model().vocab_size(); }

  /// Empties the cache for a search after this prompt. The prompt must outlive the search. Of each row the `count` likeliest
  /// tokens below `vocab_size` are found; errors call the row's matrix `name`.
  void begin(std::span<const Token> prompt, const char* name, Index count, Index vocab_size) {
    turn_.take(turns_);
    end();
    prompt_ = prompt.first(prompt.size() - 1);  // its last token is node 0
    name_ = name;
    count_ = count;
    most_id_ = vocab_size;
    cached_ = 0;
    base_ = shared_ = -1;
    likely_.clear();
    nodes_.clear();
    close();
  }
  /// Empties the cache.
  void end() {
    if constexpr (!Feeds::for_many) model_.keep(sequence, 0);
    else if (std::exchange(called_, false)) model_.release(sequence);
  }

  /// Whether likeliest(node) is known.
  bool knows(Index node) const { return node < std::ssize(nodes_) && at(node).known; }

  std::span<const LikelyToken> likeliest(Index node) const {
    return std::span(likely_).subspan(at(node).first, at(node).count);
  }

  /// To be called before a search goes on after the node. A row in which no token has a positive probability is an error only
  /// then: a text that was only proposed, and is not kept, may end in one.
  /// Throws: InvalidDistribution at such a row.
  void check_node(Index node) const {
    if (at(node).dead_end)
      in_row(name_, at(node).row, [] { invalid_distribution("no token has positive probability"); });
  }

  /// Whether the context has room for a call that asks about these nodes. Gives the tree up if that makes the room.
  bool has_room(const SearchedTexts& texts, std::span<const Index> nodes) {
    if (fits(texts, nodes)) return true;
    give_up_tree(texts);
    return fits(texts, nodes);
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

  /// Makes likeliest(node) known for these nodes, in at most one call of the model. Returns the number of calls.
  /// Throws: InvalidDistribution on a row that cannot be read; what the model throws.
  Index ask(const SearchedTexts& texts, std::span<const Index> nodes) {
    check_turn();
    collect(texts, nodes);
    if (wanted_ == 0) return 0;
    const auto before = static_cast<std::size_t>(tree_.size());
    add_prompt();
    for (const Index node : fed_) add(texts, node);
    if (before == 0) opened_with_ = tree_.size();
    const BatchFeed feed{
        {.tokens = tokens_in_vocabulary(tree_.tokens().subspan(before), vocab_size(), replaced_),
         .from = cached_,
         .rows = wanted_,
         .parents = tree_.parents().subspan(before)},
        sequence};
    called_ = true;
    decltype(auto) output = model_.forward(std::span(&feed, 1));
    const auto rows = distributions(output);
    check_shape(name_, rows.rows(), row_size(rows), wanted_, vocab_size());
    for (Index i = 0; i < wanted_; ++i)
      take(rows.row(i), i, detail::at(fed_, std::ssize(fed_) - wanted_ + i));
    return 1;
  }

  /// Says that from now on all beams go through this node. The tree is given up if it has the prompt, or many more tokens
  /// than it began with.
  void share(const SearchedTexts& texts, Index node) {
    shared_ = node;
    if (tree_.size() > most_added + 2 * opened_with_ || prompt_in_tree_ > 0) give_up_tree(texts);
  }

 private:
  static constexpr Index sequence = 0;
  // A token in the tree costs a little in each call, as attention is computed over it; a token that is fed again costs more.
  // After a tree is given up, the tokens that the beams do not share are fed again, so a tree must outgrow them first.
  static constexpr Index most_added = 256;

  // What is known of a node.
  struct Seen {
    Index number = -1;                 // in the model's tree
    std::size_t first = 0, count = 0;  // its place in likely_
    bool known = false, dead_end = false;
    Index row = -1;  // of the call that told it
  };
  const Seen& at(Index node) const { return detail::at(nodes_, node); }
  bool in_tree(Index node) const { return node < std::ssize(nodes_) && at(node).number >= 0; }
  Index in_context() const { return std::min(cached_ + prompt_in_tree_, std::ssize(prompt_)); }

  bool fits(const SearchedTexts& texts, std::span<const Index> nodes) {
    collect(texts, nodes);
    const Index prompt = std::ssize(prompt_) - in_context();
    return cached_ + tree_.size() + prompt + std::ssize(fed_) <= context_size(model_.model());
  }

  void check_turn() const {
    if (!turn_.lasts(turns_))
      logic_error("the ", name_,
                  " model was used elsewhere during a beam search: give the target, the draft ",
                  "model and other users a model each");
  }

  // The tokens that all beams share enter the context.
  void give_up_tree(const SearchedTexts& texts) {
    check_turn();
    const Index node = back_while(
        texts, shared_, [this](Index k) { return !in_tree(k); }, base_);
    path_.clear();
    const auto add = [&](Index k) { path_.push_back(at(k).number); };
    each_back(texts, node, add, base_);
    for (Index k = prompt_in_tree_; k-- > 0;) path_.push_back(k);
    std::reverse(path_.begin(), path_.end());
    if (path_.empty()) model_.keep(sequence, cached_);
    else model_.keep(sequence, view_of(path_));
    cached_ += std::ssize(path_);
    base_ = node;
    close();
  }

  void close() {
    for (Seen& seen : nodes_) seen.number = -1;
    tree_.clear();
    prompt_in_tree_ = 0;
  }

  // Sets fed_ to the nodes that must be fed, and wanted_ to the number of rows: from the first node on whose row is unknown.
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
      back_while(texts, node, feed, base_);
    }
    std::sort(fed_.begin(), fed_.end());
    fed_.erase(std::unique(fed_.begin(), fed_.end()), fed_.end());
    const auto unknown = [this](Index k) { return !at(k).known; };
    wanted_ = fed_.end() - std::find_if(fed_.begin(), fed_.end(), unknown);
  }

  void add_prompt() {
    for (Index i = in_context(); i < std::ssize(prompt_); ++i) {
      tree_.append(prompt_[static_cast<std::size_t>(i)], tree_.size() - 1);
      ++prompt_in_tree_;
    }
  }
  void add(const SearchedTexts& texts, Index node) {
    const Index parent = texts.parent(node);
    nodes_[static_cast<std::size_t>(node)].number =
        tree_.append(texts.token(node), parent == base_ ? prompt_in_tree_ - 1 : at(parent).number);
  }

  template <class Row>
  void take(const Row& row, Index i, Index node) {
    const std::size_t first = likely_.size();
    bool dead_end = false;
    in_row(name_, i, [&] {
      const auto found = top_.of(row, count_);
      dead_end = found.empty();
      for (const TopToken& top : found)
        if (top.token < most_id_) likely_.push_back({top.token, log_probability(row, top.token)});
    });
    Seen& seen = detail::at(nodes_, node);
    seen.first = first;
    seen.count = likely_.size() - first;
    seen.known = true;
    seen.row = i;
    seen.dead_end = dead_end;
  }

  Feeds model_;
  Turns turns_;
  Turn turn_;
  std::span<const Token> prompt_;  // without its last token
  const char* name_ = "";
  Index count_ = 0, most_id_ = 0;
  Index cached_ = 0;          // tokens of the context, without the tree
  Index base_ = -1;           // the last node in the context; −1: no node is
  Index shared_ = -1;         // the last node that all beams share
  bool called_ = false;       // since the cache was emptied
  TokenTree tree_;            // the model's
  Index opened_with_ = 0;     // tokens of its first call
  Index prompt_in_tree_ = 0;  // how many of them are prompt
  std::vector<Seen> nodes_;
  std::vector<LikelyToken> likely_;
  std::vector<Index> fed_, path_;
  Index wanted_ = 0;
  std::vector<Token> replaced_;
  TopTokens top_;
};

}  // namespace specdec::detail
