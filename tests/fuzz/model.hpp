// A model that depends on its last two tokens, and fails or lies when the bytes say so.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#include "fuzz/bytes.hpp"
#include "support/layouts.hpp"

namespace fuzz {

using Matrix = support::RowMajor<double>;
using Tokens = std::vector<Token>;

// What goes wrong, as the bytes say. Nothing goes wrong once it is switched off.
struct Faults {
  Bytes* bytes = nullptr;
  bool lied = false;

  void may_fail() {
    if (bytes != nullptr && bytes->byte() >= 248) throw Failure();
  }
  bool may_lie() {
    const bool lie = bytes != nullptr && bytes->byte() >= 248;
    lied = lied || lie;
    return lie;
  }
};

constexpr Index vocabulary = 4;

// Rows that depend on the last two tokens. Each model has its own rows. It takes trees, too.
class Model {
 public:
  Model(std::uint64_t seed, Faults& faults, Index most) : seed_(seed), faults_(&faults), most_(most) {}

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return most_; }
  const Tokens& context() const { return context_; }
  Faults& faults() const { return *faults_; }
  // Whether the rows of the last call are not its own.
  bool has_lied() const { return lied_; }
  // Whether the context is this text, and no tree is open after it.
  bool holds(std::span<const Token> text) const {
    return tree_.empty() && std::equal(context_.begin(), context_.end(), text.begin(), text.end());
  }

  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    begin(tokens, rows);
    require(tree_.empty());
    for (const Token x : tokens) {
      require(x >= 0 && x < vocabulary);
      context_.push_back(x);
    }
    faults_->may_fail();  // after the tokens were taken in
    rows_.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i) {
      const std::size_t last = context_.size() - static_cast<std::size_t>(rows - i);
      fill(i, last > 0 ? context_[last - 1] : none, context_[last]);
    }
    lied_ = faults_->may_lie();
    if (lied_) lie();
    return rows_;
  }

  const Matrix& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    begin(tokens, rows);
    require(parents.size() == tokens.size());
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      require(tokens[k] >= 0 && tokens[k] < vocabulary);
      require(parents[k] >= -1 && parents[k] < std::ssize(tree_));
      tree_.push_back({tokens[k], parents[k]});
    }
    faults_->may_fail();
    rows_.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i) {
      const Node& last = node(std::ssize(tree_) - rows + i);
      fill(i,
           last.parent >= 0   ? node(last.parent).token
           : context_.empty() ? none
                              : context_.back(),
           last.token);
    }
    lied_ = faults_->may_lie();
    if (lied_) lie();
    return rows_;
  }

  void keep(std::span<const Index> path) {
    Index last = -1;
    for (const Index k : path) {
      require(k > last && k < std::ssize(tree_) && node(k).parent == last);
      context_.push_back(node(k).token);
      last = k;
    }
    tree_.clear();
  }

  void truncate(Index length) {
    require(length >= 0);
    tree_.clear();
    if (length < std::ssize(context_)) context_.resize(static_cast<std::size_t>(length));
  }

  // The text before row i of the last call, which had `rows` rows.
  Tokens way(Index i, Index rows) const {
    Tokens out = context_;
    if (tree_.empty()) {
      out.resize(out.size() - static_cast<std::size_t>(rows - 1 - i));
      return out;
    }
    for (Index k = std::ssize(tree_) - rows + i; k >= 0; k = node(k).parent) out.push_back(node(k).token);
    std::ranges::reverse(std::span(out).subspan(context_.size()));
    return out;
  }

  // The true row after a text.
  Eigen::RowVectorXd row_behind(std::span<const Token> text) const {
    return row(text.size() > 1 ? text[text.size() - 2] : none, text.back());
  }

 private:
  static constexpr Token none = 9;

  struct Node {
    Token token;
    Index parent;
  };
  const Node& node(Index k) const { return tree_[static_cast<std::size_t>(k)]; }

  void begin(std::span<const Token> tokens, Index rows) {
    require(!tokens.empty() && rows >= 1 && rows <= std::ssize(tokens));
    require(std::ssize(context_) + std::ssize(tree_) + std::ssize(tokens) <= most_);
    faults_->may_fail();
  }

  void fill(Index i, Token before, Token last) { rows_.row(i) = row(before, last); }

  Eigen::RowVectorXd row(Token before, Token last) const {
    specdec::SplitMix64 source(seed_ + 31 * static_cast<std::uint64_t>(before) +
                               static_cast<std::uint64_t>(last));
    Eigen::RowVectorXd row(vocabulary);
    for (double& p : row) p = static_cast<double>(source() % 8);
    if (row.sum() == 0) row[0] = 1;
    return row / row.sum();
  }

  void lie() {
    switch (faults_->bytes->up_to(4)) {
      case 0:
        rows_(0, 0) = std::numeric_limits<double>::quiet_NaN();
        break;
      case 1:
        rows_.setZero();
        break;
      case 2:
        rows_.conservativeResize(rows_.rows() + 1, vocabulary);
        rows_.bottomRows(1).setZero();
        break;
      case 3:
        rows_.conservativeResize(rows_.rows(), vocabulary - 1);
        break;
      default:
        rows_ *= 3;
        break;
    }
  }

  std::uint64_t seed_;
  Faults* faults_;
  Index most_;
  Tokens context_;
  std::vector<Node> tree_;  // open after the context
  Matrix rows_;
  bool lied_ = false;
};

}  // namespace fuzz
