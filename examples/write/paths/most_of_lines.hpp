// How many tokens of several independent lines any rule could accept that remembers nothing: a linear program, for small models.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

namespace paths {

using specdec::Index, specdec::Token;

// A linear program by the revised simplex method (Dantzig 1953): the largest value of a mixture of columns that sums to `right`.
// It begins with columns of the unit matrix, without value. Columns are found, one after the other, by whoever has the prices.
class LinearProgram {
 public:
  explicit LinearProgram(const Eigen::VectorXd& right)
      : shares_(right),
        values_(Eigen::RowVectorXd::Zero(right.size())),
        inverse_(Eigen::MatrixXd::Identity(right.size(), right.size())) {}

  double value() const { return values_ * shares_; }
  // What a unit of each row is worth. A column improves the mixture if its value is larger than prices()·column.
  Eigen::RowVectorXd prices() const { return values_ * inverse_; }

  // Takes in as much of a column as fits.
  void take(const Eigen::VectorXd& column, double value) {
    const Eigen::VectorXd per_unit = inverse_ * column;
    Index out = -1;
    for (Index i = 0; i < per_unit.size(); ++i)
      if (per_unit[i] > 1e-11 && (out < 0 || shares_[i] * per_unit[out] < shares_[out] * per_unit[i]))
        out = i;
    if (out < 0) throw specdec::InvalidCall("the linear program has no bound");
    const double amount = shares_[out] / per_unit[out];
    shares_ -= amount * per_unit;
    shares_[out] = amount;
    values_[out] = value;
    const Eigen::RowVectorXd pivot = inverse_.row(out) / per_unit[out];
    inverse_ -= per_unit * pivot;
    inverse_.row(out) = pivot;
  }

 private:
  Eigen::VectorXd shares_;
  Eigen::RowVectorXd values_;
  Eigen::MatrixXd inverse_;
};

// A rule gives each node v of a drafted tree T the probability s_T(v) that the accepted path runs through v. With acc(v), its mean
// over all trees, it is lossless if and only if s_T(root) = 1, the children of a node have at most s_T(node) together, and the
// tokens that are added can make up for the rest: acc(vx) <= acc(v)·p(x|v). The most accepted tokens are the largest sum of acc(v)
// under these conditions. The rows of the program are the last ones. Its columns are strategies, which choose one path in each
// tree; a mixture of them is a rule. Given prices, the best strategy is found tree by tree, so there is no need to list them.
class MostOfLines {
 public:
  // `lines` lines of `length` tokens after the context. Target and draft have distribution(context), as a TableModel has.
  MostOfLines(const auto& target, const auto& draft, std::vector<Token> context, Index lines, Index length)
      : size_(target.vocab_size()), nodes_(1) {
    for (Index level = 1, many = 1; level <= length; ++level) nodes_ += many *= size_;
    p_.resize(static_cast<std::size_t>(nodes_));
    std::map<Index, double> ends;  // the probability of each line, by its last node
    add_node(target, draft, context, 0, 1, length, ends);
    trees_[{}] = 1;
    for (Index line = 0; line < lines; ++line) {
      std::map<std::set<Index>, double> with_line;
      for (const auto& [tree, before] : trees_)
        for (const auto& [end, probability] : ends) {
          std::set<Index> next = tree;
          for (Index v = end; v > 0; v = above(v)) next.insert(v);
          with_line[next] += before * probability;
        }
      trees_ = std::move(with_line);
    }
  }

  // The most accepted tokens, to about 1e-7.
  double accepted() const {
    Eigen::VectorXd right(nodes_);  // row v − 1 is that of node v; in the last row the strategies sum to 1
    for (Index v = 1; v < nodes_; ++v)
      right[v - 1] = (above(v) == 0 ? p(v) : 0) + 1e-11 * static_cast<double>(v);
    right[nodes_ - 1] = 1;
    // The small numbers keep the method from turning in circles among columns of amount 0.
    LinearProgram program(right);
    while (true) {
      const Eigen::RowVectorXd prices = program.prices();
      Index slack = 0;
      if (prices.head(nodes_ - 1).minCoeff(&slack) < -1e-12) {
        program.take(Eigen::VectorXd::Unit(nodes_, slack), 0);
        continue;
      }
      const Strategy best = best_strategy(prices);
      if (best.value - prices * best.column < 1e-9) return program.value();
      program.take(best.column, best.value);
    }
  }

 private:
  struct Strategy {
    double value = 0;  // how many tokens it accepts
    Eigen::VectorXd column;
  };

  Index above(Index v) const { return (v - 1) / size_; }
  double p(Index v) const { return p_[static_cast<std::size_t>(v)]; }

  void add_node(const auto& target, const auto& draft, std::vector<Token>& context, Index v, double drawn,
                Index left, std::map<Index, double>& ends) {
    if (left == 0) {
      if (drawn > 0) ends[v] = drawn;
      return;
    }
    for (Token x = 0; x < size_; ++x) {
      const Index child = v * size_ + x + 1;
      p_[static_cast<std::size_t>(child)] = target.distribution(context).probability(x);
      const double q = draft.distribution(context).probability(x);
      context.push_back(x);
      add_node(target, draft, context, child, drawn * q, left - 1, ends);
      context.pop_back();
    }
  }

  Strategy best_strategy(const Eigen::RowVectorXd& prices) const {
    // What it brings to accept node v: a token, less the price of its own row, and what its children's rows get for it.
    std::vector<double> brings(static_cast<std::size_t>(nodes_), 1.0), best(brings.size());
    for (Index v = nodes_ - 1; v > 0; --v) {
      brings[static_cast<std::size_t>(v)] -= prices[v - 1];
      brings[static_cast<std::size_t>(above(v))] += prices[v - 1] * p(v);
    }
    Strategy strategy{0, Eigen::VectorXd::Zero(nodes_)};
    strategy.column[nodes_ - 1] = 1;
    for (const auto& [tree, probability] : trees_) {
      std::map<Index, double> value;                         // of the best path that begins at a node
      std::map<Index, Index> next;                           // the first node of it
      for (auto v = tree.rbegin(); v != tree.rend(); ++v) {  // children have larger numbers
        const double from_here = brings[static_cast<std::size_t>(*v)] + value[*v];
        if (from_here <= value[above(*v)]) continue;
        value[above(*v)] = from_here;
        next[above(*v)] = *v;
      }
      for (auto step = next.find(0); step != next.end(); step = next.find(step->second)) {
        const Index v = step->second;
        strategy.value += probability;
        strategy.column[v - 1] += probability;
        for (Index x = 1; v * size_ + x < nodes_ && x <= size_; ++x)
          strategy.column[v * size_ + x - 1] -= probability * p(v * size_ + x);
      }
    }
    return strategy;
  }

  Index size_, nodes_;
  std::vector<double> p_;                    // of a node's token, given the tokens before it
  std::map<std::set<Index>, double> trees_;  // the nodes of each tree that may be drafted, without the root
};

}  // namespace paths
