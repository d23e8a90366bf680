// Drafts trees that are deep where the model is sure, and wide where it is not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/branching_model.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/likeliest.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec {

/// How a ConfidentTreeDrafter drafts.
struct ConfidentTree {
  Index width = 10;  ///< how many nodes of a level get children, and how many children each of them gets
  Index depth = 6;   ///< how many levels there are
  Index nodes = 60;  ///< how many tokens are proposed
};

/// Drafts the tokens that the model is most confident of. The confidence in a token is the product of the draft
/// probabilities on the way to it. Level by level, the `width` nodes of the largest confidence get their `width`
/// likeliest tokens as children; of all of these the `nodes` tokens of the largest confidence are proposed, which are a
/// tree, as the confidence falls along a path. Of equals those come first that were found first: nearer to the context,
/// behind the earlier node, of the lower id.
///
///   ConfidentTreeDrafter drafter{small, {.width = 8, .depth = 5, .nodes = 48}};
///
/// All tokens are chosen, none is drawn, so that all rows are one-hot.
/// Source: Li et al., "EAGLE-2", arXiv:2406.16858, sections 4.1 and 4.2. Nodes of which no child could be proposed get
/// none, which changes nothing but the cost.
/// The model has to take trees. One passed as an lvalue is referred to and must outlive the drafter; an
/// rvalue is moved in. Drafters that refer to one model, and copies of a drafter, may take turns: whoever takes over
/// feeds its context anew. The model's vocabulary may be smaller or larger than the target's. Tokens of the context that
/// the model does not know are shown to it as token 0, which costs acceptance, never exactness. Where its context is
/// bounded (context_size) no more nodes get children than that has room for, in the end none, nor the context.
/// Throws: std::invalid_argument unless 1 <= width <= 1024 and depth and nodes are in 0..longest_draft.
/// Random: none. Cost: a call of the model a level, and a pass over each of its rows; the first call also takes in what
/// the model has not seen of the context (a path of the last tree that the context went on with it keeps). No
/// allocation in steady state.
template <class M>
class ConfidentTreeDrafter {
  using DraftModel = detail::BranchingModel<M>;

 public:
  explicit ConfidentTreeDrafter(M&& model, const ConfidentTree& tree = {})
      : model_(std::forward<M>(model)), tree_(tree) {
    if (tree.width < 1 || tree.width > widest)
      detail::invalid_argument("width = ", tree.width, " is outside 1..", widest);
    detail::check_drafted("depth", tree.depth);
    detail::check_drafted("nodes", tree.nodes);
  }

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  TreeDraft<RowSpan<OneHotRow>> draft(std::span<const Token> context, const TreeLimits& limits, Source&) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    clear();
    const Index nodes = std::min(tree_.nodes, limits.nodes), depth = std::min(tree_.depth, limits.depth);
    Index room = model_.room_for_tree(context);
    if (nodes > 0 && depth > 0 && room >= 0) {
      leaves_.assign(1, -1);
      add_level(model_.begin(context), nodes);
    }
    for (Index level = 1; level < depth; ++level) {
      choose_leaves(std::min(tree_.width, room));
      if (leaves_.empty()) break;
      add_level(take_in_leaves(), nodes);
      room -= std::ssize(leaves_);
    }
    propose();
    return {tokens_, RowSpan<OneHotRow>(rows_, model_.vocab_size()), parents_};
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    model_.each_identity(visit);
  }

  void truncate(Index length) { model_.truncate(length); }

 private:
  static constexpr Index widest = 1024;  // a level has no more than longest_draft tokens

  struct Node {
    Token token;
    Index parent;
    double confidence;
    Index number;  // in the model's tree, −1: not there; at last, in the proposal
  };

  Node& node(Index k) { return found_[static_cast<std::size_t>(k)]; }

  void clear() {
    found_.clear();
    best_.clear();
    leaves_.clear();
    tokens_.clear();
    rows_.clear();
    parents_.clear();
    level_ = 0;
  }

  // The most promising nodes of the last level, by ascending number.
  void choose_leaves(Index most) {
    leaves_.clear();
    for (const Index k : best_)
      if (k >= level_ && std::ssize(leaves_) < most) leaves_.push_back(k);
    std::sort(leaves_.begin(), leaves_.end());
  }

  decltype(auto) take_in_leaves() {
    leaf_tokens_.clear();
    leaf_parents_.clear();
    for (const Index k : leaves_) {
      leaf_tokens_.push_back(node(k).token);
      leaf_parents_.push_back(node(k).parent < 0 ? -1 : node(node(k).parent).number);
    }
    Index number = model_.fed();
    for (const Index k : leaves_) node(k).number = number++;
    return model_.extend(leaf_tokens_, leaf_parents_);
  }

  // The children of the leaves, of which those stay among the best that no `nodes` others precede.
  template <class Output>
  void add_level(const Output& output, Index nodes) {
    const auto rows = distributions(output);
    const Index asked = std::ssize(leaves_);
    level_ = std::ssize(found_);
    for (Index i = 0; i < asked; ++i) {
      const auto q = model_.row(rows, i, asked);
      const Index leaf = leaves_[static_cast<std::size_t>(i)];
      const double confidence = leaf < 0 ? 1.0 : node(leaf).confidence;
      const auto likeliest = detail::NamedRow(q, "draft", std::ssize(found_)).named([&] {
        return likeliest_.of(q, tree_.width);
      });
      for (const auto& [token, probability] : likeliest) {
        best_.push_back(std::ssize(found_));
        found_.push_back({token, leaf, confidence * std::min(probability, 1.0), -1});
      }
    }
    std::sort(best_.begin(), best_.end(), [this](Index a, Index b) {
      return node(a).confidence != node(b).confidence ? node(a).confidence > node(b).confidence : a < b;
    });
    if (std::ssize(best_) > nodes) best_.resize(static_cast<std::size_t>(nodes));
  }

  // A parent is among the best where its child is, and was found before it.
  void propose() {
    std::sort(best_.begin(), best_.end());
    for (const Index k : best_) {
      Node& chosen = node(k);
      chosen.number = std::ssize(tokens_);
      tokens_.push_back(chosen.token);
      rows_.emplace_back(chosen.token);
      parents_.push_back(chosen.parent < 0 ? -1 : node(chosen.parent).number);
    }
  }

  DraftModel model_;
  ConfidentTree tree_;
  std::vector<Node> found_;
  std::vector<Index> best_;
  Index level_ = 0;  // where the last level begins
  std::vector<Index> leaves_;
  std::vector<Token> leaf_tokens_;
  std::vector<Index> leaf_parents_;
  std::vector<Token> tokens_;
  std::vector<OneHotRow> rows_;
  std::vector<Index> parents_;
  LikeliestTokens likeliest_;
};

template <class M>
ConfidentTreeDrafter(M&&) -> ConfidentTreeDrafter<M>;
template <class M>
ConfidentTreeDrafter(M&&, const ConfidentTree&) -> ConfidentTreeDrafter<M>;

}  // namespace specdec
