// References for drafts of a trunk and spares.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/tree_models.hpp"

namespace support {

// Builds the expected tree, if these tokens are drawn in this order.
class ExpectedTree {
  using Table = specdec::testing::TableModel<>;

 public:
  ExpectedTree(const Table& model, std::span<const Token> context, std::span<const Token> drawn)
      : model_(model), context_(context), drawn_(drawn) {}

  const KeptTree& tree() const& { return tree_; }
  Index size() const { return std::ssize(tree_.tokens); }
  Token token(Index k) const { return tree_.tokens[static_cast<std::size_t>(k)]; }
  // The row after a node, or after the context.
  auto row_behind(Index node) const {
    return model_.distribution(text_before(context_, tree_.tokens, tree_.parents, node));
  }

  // Adds the next drawn token after a node, by the row there. Returns its number.
  Index draw(Index parent) {
    const auto q = row_behind(parent);
    return add(drawn_[draws_++], parent, [&](Token x) { return q.probability(x); });
  }
  // Adds a chosen token.
  Index choose(Token token, Index parent) {
    return add(token, parent, [token](Token x) { return x == token ? 1.0 : 0.0; });
  }

 private:
  Index add(Token token, Index parent, const auto& probability) {
    tree_.tokens.push_back(token);
    tree_.parents.push_back(parent);
    auto& row = tree_.rows.emplace_back();
    for (Token x = 0; x < model_.vocab_size(); ++x) row.push_back(probability(x));
    return size() - 1;
  }

  const Table& model_;
  std::span<const Token> context_, drawn_;
  std::size_t draws_ = 0;
  KeptTree tree_;
};

// The drawn tokens of a tree: each is the eldest child of its parent.
inline std::vector<Token> drawn_of(const KeptTree& tree) {
  std::vector<Token> drawn;
  for (Index k = 0; k < std::ssize(tree.tokens); ++k)
    if (elders_of(tree.tokens, tree.parents, k).empty())
      drawn.push_back(tree.tokens[static_cast<std::size_t>(k)]);
  return drawn;
}

// Over all outcomes: whether the trees are right, and the largest error of their probabilities.
template <class D, class Expected>
void check_trees(D drafter, std::span<const Token> context, const specdec::DraftLimits& limits,
                 Index vocab_size, const Expected& expected) {
  bool right = true;
  double error = 0, sum = 0;
  specdec::testing::enumerate([&](specdec::testing::Enumerator& chance) {
    drafter.truncate(0);
    const KeptTree tree = kept(drafter.draft(context, limits, chance), vocab_size);
    right = right && tree == expected(drawn_of(tree));
    double product = 1;
    for (std::size_t k = 0; k < tree.tokens.size(); ++k)
      product *= tree.rows[k][static_cast<std::size_t>(tree.tokens[k])];
    error = std::max(error, std::abs(product - chance.probability()));
    sum += chance.probability();
  });
  CHECK(right);
  CHECK(error < 1e-15);
  CHECK(std::abs(sum - 1) < 1e-12);
}

}  // namespace support
