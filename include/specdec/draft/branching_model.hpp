// A model that drafts trees: what it has taken in of a tree, and what of that goes on.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/draft/draft_model.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/tree_model.hpp"
#include "specdec/rows/dense.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// A draft model whose context may branch behind the context that is drafted for. The tree stays open when the draft
/// is made. Where the next context goes on with a path of it, the model keeps that, and need not take it in again.
template <class M>
class BranchingModel : public DraftModel<M> {
  using Base = DraftModel<M>;
  static_assert(
      TreeModel<typename Base::Value>,
      "the draft model is no specdec::TreeModel: it has no forward(tokens, parents, rows), which takes in a "
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
    if (this->take()) forget();
    go_on_with(context);
    return this->forward(this->unseen(context));
  }

  /// How many tokens of the tree the model has taken in; they are numbered in that order.
  Index fed() const { return std::ssize(tokens_); }

  /// The rows after each of these tokens, which follow those with the numbers `parents`.
  decltype(auto) extend(std::span<const Token> tokens, std::span<const Index> parents) {
    const std::size_t size = tokens_.size() + tokens.size();
    if (size > tokens_.capacity()) reserve(2 * size);
    decltype(auto) output = this->model().forward(tokens, parents, std::ssize(tokens));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    parents_.insert(parents_.end(), parents.begin(), parents.end());
    return output;
  }

  void truncate(Index length) {
    if (!this->has_turn()) return;
    lasting_ = std::min(lasting_, length - std::min(length, this->seen()));
    if (!tokens_.empty() && lasting_ > 0) return;  // the next context tells which path it is
    Base::truncate(length);
    forget();
  }

 private:
  void reserve(std::size_t size) {
    tokens_.reserve(size);
    parents_.reserve(size);
    path_.reserve(size);
  }

  void forget() {
    tokens_.clear();
    parents_.clear();
    lasting_ = unlimited;
  }

  // The last token of the context is left to be taken in, as its row is wanted.
  void go_on_with(std::span<const Token> context) {
    if (tokens_.empty()) return;
    path_.clear();
    const Index most = std::min(std::ssize(context) - 1 - this->seen(), lasting_);
    Index node = -1;
    for (Index i = 0; i < most; ++i) {
      node = child(node, context[static_cast<std::size_t>(this->seen() + i)]);
      if (node < 0) break;
      path_.push_back(node);
    }
    if (path_.empty()) this->model().truncate(this->seen());
    else this->model().keep(path_);
    this->has_seen_more(std::ssize(path_));
    forget();
  }

  // The first child of a node that is this token, −1 where none is. Of equal ones each will do.
  Index child(Index node, Token token) const {
    for (Index k = node + 1; k < fed(); ++k)
      if (parents_[static_cast<std::size_t>(k)] == node && tokens_[static_cast<std::size_t>(k)] == token)
        return k;
    return -1;
  }

  std::vector<Token> tokens_;  // the open tree, as the model numbers it
  std::vector<Index> parents_;
  Index lasting_ = unlimited;  // how many tokens of a path survive
  std::vector<Index> path_;
};

}  // namespace specdec::detail
