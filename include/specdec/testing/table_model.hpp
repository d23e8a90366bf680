// Small models with known distributions, for proofs.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {

/// A Markov model: looks up the next-token distribution by the last `order` tokens. Satisfies Model, and takes trees.
template <std::floating_point Scalar = double>
class TableModel {
 public:
  using Rows = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  static constexpr bool copies_context = true;

  /// `table` is a (V+1)^order × V matrix of distributions. Let a, b, ..., z be the last `order` tokens, z the latest. The
  /// number of their row has the digits a+1, b+1, ..., z+1 in base V+1. A shorter context has leading zeros.
  /// Throws: InvalidArgument unless V >= 1, order >= 0 and the table has exactly these rows.
  TableModel(Rows table, Index order) : table_(std::move(table)), order_(order) {
    if (table_.rows() != states(table_.cols(), order))
      specdec::detail::invalid_argument("table has ", table_.rows(),
                                        " rows, expected (V+1)^order = ", states(table_.cols(), order));
  }

  /// A model with random rows. All probabilities are multiples of 2^-10, so that rows sum to exactly 1 even in float. About
  /// a quarter of the entries are 0. About half of the rows are coarse, so that ties and p = q are common.
  template <RandomBitGenerator Generator>
  static TableModel random(Index vocab_size, Index order, Generator& generator) {
    Rows table(states(vocab_size, order), vocab_size);
    for (Index i = 0; i < table.rows(); ++i) {
      const Index grain = uniform01(generator) < 0.5 ? 128 : 1;
      const Index grains = 1024 / grain;
      std::vector<Scalar> cuts{0, 1024};
      while (std::ssize(cuts) <= vocab_size) {
        const auto cut = static_cast<Index>(uniform01(generator) * static_cast<double>(grains)) * grain;
        cuts.push_back(uniform01(generator) < 0.25 ? cuts.back() : static_cast<Scalar>(cut));
      }
      std::sort(cuts.begin(), cuts.end());
      for (Index x = 0; x < vocab_size; ++x)
        table(i, x) = (specdec::detail::at(cuts, x + 1) - specdec::detail::at(cuts, x)) / 1024;
    }
    return TableModel(std::move(table), order);
  }

  /// A model that gives the same distribution in every context.
  static TableModel context_free(const Eigen::Matrix<Scalar, 1, Eigen::Dynamic>& row) {
    return TableModel(row, 0);
  }

  Index vocab_size() const { return table_.cols(); }

  /// Feeds tokens: see Model.
  /// Throws: InvalidArgument on bad arguments, InvalidCall while a tree is open. The context is then unchanged.
  const Rows& forward(std::span<const Token> tokens, Index rows) & {
    check_call(tokens, rows);
    if (!tree_.empty())
      specdec::detail::invalid_call(
          "forward(tokens, rows) while a tree is open: keep(path) or truncate(length) closes it");
    Rows output(rows, vocab_size());
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    for (Index i = 0; i < rows; ++i)
      output.row(i) =
          table_.row(state(specdec::detail::first(context_, std::ssize(context_) - rows + 1 + i), order_));
    output_ = std::move(output);
    return output_;
  }

  /// Feeds tokens of a tree: see takes_trees.
  /// Throws: InvalidArgument on bad arguments. Context and tree are then unchanged.
  const Rows& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) & {
    check_call(tokens, rows);
    specdec::detail::check_parents(tokens, parents, tree_.size());
    Rows output(rows, vocab_size());
    const std::size_t nodes = static_cast<std::size_t>(tree_.size()) + tokens.size();
    context_.reserve(context_.size() + nodes);  // so that keep() cannot throw
    tree_.append(tokens, parents);
    for (Index i = 0; i < rows; ++i) output.row(i) = table_.row(state_after(tree_.size() - rows + i));
    output_ = std::move(output);
    return output_;
  }

  void keep(std::span<const Index> path) {
    specdec::detail::check_path(path, tree_.parents());
    for (const Index node : path) context_.push_back(tree_.token(node));
    tree_.clear();
  }

  void truncate(Index length) {
    tree_.clear();
    const auto kept = static_cast<std::size_t>(std::max<Index>(length, 0));
    if (kept < context_.size()) context_.resize(kept);
  }

  /// The distribution after `context`. It does not depend on the tokens that the model was fed.
  /// Throws: InvalidArgument if one of the last `order` tokens is outside the vocabulary.
  DenseRow<Scalar> distribution(std::span<const Token> context) const& {
    return DenseRow<Scalar>(table_.data() + state(context, order_) * table_.cols(), table_.cols());
  }

  /// The tokens in the model's context. An open tree is not part of it.
  std::span<const Token> context() const& { return context_; }

  /// Views of a temporary would dangle.
  DenseRow<Scalar> distribution(std::span<const Token> context) const&& = delete;
  std::span<const Token> context() const&& = delete;

 private:
  static constexpr Index most_entries = std::numeric_limits<std::int32_t>::max();

  // (V+1)^order. Throws if the table would be too large.
  static Index states(Index vocab_size, Index order) {
    if (vocab_size < 1) specdec::detail::invalid_argument("vocab_size = ", vocab_size, " is not positive");
    if (order < 0) specdec::detail::invalid_argument("order = ", order, " is negative");
    Index rows = 1, most = most_entries / vocab_size;
    for (Index k = 0; k < order && rows <= most; ++k) rows *= vocab_size + 1;
    if (rows > most)
      specdec::detail::invalid_argument("vocab_size = ", vocab_size, " and order = ", order,
                                        " make a table of more than ", most_entries, " entries");
    return rows;
  }

  void check_call(std::span<const Token> tokens, Index rows) const {
    if (rows < 1 || rows > std::ssize(tokens))
      specdec::detail::invalid_argument("rows = ", rows, " is outside 1..", tokens.size(),
                                        ", the number of tokens");
    specdec::detail::check_tokens("tokens", tokens, vocab_size());
  }

  // The table's row after a token of the tree. The tokens on the path to it are the last digits.
  Index state_after(Index node) const {
    Index row = 0, unit = 1, missing = order_;
    specdec::detail::back_while(tree_, node, [&](Index k) {
      if (missing == 0) return false;
      --missing;
      row += unit * (tree_.token(k) + 1);
      unit *= vocab_size() + 1;
      return true;
    });
    return row + unit * state(context_, missing);
  }

  Index state(std::span<const Token> context, Index order) const {
    const auto used = std::min(context.size(), static_cast<std::size_t>(order));
    Index row = 0;
    for (const Token x : context.last(used)) {
      if (x < 0 || x >= vocab_size()) specdec::detail::check_tokens("context", context, vocab_size());
      row = row * (vocab_size() + 1) + x + 1;
    }
    return row;
  }

  Rows table_;
  Index order_;
  std::vector<Token> context_;
  TokenTree tree_;  // after the context
  Rows output_;
};

}  // namespace specdec::testing
