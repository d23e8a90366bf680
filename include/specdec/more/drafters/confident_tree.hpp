// Trees that are deep where the draft model is confident, and wide where it is not.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/keep_drafting.hpp"
#include "specdec/draft/strategies/siblings.hpp"
#include "specdec/draft/strategies/strategy.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {

namespace detail {
template <class Kind, Distribution Q, bool stable>
class ConfidentGrowth;
}

/// Drafts the tokens that the model is most confident of. The confidence in a token is the product of the draft
/// probabilities along its path. In each level the `width` nodes of largest confidence get their `width` likeliest tokens as
/// children. Of all tokens found, the `nodes` tokens of largest confidence are proposed. They form a tree, because the
/// confidence falls along a path. Among equals, the token nearer to the context comes first, then the child of the earlier
/// node, then the lower id. A stop token gets no children (DraftLimits::ends_at).
///
///   ModelDrafter drafter{small, ConfidentTree{.width = 8, .depth = 5, .nodes = 48}};
///
/// All tokens are chosen, none is drawn, so all rows are one-hot. At temperatures above 0.3 or so chosen tokens are accepted less
/// often than drawn ones: see DrawnConfidentTree. After a chosen draft GreedyBlockVerifier modifies nothing, and needs no trunk. A
/// draft length that rates tokens (EarlyStoppingLength, or one of your own: DraftLength) replaces the draft probabilities by the
/// probabilities of acceptance that it learns. After each level it says whether there is another, and at the end how many tokens
/// are proposed; `depth` and `nodes` are the most. Any other draft length leaves the tree as it is. Near the end of a bounded
/// context fewer nodes get children: see ModelDrafter.
/// Source: Li et al., "EAGLE-2", arXiv:2406.16858, sections 4.1 and 4.2. Deviation: a node gets no children if none of them
/// could be proposed; this changes only the cost.
/// Throws: InvalidArgument, when a ModelDrafter is made, unless 1 <= width <= 1024 and depth and nodes are in 0..longest_draft.
/// Random: none.
/// Cost: a model call for each level, and a pass over each of its rows. Where a draft length rates tokens of processed
/// logits, also the log-sum-exp of each row before the processing.
struct ConfidentTree {
  Index width = 10;  ///< how many nodes of a level get children, and how many children each of them gets
  Index depth = 6;   ///< how many levels there are
  Index nodes = 60;  ///< how many tokens are proposed

  static constexpr bool drafts_trees = true, branches = true, draws = false;

  template <Distribution Q, bool stable>
  using Growth = detail::ConfidentGrowth<ConfidentTree, Q, stable>;

  /// Called by ModelDrafter's constructor.
  void check_settings() const {
    constexpr Index widest = 1024;  // a level has no more than longest_draft tokens
    if (width < 1 || width > widest) detail::invalid_argument("width = ", width, " is outside 1..", widest);
    detail::check_drafted("depth", depth);
    detail::check_drafted("nodes", nodes);
  }
};

/// A confident tree with drawn tokens. Each level gets `width` tokens, where they are expected to be accepted most often. The
/// children of a node are those of DrawnThenLikeliest: one is drawn and comes first, the others are chosen. All are proposed.
///
///   ModelDrafter drafter{small, DrawnConfidentTree{.width = 2, .depth = 4}};
///
/// The confidence in a token is a product along its path: of q(x) for a chosen token, of `overlap` · (1 − q(B)) for a drawn one,
/// where B are its siblings. A node's first child is worth `overlap` times the node's confidence, another one (1 − overlap) · q(x)
/// times. The rule is one for drawn trees (TraversalVerifier). Draft lengths leave the tree as it is. Else as ConfidentTree.
/// Throws: InvalidArgument, when a ModelDrafter is made, if width or depth is not as in ConfidentTree, or overlap outside [0, 1].
/// Random: one draw for each node with children, by ascending number.
/// Cost: a model call for each level, over up to `width` tokens; two passes over each row, or three.
struct DrawnConfidentTree {
  Index width = 4;       ///< how many tokens a level has
  Index depth = 4;       ///< how many levels there are
  double overlap = 0.6;  ///< how often a token that is drawn from a whole row is accepted: Σ min(p, q)

  static constexpr bool drafts_trees = true, branches = true, draws = true;

  template <Distribution Q, bool stable>
  using Growth = detail::ConfidentGrowth<DrawnConfidentTree, Q, stable>;

  /// Called by ModelDrafter's constructor.
  void check_settings() const {
    ConfidentTree{.width = width, .depth = depth}.check_settings();
    if (!(overlap >= 0 && overlap <= 1))
      detail::invalid_argument("overlap = ", overlap, " is outside [0, 1]");
  }
};

