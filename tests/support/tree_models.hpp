// Small models that take trees, and references for drafters of trees.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/layouts.hpp"

namespace support {

// Overwrites its rows at every call, and counts calls and tokens. It may have a bounded context, which an open tree
// fills too, and it may fail at a call, or return other rows than its own.
class WatchedTreeModel {
 public:
  explicit WatchedTreeModel(specdec::testing::TableModel<> table, Index most = specdec::unlimited)
      : table_(std::move(table)), most_(most) {}

  Index vocab_size() const { return table_.vocab_size(); }
  Index context_size() const { return most_; }
  const auto& forward(std::span<const Token> tokens, Index rows) {
    enter(tokens);
    rows_ = table_.forward(tokens, rows);
    return answer();
  }
  const auto& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    enter(tokens);
    rows_ = table_.forward(tokens, parents, rows);
    in_tree_ += std::ssize(tokens);
    return answer();
  }
  void keep(std::span<const Index> path) {
    table_.keep(path);
    kept += std::ssize(path);
    in_tree_ = 0;
  }
  void truncate(Index length) {
    table_.truncate(length);
    in_tree_ = 0;
  }

  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }
  std::span<const Token> context() const { return table_.context(); }
  Index in_tree() const { return in_tree_; }

  Index calls = 0, fed = 0, kept = 0;
  Index fails_at = -1;                   // the number of the call that fails
  std::vector<RowMajor<double>> forged;  // what the first calls return in place of their rows

 private:
  const RowMajor<double>& answer() {
    if (calls <= std::ssize(forged)) rows_ = forged[static_cast<std::size_t>(calls - 1)];
    return rows_;
  }
  void enter(std::span<const Token> tokens) {
    if (calls++ == fails_at) throw std::runtime_error("the model failed");
    if (std::ssize(table_.context()) + in_tree_ + std::ssize(tokens) > most_)
      throw std::logic_error("fed past its context");
    fed += std::ssize(tokens);
  }

  specdec::testing::TableModel<> table_;
  Index most_, in_tree_ = 0;
  RowMajor<double> rows_;
};

// Its rows stay valid until their positions are truncated.
class StableTreeModel {
 public:
  static constexpr bool stable_rows = true;
  explicit StableTreeModel(specdec::testing::TableModel<> table) : table_(std::move(table)) {}
  Index vocab_size() const { return table_.vocab_size(); }
  specdec::RowSpan<specdec::DenseRow<double>> forward(std::span<const Token> tokens, Index rows) {
    return hold(table_.forward(tokens, rows));
  }
  specdec::RowSpan<specdec::DenseRow<double>> forward(std::span<const Token> tokens,
                                                      std::span<const Index> parents, Index rows) {
    return hold(table_.forward(tokens, parents, rows));
  }
  void keep(std::span<const Index> path) { table_.keep(path); }
  void truncate(Index length) {
    table_.truncate(length);
    for (auto& old : held_) old.setConstant(-1);  // the earlier rows may not be read any more
  }
  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }

 private:
  specdec::RowSpan<specdec::DenseRow<double>> hold(const RowMajor<double>& rows) {
    held_.push_back(rows);
    views_.clear();
    for (Index i = 0; i < rows.rows(); ++i)
      views_.emplace_back(held_.back().data() + i * rows.cols(), rows.cols());
    return {views_, vocab_size()};
  }

  specdec::testing::TableModel<> table_;
  std::vector<RowMajor<double>> held_;
  std::vector<specdec::DenseRow<double>> views_;
};

// The context, and the tokens on the way to a node.
inline std::vector<Token> text_before(std::span<const Token> context, std::span<const Token> tokens,
                                      std::span<const Index> parents, Index node) {
  if (node < 0) return {context.begin(), context.end()};
  const auto at = static_cast<std::size_t>(node);
  std::vector<Token> text = text_before(context, tokens, parents, parents[at]);
  text.push_back(tokens[at]);
  return text;
}

// The tokens of a node's elder siblings.
inline std::vector<Token> elders_of(std::span<const Token> tokens, std::span<const Index> parents,
                                    Index node) {
  std::vector<Token> elders;
  for (Index k = 0; k < node; ++k)
    if (parents[static_cast<std::size_t>(k)] == parents[static_cast<std::size_t>(node)])
      elders.push_back(tokens[static_cast<std::size_t>(k)]);
  return elders;
}

// A proposal that outlives the drafter's next call. A line is stored as a tree without branches.
struct KeptTree {
  std::vector<Token> tokens;
  std::vector<Index> parents;
  std::vector<std::vector<double>> rows;
  bool operator==(const KeptTree&) const = default;
};

template <class Proposal>
KeptTree kept(const Proposal& draft, Index vocab_size) {
  KeptTree out{{draft.tokens.begin(), draft.tokens.end()}, {draft.parents.begin(), draft.parents.end()}, {}};
  if (out.parents.empty())
    for (Index k = 0; k < std::ssize(out.tokens); ++k) out.parents.push_back(k - 1);
  const auto rows = specdec::distributions(draft.rows);
  for (Index k = 0; k < rows.rows(); ++k) {
    const auto row = rows.row(k);
    auto& p = out.rows.emplace_back();
    for (Token x = 0; x < vocab_size; ++x) p.push_back(specdec::probability(row, x));
  }
  return out;
}

}  // namespace support
