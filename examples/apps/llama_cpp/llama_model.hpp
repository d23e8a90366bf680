// A llama.cpp backend: a GGUF model as a specdec::Model of logits that takes trees. It serves as target and as draft model.
//
//   LlamaModel target{LlamaWeights{"target.gguf"}}, draft{LlamaWeights{"draft.gguf"}};
//   check_same_vocabulary(target.weights(), draft.weights());
//   specdec::Chain chain{specdec::TopP{0.95}, specdec::Temperature{0.8}};
//   specdec::ProcessedModel p{target, chain}, q{draft, chain};
//   specdec::SpecDec decoder{p, specdec::ModelDrafter{q}, specdec::BlockVerifier{}};
//
//   LlamaModel wide{LlamaWeights{"target.gguf"}, {.sequences = 16}};  // takes trees with up to 16 leaves
// SPDX-License-Identifier: MIT
#pragma once

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "llama_context.hpp"
#include "llama_tree.hpp"
#include "llama_weights.hpp"

/// A context over weights, with its KV cache. A specdec::Model of logits that takes trees.
///
/// It shares the weights, and can be moved but not copied. The rows that forward() returns point into the context's own
/// memory until the next call.
///
/// All sequences of llama.cpp always hold the context, so that only the tokens of a tree are added and removed. No data is
/// copied for that.
class LlamaModel {
 public:
  struct Options {
    specdec::Index context = 0;  ///< the most tokens to hold; 0: the context that the model was trained for
    specdec::Index batch = 512;  ///< the most tokens of one llama_decode
    int threads = 1;
    specdec::Index sequences = 1;  ///< the most leaves of a draft tree
  };

  explicit LlamaModel(LlamaWeights weights) : LlamaModel(std::move(weights), Options{}) {}

  /// Throws: std::runtime_error if llama.cpp cannot make the context, and for a recurrent model (see LlamaRecurrent);
  /// std::invalid_argument if options.sequences < 1.
  LlamaModel(LlamaWeights weights, const Options& options)
      : tree_(options.sequences),
        context_(not_recurrent(std::move(weights)), {.cells = options.context,
                                                     .batch = options.batch,
                                                     .at_once = options.batch,
                                                     .sequences = options.sequences,
                                                     .threads = options.threads}) {
    for (specdec::Index sequence = 0; sequence < options.sequences; ++sequence)
      all_sequences_.push_back(static_cast<llama_seq_id>(sequence));
  }

  const LlamaWeights& weights() const { return context_.weights(); }
  specdec::Index vocab_size() const { return weights().vocab_size(); }
  /// The most tokens of the context, including the tokens of an open tree.
  specdec::Index context_size() const { return context_.cells(); }

