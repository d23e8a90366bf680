// Says which sequences of llama.cpp hold which tokens of a draft tree. llama.cpp has no trees: a token attends to the
// earlier tokens of its sequences. So each path from the context to a leaf is a sequence, and a token that several paths
// share belongs to all their sequences.
// SPDX-License-Identifier: MIT
#pragma once

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

/// A tree of tokens after a context, which grows call by call. Its tokens are numbered from 0; −1 is the context. Every
/// leaf has its own sequence, which holds the context and the path to the leaf. The other sequences hold only the context.
/// Cost: no allocation in steady state.
class LlamaTree {
  using Index = specdec::Index;

 public:
  /// Throws: std::invalid_argument if sequences < 1.
  explicit LlamaTree(Index sequences) {
    if (sequences < 1)
      throw std::invalid_argument("sequences = " + std::to_string(sequences) +
                                  ": a context has one sequence at least");
    ends_.assign(static_cast<std::size_t>(sequences), -1);
    ends_before_ = ends_;
  }

  Index sequences() const { return std::ssize(ends_); }
  Index size() const { return std::ssize(parents_); }
  bool empty() const { return parents_.empty(); }
  /// The number of tokens on the path to a token, including it; 0 for the context.
  Index depth(Index token) const { return token < 0 ? 0 : depths_[at(token)]; }
  /// The leaf at the end of a sequence; −1 if the sequence holds only the context.
  Index end(Index sequence) const { return ends_[at(sequence)]; }

  /// Adds tokens that follow `parents`, and gives each new leaf a sequence. It is the sequence of the old leaf that the new
  /// leaf continues, or else one that held only the context. The latter may lack older tokens of the path: then
  /// share(owner, sequence, depth) is called, and must give it the first `depth` tokens of the owner's path.
  /// After a throw the tree is as before.
  /// Throws: std::invalid_argument unless each token follows an earlier token or the context; std::length_error for more
  /// leaves than sequences.
  template <class Share>
  void grow(std::span<const Index> parents, const Share& share) {
    check_parents(parents);
    reserve(parents.size());
    ends_before_ = ends_;
    first_ = size();
    for (const Index parent : parents) add(parent);
    if (const Index leaves = count_leaves(); leaves > sequences()) {
      shrink();
      throw std::length_error("a tree with " + std::to_string(leaves) +
                              " leaves needs as many sequences, but the context has " +
                              std::to_string(sequences()) + " (LlamaModel::Options::sequences)");
    }
    for (Index leaf = first_; leaf < size(); ++leaf)
      if (is_leaf(leaf)) give_sequence(leaf, share);
    note_holders();
  }

  /// Undoes the last grow().
  void shrink() {
    for (Index token = size() - 1; token >= first_; --token)
      if (parents_[at(token)] >= 0) --children_[at(parents_[at(token)])];
    parents_.resize(at(first_));
    depths_.resize(at(first_));
    children_.resize(at(first_));
    ends_ = ends_before_;
  }

  /// A sequence that holds the path to a token.
  Index holder(Index token) const {
    Index sequence = 0;
    while (!leads_through(sequence, token)) ++sequence;
    return sequence;
  }

  /// The sequences that hold a token of the last grow(). The span is not const because llama.cpp's interface is not;
  /// llama.cpp does not write to it.
  std::span<llama_seq_id> holders(Index token) {
    const std::size_t k = at(token - first_);
    return std::span(holders_).subspan(at(begins_[k]), at(begins_[k + 1] - begins_[k]));
  }

  /// Throws: std::invalid_argument unless these tokens are a path that begins at the context.
  void check_path(std::span<const Index> path) const {
    Index last = -1;
    for (const Index token : path) {
      if (token <= last || token >= size() || parents_[at(token)] != last)
        throw std::invalid_argument("path: token " + std::to_string(token) +
                                    " is none of the tree's that follows token " + std::to_string(last));
      last = token;
    }
  }

  void clear() {
    parents_.clear();
    depths_.clear();
    children_.clear();
    std::ranges::fill(ends_, -1);
  }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  void check_parents(std::span<const Index> parents) const {
    for (std::size_t k = 0; k < parents.size(); ++k)
      if (const Index before = size() + std::ssize(parents.first(k)); parents[k] < -1 || parents[k] >= before)
        throw std::invalid_argument("parents[" + std::to_string(k) + "] = " + std::to_string(parents[k]) +
                                    " is outside -1.." + std::to_string(before - 1));
  }

  void reserve(std::size_t tokens) {
    const std::size_t all = parents_.size() + tokens;
    parents_.reserve(all);
    depths_.reserve(all);
    children_.reserve(all);
    begins_.reserve(tokens + 1);
    free_.reserve(tokens + 1);
    holders_.reserve(tokens * ends_.size());
  }

  void add(Index parent) {
    depths_.push_back(depth(parent) + 1);
    parents_.push_back(parent);
    children_.push_back(0);
    if (parent >= 0) ++children_[at(parent)];
  }

  bool is_leaf(Index token) const { return children_[at(token)] == 0; }
  Index count_leaves() const { return std::ranges::count(children_, 0); }

  bool leads_through(Index sequence, Index token) const {
    Index node = end(sequence);
    while (node > token) node = parents_[at(node)];
    return node == token;
  }

  template <class Share>
  void give_sequence(Index leaf, const Share& share) {
    Index from = leaf;  // becomes the last older token on the path
    while (from >= first_) from = parents_[at(from)];
    Index sequence = std::ranges::find(ends_, from) - ends_.begin();
    if (sequence == sequences()) {  // the sequence that ended there has another leaf now
      sequence = std::ranges::find(ends_, -1) - ends_.begin();
      share(holder(from), sequence, depth(from));
    }
    ends_[at(sequence)] = leaf;
  }

  // Lists the sequences of each token of the last grow(), token after token.
  void note_holders() {
    begins_.assign(at(size() - first_) + 1, 0);
    each_held([&](Index token, Index) { ++begins_[at(token - first_) + 1]; });
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    holders_.resize(at(begins_.back()));
    free_.assign(begins_.begin(), begins_.end());
    each_held([&](Index token, Index sequence) {
      holders_[at(free_[at(token - first_)]++)] = static_cast<llama_seq_id>(sequence);
    });
  }

  // Calls visit(token, sequence) for each token of the last grow() and each sequence that holds it.
  template <class Visit>
  void each_held(const Visit& visit) const {
    for (Index sequence = 0; sequence < sequences(); ++sequence)
      for (Index token = end(sequence); token >= first_; token = parents_[at(token)]) visit(token, sequence);
  }

  std::vector<Index> parents_, depths_, children_;
  std::vector<Index> ends_, ends_before_;  // by sequence
  Index first_ = 0;                        // the first token of the last grow()
  std::vector<llama_seq_id> holders_;      // of the tokens of the last grow()
  std::vector<Index> begins_, free_;       // where each token's part of holders_ begins
};
