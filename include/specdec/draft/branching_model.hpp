// A model that drafts trees: what it has taken in of a tree, and what of that goes on.
#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/strategies/open_tree.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// A draft model whose context may branch behind the context that is drafted for.
template <class M>
class BranchingModel : public DraftModel<M> {
  using Base = DraftModel<M>;
  static_assert(takes_trees<typename Base::Value>,
                "the draft model takes no trees (specdec::takes_trees): it has no forward(tokens, parents, "
                "rows), which takes in a "
                "tree, or no keep(path)");
  using BranchOutput = std::remove_cvref_t<decltype(std::declval<typename Base::Value&>().forward(
      std::span<const Token>{}, std::span<const Index>{}, Index{1}))>;
  static_assert(
      std::same_as<typename Base::Row, RowOf<decltype(distributions(std::declval<const BranchOutput&>()))>>,
      "the draft model's rows behind a tree are of another type than its rows behind a context");

 public:
  using Base::Base;

  /// How many tokens of a tree it has room for behind this context; negative where it has none for the context itself.
  Index room_for_tree(std::span<const Token> context) const {
    return context_size(this->model()) - static_cast<Index>(context.size());
  }

  /// The row after the context, behind which a new tree begins.
  decltype(auto) begin(std::span<const Token> context) {
    if (this->take()) tree_.clear();
    go_on_with(context);
    return this->forward(this->unseen(context));
  }

  /// How many tokens of the tree the model has taken in; they are numbered in that order.
  Index fed() const { return tree_.size(); }

  /// The rows after each of these tokens, which follow those with the numbers `parents`.
  decltype(auto) extend(std::span<const Token> tokens, std::span<const Index> parents) {
    tree_.reserve(tokens.size());
    decltype(auto) output = this->model().forward(tokens, parents, std::ssize(tokens));
    tree_.add(tokens, parents);
    return output;
  }

  void truncate(Index length) {
    if (!this->has_turn()) return;
    if (tree_.lasts(length - std::min(length, this->seen()))) return;  // the next context tells which path
    Base::truncate(length);
    tree_.clear();
  }

 private:
  void go_on_with(std::span<const Token> context) {
    if (tree_.empty()) return;
    const std::span<const Index> path = tree_.path(context, this->seen());
    if (path.empty()) this->model().truncate(this->seen());
    else this->model().keep(path);
    this->has_seen_more(std::ssize(path));
    tree_.clear();
  }

  OpenTree tree_;
};

}  // namespace specdec::detail
