// Which sequences hold which tokens of a tree. llama.cpp knows no trees: a token attends to what a sequence that it
// belongs to holds before it, so that each way from the context to a leaf is a sequence, and what several ways have in
// common belongs to all of theirs.
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

/// A tree of tokens behind a context, numbered from 0 on, which grows call by call; −1 is the context itself. Every leaf
/// has a sequence of its own, which holds the context and the way to the leaf; the other sequences hold the context
/// alone. No allocation in steady state.
class LlamaTree {
  using Index = specdec::Index;

 public:
  /// Throws std::invalid_argument unless there is a sequence at least.
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
  /// How many tokens of the tree lie on the way to a token, with itself; 0 for the context.
  Index depth(Index token) const { return token < 0 ? 0 : depths_[at(token)]; }
  /// The leaf that a sequence leads to, −1 where it holds the context alone.
  Index end(Index sequence) const { return ends_[at(sequence)]; }

  /// Adds tokens, which follow those with the numbers `parents`, and gives each new leaf a sequence: that of the leaf it
  /// goes on from, or one that had held the context alone. This one may lack tokens that were there before: then
  /// share(owner, sequence, depth) is called for it to hold the first `depth` tokens of the owner's way, too.
  ///
  /// Throws, with the tree as it was: std::invalid_argument unless each token follows one before it or the context;
  /// std::length_error for more leaves than sequences.
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

  /// Takes back the last grow().
  void shrink() {
    for (Index token = size() - 1; token >= first_; --token)
      if (parents_[at(token)] >= 0) --children_[at(parents_[at(token)])];
    parents_.resize(at(first_));
    depths_.resize(at(first_));
    children_.resize(at(first_));
    ends_ = ends_before_;
  }

  /// A sequence that holds the way to a token.
  Index holder(Index token) const {
    Index sequence = 0;
    while (!leads_through(sequence, token)) ++sequence;
    return sequence;
  }

  /// Which sequences hold a token that the last grow() has added. For llama.cpp, which does not write there.
  std::span<llama_seq_id> holders(Index token) {
    const std::size_t k = at(token - first_);
    return std::span(holders_).subspan(at(begins_[k]), at(begins_[k + 1] - begins_[k]));
  }

  /// Throws std::invalid_argument unless these tokens are a way from the context outward.
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
    Index from = leaf;  // what was there before of the way
    while (from >= first_) from = parents_[at(from)];
    Index sequence = std::ranges::find(ends_, from) - ends_.begin();
    if (sequence == sequences()) {  // another sequence leads on from there
      sequence = std::ranges::find(ends_, -1) - ends_.begin();
      share(holder(from), sequence, depth(from));
    }
    ends_[at(sequence)] = leaf;
  }

  // Lists the sequences of each of the last tokens, one token behind the other.
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

  // Calls visit(token, sequence) for each of the last tokens that a sequence holds.
  template <class Visit>
  void each_held(const Visit& visit) const {
    for (Index sequence = 0; sequence < sequences(); ++sequence)
      for (Index token = end(sequence); token >= first_; token = parents_[at(token)]) visit(token, sequence);
  }

  std::vector<Index> parents_, depths_, children_;
  std::vector<Index> ends_, ends_before_;  // by sequence
  Index first_ = 0;                        // what the last grow() has added begins here
  std::vector<llama_seq_id> holders_;      // of those tokens
  std::vector<Index> begins_, free_;       // where in that list each token's begin
};