  /// Appends the tokens, and returns the logits after each of the last `rows` of them. A prompt that is longer than a batch
  /// is decoded piece by piece. After a throw the context is as before.
  /// Throws: std::length_error if it would hold more than context_size() tokens; std::invalid_argument for more rows than
  /// tokens or than fit into one batch; std::logic_error while a tree is open; std::runtime_error if llama.cpp fails.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    check(std::ssize(tokens), rows);
    if (!tree_.empty())
      throw std::logic_error("a tree is open in '" + weights().path() + "': keep() or truncate() closes it");
    call_.begin(tokens.size());
    for (specdec::Index i = 0; i < std::ssize(tokens); ++i) add(tokens, rows, length_ + i, all_sequences_);
    try {
      decode_all(rows);
    } catch (...) {
      remove(-1, length_);  // llama.cpp may hold a part of the call
      throw;
    }
    length_ += std::ssize(tokens);
    return {pointers_, vocab_size()};
  }

  /// Adds the tokens to the tree that is open after the context: see specdec/model/trees.hpp. Every token takes a place in
  /// the context until keep() or truncate(). After a throw context and tree are as before.
  /// Throws: as forward(tokens, rows); std::invalid_argument unless each token has a parent, which is −1 or the number of
  /// an earlier token; std::length_error if the tree would have more leaves than Options::sequences.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens,
                                      std::span<const specdec::Index> parents, specdec::Index rows) {
    check(std::ssize(tokens), rows);
    if (parents.size() != tokens.size())
      throw std::invalid_argument(std::to_string(parents.size()) + " parents for " +
                                  std::to_string(tokens.size()) + " tokens");
    call_.begin(tokens.size());
    const specdec::Index first = tree_.size();
    tree_.grow(parents, [&](specdec::Index owner, specdec::Index other, specdec::Index depth) {
      share(owner, other, depth);
    });
    try {
      for (specdec::Index token = first; token < tree_.size(); ++token)
        add(tokens, rows, length_ + tree_.depth(token) - 1, tree_.holders(token));
      decode_all(rows);
    } catch (...) {
      tree_.shrink();
      for (const llama_seq_id sequence : all_sequences_)
        remove(sequence, length_ + tree_.depth(tree_.end(sequence)));
      throw;
    }
    return {pointers_, vocab_size()};
  }

  /// Makes the tokens with these numbers part of the context, and forgets the rest of the tree.
  /// Throws: std::invalid_argument unless they are a path that begins at the context.
  void keep(std::span<const specdec::Index> path) {
    tree_.check_path(path);
    if (path.empty()) return truncate(length_);
    const specdec::Index kept = tree_.holder(path.back());
    for (const llama_seq_id sequence : all_sequences_)
      if (sequence != kept && tree_.end(sequence) >= 0) remove(sequence, length_);
    remove(static_cast<llama_seq_id>(kept), length_ + std::ssize(path));
    for (const llama_seq_id sequence : all_sequences_)
      if (sequence != kept) share(kept, sequence, std::ssize(path));
    length_ += std::ssize(path);
    tree_.clear();
  }

  void truncate(specdec::Index length) {
    if (tree_.empty() && length >= length_) return;
    length_ = std::min(length, length_);
    tree_.clear();
    broken_ = false;  // remove() now takes what a failed rollback left
    remove(-1, length_);
  }

 private:
  void check(specdec::Index count, specdec::Index rows) const {
    if (broken_) throw std::runtime_error("'" + weights().path() + "' could not be rolled back");
    context_.check(length_ + tree_.size(), count, rows);
  }

  // Removes from all sequences if `sequence` is −1.
  void remove(llama_seq_id sequence, specdec::Index from) {
    if (!context_.remove(sequence, from)) broken_ = true;
  }

  // Gives `other` the first `depth` tokens of the owner's path in the tree.
  void share(specdec::Index owner, specdec::Index other, specdec::Index depth) {
    context_.share(static_cast<llama_seq_id>(owner), static_cast<llama_seq_id>(other), length_,
                   length_ + depth);
  }

  // Adds the next of the tokens to the call, at this position and for these sequences.
  void add(std::span<const specdec::Token> tokens, specdec::Index rows, specdec::Index position,
           std::span<llama_seq_id> holders) {
    const auto token = static_cast<std::size_t>(call_.size());
    call_.add(tokens[token], position, holders, std::ssize(tokens.subspan(token)) <= rows);
  }

  // There is nothing to undo: a batch is computed at once, and llama.cpp keeps nothing of a batch that has no room.
  void decode_all(specdec::Index rows) {
    context_.decode_all(call_, pointers_, rows, [] {});
  }

  LlamaTree tree_;  // the open tree after the context
  LlamaContext context_;
  specdec::Index length_ = 0;  // tokens in the context, without the tree
  bool broken_ = false;
  std::vector<llama_seq_id> all_sequences_;
  LlamaCall call_;
  std::vector<const float*> pointers_;  // to the logits of the last call
};

static_assert(specdec::Model<LlamaModel> && specdec::takes_trees<LlamaModel>);
