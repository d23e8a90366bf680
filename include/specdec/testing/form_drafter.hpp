// For proofs: drafts trees of a given form, with tokens that are drawn or chosen.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/testing/table_model.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {

/// How a token of a tree is picked, given its elder siblings.
enum class Sibling {
  independent,          ///< drawn from the row after its parent
  without_replacement,  ///< drawn from that row without the elders' tokens
  chosen,               ///< the likeliest token that no elder has
};

/// A tree without its tokens: token k, picked as kinds[k] says, follows token parents[k], or the context if parents[k] = −1.
struct TreeForm {
  std::vector<Index> parents;
  std::vector<Sibling> kinds;

  TreeForm() = default;
  TreeForm(std::vector<Index> above, std::vector<Sibling> how)
      : parents(std::move(above)), kinds(std::move(how)) {
    if (kinds.size() != parents.size())
      specdec::detail::invalid_argument("there are ", kinds.size(), " kinds for ", parents.size(), " tokens");
  }
  TreeForm(std::vector<Index> above, Sibling how) : parents(std::move(above)), kinds(parents.size(), how) {}

  /// A random tree with this many tokens; each has one of these kinds.
  /// Throws: InvalidArgument if `kinds` is empty.
  template <RandomBitGenerator Generator>
  static TreeForm random(Index tokens, std::span<const Sibling> kinds, Generator& generator) {
    if (kinds.empty()) specdec::detail::invalid_argument("siblings is empty: no token could come about");
    const auto below = [&](std::size_t end) {
      return static_cast<std::size_t>(uniform01(generator) * static_cast<double>(end));
    };
    TreeForm form;
    for (Index k = 0; k < tokens; ++k) {
      form.parents.push_back(static_cast<Index>(below(static_cast<std::size_t>(k) + 1)) - 1);
      form.kinds.push_back(kinds[below(kinds.size())]);
    }
    return form;
  }

  Index size() const { return std::ssize(parents); }
};

namespace detail {

/// The row that the next sibling is drawn from. It has no mass if there can be no more siblings.
template <class Row>
Row sibling_row(Row q, Sibling kind, std::span<const Token> elders) {
  const Row nothing = Row::Zero(q.size());
  if (kind == Sibling::independent) return elders.empty() || q.maxCoeff() < 1 ? q : nothing;
  const bool chosen = kind == Sibling::chosen;
  for (const Token x : elders) q[x] = chosen ? -1 : 0;
  if (!chosen) return q.sum() > 0 ? Row(q / q.sum()) : q;
  const auto* const best = std::max_element(q.data(), q.data() + q.size());
  return *best < 0 ? nothing : Row(Row::Unit(q.size(), best - q.data()));
}

}  // namespace detail

/// Drafts trees of one form with a model that has distribution(context), such as TableModel. Satisfies OneTextDrafter.
///
/// If the form exceeds the limits, the first tokens are drafted, without tokens that are too deep. If a node can have no
/// more children, their places stay empty: the rows do not decide which other tokens are drafted.
/// Random: one draw per token, in the order of their numbers.
/// Cost: not optimised.
template <class M = TableModel<>>
class FormDrafter {
 public:
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  FormDrafter(M model, TreeForm form) : model_(std::move(model)), form_(std::move(form)) {}

  Draft<Eigen::Map<const Rows>> draft(std::span<const Token> context, const DraftLimits& limits,
                                      auto& source) {
    auto&& chance = as_chance(source);
    tree_.clear();
    rows_.resize(form_.size(), model_.vocab_size());
    numbers_.assign(form_.parents.size(), left_out);
    TokenTreeView(form_.parents).depths(depths_);
    for (std::size_t k = 0; k < numbers_.size(); ++k) {
      const Index above = form_.parents[k];
      const Index parent = above < 0 ? -1 : numbers_[static_cast<std::size_t>(above)];
      if (parent == left_out || depths_[k] > limits.depth || static_cast<Index>(k) >= limits.nodes) continue;
      const Eigen::RowVectorXd row =
          detail::sibling_row(row_after(context, parent), form_.kinds[k], elders(parent));
      if (!(row.sum() > 0)) continue;
      rows_.row(tree_.size()) = row;
      numbers_[k] =
          tree_.append(chance.draw(DenseRow<double>(row.data(), row.size()), depths_[k] - 1), parent);
    }
    return {tree_.tokens(), {rows_.data(), tree_.size(), rows_.cols()}, tree_.parents()};
  }

  void truncate(Index) {}

 private:
  static constexpr Index left_out = -2;

  std::vector<Token> elders(Index parent) const {
    std::vector<Token> out;
    const TokenTreeView tree = tree_.view();
    for (Index k = tree.next_child(parent, parent); k >= 0; k = tree.next_child(parent, k))
      out.push_back(tree.token(k));
    return out;
  }

  Eigen::RowVectorXd row_after(std::span<const Token> context, Index k) const {
    std::vector<Index> way;
    tree_.view().path_to(k, way);
    std::vector<Token> all(context.begin(), context.end());
    for (const Index before : way) all.push_back(tree_.token(before));
    const auto row = model_.distribution(all);
    Eigen::RowVectorXd out(row.vocab_size());
    for (Token x = 0; x < out.size(); ++x) out[x] = static_cast<double>(row.probability(x));
    return out;
  }

  M model_;
  TreeForm form_;
  TokenTree tree_;
  std::vector<Index> numbers_, depths_;  // numbers_[k]: the form's token k in the tree
  Rows rows_;
};

}  // namespace specdec::testing