namespace detail {

/// Grows level by level. Of chosen tokens the best are proposed after the last level.
template <class Kind, Distribution Q, bool stable>
class ConfidentGrowth {
  using Rows = StoredRows<Q, stable>;
  using Row = typename std::conditional_t<Kind::draws, DrawnThenLikeliest,
                                          Likeliest>::template Row<typename Rows::Stored>;

 public:
  void begin(const Kind& tree, const DraftLimits& limits, Index room) {
    strategy_ = tree;
    clear(found_, best_, leaves_, fed_, tree_, rows_, after_);
    grown_ = 0;
    room_ = room;
    limits_ = limits;
    limits_.depth = std::min(tree.depth, limits.depth);
    if constexpr (Kind::draws)
      limits_.nodes = std::min({limits.nodes, longest_draft, tree.width * tree.depth});
    else limits_.nodes = std::min(limits.nodes, tree.nodes);
    // Rows of siblings may be views of its tokens.
    tree_.reserve(static_cast<std::size_t>(std::max<Index>(limits_.nodes, 0)));
    if (limits_.nodes > 0 && limits_.depth > 0 && room >= 0) leaves_.push_back(-1);
  }
  void end() { leaves_.clear(); }

  bool next() const { return !leaves_.empty(); }
  DraftWish wish() const {
    const Index before = grown_ == 0 ? 0 : fed_.size() - std::ssize(leaves_);
    return {.tokens = after(fed_.tokens(), before), .parents = after(fed_.parents(), before)};
  }

  /// Adds the children of the leaves, and keeps the best `nodes` of all nodes found in best_.
  template <class Output, class C, class KeepDrafting>
  void take(const Output& output, C& chance, const KeepDrafting& keep_drafting) {
    const Index level = std::ssize(found_);
    if constexpr (Kind::draws) draw_level(output, chance);
    else
      for (std::size_t i = 0; i < leaves_.size(); ++i)
        grow(leaves_[i], output.row(static_cast<Index>(i)), keep_drafting);
    keep_best(Kind::draws ? unlimited : limits_.nodes, [this](Index k) { return node(k).confidence; });
    choose_leaves(level);
    ++grown_;
    if constexpr (!Kind::draws) {
      if constexpr (requires { keep_drafting.rates(); })
        if (keep_drafting.rates()) return ask(keep_drafting);
      if (leaves_.empty()) propose([](double) {});
    }
  }

  Draft<RowSpan<Row>> draft(Index vocab_size) const {
    return {tree_.tokens(), RowSpan<Row>(view_of(rows_), vocab_size), tree_.parents()};
  }

 private:
  struct Node {
    Token token;
    Index parent;
    double confidence;   // of its path
    double probability;  // for a draft length: before temperature
    Index number;        // in fed_ (−1: it is not there), and from propose() on in tree_
  };

  Node& node(Index k) { return found_[static_cast<std::size_t>(k)]; }
  // Adds node k to a tree that has its parent, or to the context, and gives it its number there.
  void add(Index k, TokenTree& tree) {
    const Index parent = node(k).parent;
    node(k).number = tree.append(node(k).token, parent < 0 ? -1 : node(parent).number);
  }

