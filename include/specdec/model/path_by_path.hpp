// Trees of tokens for models whose calls do not branch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// Goes from end to end of a tree, depth first, so that what two ways have in common is walked once.
class DepthFirst {
 public:
  /// Room for a tree of so many tokens.
  void reserve(std::size_t tokens) {
    first_.reserve(tokens + 1);
    next_.reserve(tokens);
  }

  /// Calls visit(end) for the end of each way that leads to one of the last `wanted` tokens. What leads to none of
  /// them is left out. Allocates nothing within the reserve.
  template <class Visit>
  void operator()(std::span<const Index> parents, Index wanted, const Visit& visit) {
    link(parents, wanted);
    for (Index token = -1;;) {
      while (child(token) >= 0) token = child(token);
      visit(token);
      while (token >= 0 && sibling(token) < 0) token = parents[static_cast<std::size_t>(token)];
      if (token < 0) return;
      token = sibling(token);
    }
  }

 private:
  // From the last token to the first: whether anything that follows a token is wanted is known before its own turn.
  void link(std::span<const Index> parents, Index wanted) {
    const Index size = std::ssize(parents);
    first_.assign(parents.size() + 1, -1);
    next_.assign(parents.size(), -1);
    for (Index token = size - 1; token >= 0; --token) {
      if (token < size - wanted && child(token) < 0) continue;
      const auto k = static_cast<std::size_t>(token);
      next_[k] = child(parents[k]);
      first_[static_cast<std::size_t>(parents[k] + 1)] = token;
    }
  }

  Index child(Index token) const { return first_[static_cast<std::size_t>(token + 1)]; }
  Index sibling(Index token) const { return next_[static_cast<std::size_t>(token)]; }

  std::vector<Index> first_;  // the first child of the context, and of every token
  std::vector<Index> next_;   // the next sibling
};

}  // namespace detail

/// Lets any Model take trees: runs each way from the context to the end of a branch by truncate() and forward().
///
///   PathByPath target{model};
///
/// Every row is the model's own behind the context and the tokens on the way. For tests, and for models whose calls
/// are cheap: a tree of many branches costs as many calls.
/// A model passed as an lvalue is referred to and must outlive this; an rvalue is moved in. Give it with an empty
/// context.
/// Throws: std::invalid_argument on arguments that make no call, no tree or no way through it, and where the model
/// returns rows of another shape than asked for; std::logic_error on forward(tokens, rows) while a tree is open; what
/// the model throws. (A ProcessedModel with a processor throws std::invalid_argument where a row after a token is asked for
/// that the processor refuses. Only a call that asks for the row of that token, too, is exempt.) After a throw context and
/// tree are as before, and keep(path) throws for no path of the tree.
/// Cost: a call of the model for each branch that leads to a row asked for, which takes in what it does not have in
/// common with the branch before; a copy of each row, of a line's, too, so that rows are of one type. Tokens that lead to
/// no such row are not fed at all, nor what keep() keeps before the next call. No allocation in steady state.
template <class M>
class PathByPath {
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::sized_and_truncatable<Bare>());
  static_assert(
      Model<Bare>,
      "the model is no specdec::Model: its forward(tokens, rows) returns rows of probabilities (a model of "
      "logits goes into a ProcessedModel)");

  using Output =
      std::remove_cvref_t<decltype(std::declval<Bare&>().forward(std::span<const Token>{}, Index{1}))>;
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  // Always copies: rows of the model's that are stable live until their positions are truncated away, which the next
  // branch does.
  using Rows = StoredRows<Row, false>;
  using Stored = typename Rows::Stored;

 public:
  explicit PathByPath(M&& model) : model_(std::forward<M>(model)) {}

  Index vocab_size() const { return model_.vocab_size(); }

  /// The model's own. A tree fits where its longest way does, however many tokens there are beside it.
  Index context_size() const { return specdec::context_size(model_); }

  /// What the model alone was fed with is not known here.
  static constexpr bool keeps_context = true;

  /// The model, where others may refer to it, too.
  const void* identity() const
    requires detail::MayBeShared<M>
  {
    return detail::identity(model_);
  }

  /// A line is fed as a tree without branches, so that the rows of both have one type.
  RowSpan<Stored> forward(std::span<const Token> tokens, Index rows) & {
    if (!tree_.empty())
      throw std::logic_error(
          "specdec: forward(tokens, rows) while a tree is open: keep(path) or truncate(length) closes it");
    line_.resize(tokens.size());
    std::iota(line_.begin(), line_.end(), Index{-1});
    const RowSpan<Stored> output = forward(tokens, line_, rows);
    seen_ += std::ssize(entered_);
    forget_tree();
    return output;
  }

  RowSpan<Stored> forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) & {
    check_rows(tokens, rows);
    detail::check_tokens("tokens", tokens, vocab_size());
    const std::size_t before = tree_.size();
    detail::check_parents(tokens, parents, std::ssize(tree_));
    reserve(before + tokens.size(), rows);
    tree_.insert(tree_.end(), tokens.begin(), tokens.end());
    parents_.insert(parents_.end(), parents.begin(), parents.end());
    try {
      rows_.clear();
      depth_first_(parents_, rows, [&](Index end) { take_rows(end, rows); });
    } catch (...) {
      forget_from(before);
      throw;
    }
    output_.clear();
    for (const Index k : places_) output_.push_back(rows_[k]);
    return {output_, vocab_size()};
  }

  void keep(std::span<const Index> path) {
    detail::check_path(path, parents_);
    const auto [rest, end] = std::ranges::mismatch(path, entered_);
    entered_.erase(end, entered_.end());
    seen_ += std::ssize(entered_);
    model_.truncate(seen_);
    for (auto node = rest; node != path.end(); ++node) missing_.push_back(token(*node));
    forget_tree();
  }

  void truncate(Index length) {
    forget_tree();
    const Index missing = std::max<Index>(length - seen_, 0);
    if (missing < std::ssize(missing_)) missing_.resize(static_cast<std::size_t>(missing));
    seen_ = std::clamp<Index>(length, 0, seen_);
    model_.truncate(seen_);
  }

 private:
  Token token(Index node) const { return tree_[static_cast<std::size_t>(node)]; }

  static void check_rows(std::span<const Token> tokens, Index rows) {
    if (rows < 1 || rows > std::ssize(tokens))
      detail::invalid_argument("rows = ", rows, " is outside 1..", tokens.size(), ", the number of tokens");
  }

  // A row of another shape would be kept out of bounds.
  template <class Matrix>
  void check_shape(const Matrix& rows, Index expected) const {
    if (rows.rows() != expected || rows.row(0).vocab_size() != vocab_size())
      detail::invalid_argument("the model returned ", rows.rows(), " rows over ",
                               rows.rows() > 0 ? rows.row(0).vocab_size() : 0, " tokens, expected ", expected,
                               " over its vocabulary of ", vocab_size());
  }

  // Room for a tree of so many tokens: nothing that is noted of it later needs memory.
  void reserve(std::size_t tokens, Index rows) {
    tree_.reserve(tokens);
    parents_.reserve(tokens);
    way_.reserve(tokens);
    entered_.reserve(tokens);
    missing_.reserve(missing_.size() + tokens);
    fed_.reserve(missing_.size() + tokens);
    depth_first_.reserve(tokens);
    places_.resize(static_cast<std::size_t>(rows));
    output_.reserve(static_cast<std::size_t>(rows));
  }

  // Feeds what the model lacks of the way to a token, and keeps those of the rows on it that are asked for: they are
  // those of the last `wanted` tokens of the tree, hence of the last ones of the way.
  void take_rows(Index end, Index wanted) {
    find_way(end);
    leave(std::ranges::mismatch(way_, entered_).in2 - entered_.begin());
    fed_.assign(missing_.begin(), missing_.end());
    for (std::size_t i = entered_.size(); i < way_.size(); ++i) fed_.push_back(token(way_[i]));
    const Index first = std::ssize(tree_) - wanted;
    const auto begin = std::ranges::lower_bound(way_.begin() + std::ssize(entered_), way_.end(), first);
    const Index rows = way_.end() - begin;
    decltype(auto) output = run(rows);
    settle();
    entered_ = way_;
    const auto distributions = specdec::distributions(std::as_const(output));
    check_shape(distributions, rows);
    for (Index i = 0; i < rows; ++i) {
      places_[static_cast<std::size_t>(begin[i] - first)] = rows_.size();
      const auto row = distributions.row(i);
      rows_.add(detail::NamedRow(row, "model", i));
    }
  }

  void find_way(Index end) {
    way_.clear();
    for (; end >= 0; end = parents_[static_cast<std::size_t>(end)]) way_.push_back(end);
    std::ranges::reverse(way_);
  }

  // Of the tokens of the tree that the model has taken in, keeps the first.
  void leave(Index kept) {
    if (kept == std::ssize(entered_)) return;
    entered_.resize(static_cast<std::size_t>(kept));
    model_.truncate(seen_ + kept);
  }

  // A model that fails half-way may have taken tokens in.
  decltype(auto) run(Index rows) {
    try {
      return model_.forward(std::span<const Token>(fed_), rows);
    } catch (...) {
      model_.truncate(seen_ + std::ssize(entered_));
      throw;
    }
  }

  // The model has taken in what it lacked of the context.
  void settle() {
    seen_ += std::ssize(missing_);
    missing_.clear();
  }

  void forget_tree() {
    tree_.clear();
    parents_.clear();
    entered_.clear();
  }

  // The tokens of the tree from number `size` on.
  void forget_from(std::size_t size) {
    tree_.resize(size);
    parents_.resize(size);
    leave(std::ranges::lower_bound(entered_, static_cast<Index>(size)) - entered_.begin());
  }

  M model_;
  Index seen_ = 0;              // tokens of the context that the model has taken in
  std::vector<Token> missing_;  // those of the context that come next
  std::vector<Token> tree_;     // the open tree's tokens, by number, and whom they follow
  std::vector<Index> parents_;
  std::vector<Index> entered_;  // the tokens of the tree that the model has taken in
  std::vector<Index> way_;
  std::vector<Token> fed_;
  std::vector<Index> line_;  // whom the tokens of a line follow
  detail::DepthFirst depth_first_;
  Rows rows_;                  // in the order of the calls
  std::vector<Index> places_;  // where among them the rows of the last tokens are
  std::vector<Stored> output_;
};

template <class M>
PathByPath(M&&) -> PathByPath<M>;

}  // namespace specdec