  void keep_best(Index count) { resize(best_, std::min(count, std::ssize(best_))); }
  // Sorts them by value, too.
  template <class Value>
  void keep_best(Index count, const Value& value) {
    std::sort(best_.begin(), best_.end(),
              [&](Index a, Index b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
    keep_best(count);
  }
  void set_best(Index from, Index to) {
    best_.resize(static_cast<std::size_t>(to - from));
    std::iota(best_.begin(), best_.end(), from);
  }

  // The most promising nodes of the last level, by ascending number, if there is another level. The last level begins at
  // number `level`.
  void choose_leaves(Index level) {
    leaves_.clear();
    if (grown_ + 1 == limits_.depth || tree_.size() == limits_.nodes) return;
    const Index most = std::min(strategy_.width, room_);
    for (const Index k : best_)
      if (k >= level && std::ssize(leaves_) < most && !limits_.ends_at(node(k).token, grown_))
        leaves_.push_back(k);
    std::sort(leaves_.begin(), leaves_.end());
    for (const Index k : leaves_) add(k, fed_);
    room_ -= std::ssize(leaves_);
  }

  double confidence(Index leaf) { return leaf < 0 ? 1.0 : node(leaf).confidence; }

  // Chooses how many children each leaf gets, before any is drawn, and draws them.
  template <class Output, class C>
  void draw_level(const Output& output, C& chance) {
    const Index width = strategy_.width, first = after_.size(), level = tree_.size();
    values_.clear();  // what another child of a leaf adds: `width` numbers for each leaf
    for (Index i = 0; i < std::ssize(leaves_); ++i) {
      after_.add(NamedRow<Q>(output.row(i), "draft", tree_.size()));
      const NamedRow q(after_[first + i], "draft", tree_.size());
      const double path = confidence(at(leaves_, i));
      if (!is_dead_end(q)) {
        values_.push_back(path * strategy_.overlap);
        for (const TopToken& likely : q.named([&] { return likeliest_.of(q.unnamed(), width - 1); }))
          values_.push_back(path * (1 - strategy_.overlap) * likely.probability);
      }
      values_.resize(static_cast<std::size_t>((i + 1) * width), -1.0);
    }
    set_best(0, std::ssize(values_));
    keep_best(std::min(width, limits_.nodes - level), [this](Index k) { return at(values_, k); });
    std::erase_if(best_, [this](Index k) { return at(values_, k) < 0; });
    for (Index i = 0; i < std::ssize(leaves_); ++i)
      draw(at(leaves_, i), after_[first + i],
           std::count_if(best_.begin(), best_.end(), [=](Index k) { return k / width == i; }), chance);
    set_best(level, tree_.size());
  }

  template <class C>
  void draw(Index leaf, const typename Rows::Stored& q, Index children, C& chance) {
    siblings_.grow(q, children, leaf, chance, tree_, rows_);
    for (Index k = std::ssize(found_); k < tree_.size(); ++k) {
      const auto* const drawn = std::get_if<0>(&at(rows_, k).held());
      const double p = drawn ? strategy_.overlap * drawn->mass() : specdec::probability(q, tree_.token(k));
      found_.push_back({tree_.token(k), leaf, confidence(leaf) * p, p, -1});
    }
  }

  template <class Row, class KeepDrafting>
  void grow(Index leaf, const Row& q, const KeepDrafting& keep_drafting) {
    const double confidence = this->confidence(leaf);
    const Index first = std::ssize(found_);
    const auto likeliest =
        NamedRow(q, "draft", first).named([&] { return likeliest_.of(q, strategy_.width); });
    const auto add = [&](Token token, double probability, double acceptance) {
      best_.push_back(std::ssize(found_));
      found_.push_back({token, leaf, confidence * acceptance, probability, -1});
    };
    if constexpr (requires { keep_drafting.rates(); })
      if (keep_drafting.rates()) {
        read_unprocessed(q, first, [&](const auto& raw) {
          const NamedRow named(raw, "draft", first);
          double least = 1;
          for (CandidateToken child; const TopToken& likely : likeliest) {
            child.reading = std::min(named.probability(likely.token), 1.0);
            least = keep_drafting.acceptance(child, least);
            ++child.rank;
            add(likely.token, child.reading, least);
          }
          return least;
        });
        return;
      }
    for (const auto& [token, probability] : likeliest) add(token, probability, std::min(probability, 1.0));
  }

  // Asks a draft length that rates tokens whether another level is worth a call, and how many nodes are worth their time.
  template <class KeepDrafting>
  void ask(const KeepDrafting& keep_drafting) {
    values_.clear();
    for (const Index k : best_) values_.push_back(node(k).confidence);
    for (const Index k : leaves_) values_.push_back(node(k).confidence);
    const std::span values(values_);
    const More more = keep_drafting.more(GrowingDraft{
        .values = values.first(best_.size()), .leaves = values.last(leaves_.size()), .levels = grown_});
    if (!leaves_.empty() && more.level) return;
    leaves_.clear();
    keep_best(more.tokens);
    propose([&](double probability) { keep_drafting.propose(probability, false); });
  }

  // If a child is among the best, so is its parent, and the parent was found earlier. Calls tell(probability) for each node.
  template <class Tell>
  void propose(const Tell& tell) {
    std::sort(best_.begin(), best_.end());
    for (const Index k : best_) {
      add(k, tree_);
      rows_.emplace_back(node(k).token);
      tell(node(k).probability);
    }
  }

  Kind strategy_;
  Index room_ = 0;
  DraftLimits limits_;
  std::vector<Node> found_;
  std::vector<Index> best_;
  Index grown_ = 0;  // how many levels there are
  std::vector<Index> leaves_;
  TokenTree fed_;               // the nodes that the model takes in, at last these leaves
  std::vector<double> values_;  // for a draft length: of the best nodes, then of the leaves
  TokenTree tree_;              // the draft
  std::vector<Row> rows_;
  TopTokens likeliest_;
  // Where one of the siblings is drawn:
  DrawnThenLikeliest siblings_;
  Rows after_;
};

}  // namespace detail
}  // namespace specdec
