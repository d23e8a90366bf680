// llama.cpp as a backend: a context of a GGUF model as a specdec::Model of logits, for target and draft model
// alike, whose calls may branch.
//
//   LlamaModel target{LlamaWeights{"target.gguf"}}, draft{LlamaWeights{"draft.gguf"}};
//   check_same_vocabulary(target.weights(), draft.weights());
//   specdec::Chain chain{specdec::TopP{0.95}, specdec::Temperature{0.8}};
//   specdec::ProcessedModel p{target, chain}, q{draft, chain};
//   specdec::SpecDec decoder{p, specdec::ModelDrafter{q}, specdec::BlockVerifier{}};
//
//   LlamaModel wide{LlamaWeights{"target.gguf"}, {.sequences = 16}};  // takes trees with up to 16 leaves
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
/// It shares the weights, and can be moved but not copied. What forward() returns points into the context's
/// own memory, until the next call.
///
/// All sequences hold the context, always, so that a tree has to enter and leave its own tokens alone. No data is
/// copied for that.
class LlamaModel {
 public:
  struct Options {
    specdec::Index context = 0;  ///< how many tokens it has to hold; 0: as many as the model was trained for
    specdec::Index batch = 512;  ///< how many llama.cpp is given at a time
    int threads = 1;
    specdec::Index sequences = 1;  ///< how many leaves a tree of tokens may have
  };

  explicit LlamaModel(LlamaWeights weights) : LlamaModel(std::move(weights), Options{}) {}

  /// Throws std::runtime_error where llama.cpp can make no such context, and for a recurrent model, which is a
  /// LlamaRecurrent; std::invalid_argument without a sequence.
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
  /// How many tokens the context holds at most, with all those of an open tree.
  specdec::Index context_size() const { return context_.cells(); }

  /// Appends the tokens, and returns the logits after each of the last `rows` of them. A prompt that is
  /// longer than a batch is taken in piece by piece.
  ///
  /// Throws, with the context as it was: std::length_error where it would hold more than context_size()
  /// tokens; std::invalid_argument for more rows than tokens or than fit into one batch; std::logic_error while a tree is
  /// open; std::runtime_error where llama.cpp fails.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    check(std::ssize(tokens), rows);
    if (!tree_.empty())
      throw std::logic_error("a tree is open in '" + weights().path() + "': keep() or truncate() closes it");
    call_.begin(tokens.size());
    for (specdec::Index i = 0; i < std::ssize(tokens); ++i) add(tokens, rows, length_ + i, all_sequences_);
    try {
      decode_all(rows);
    } catch (...) {
      remove(-1, length_);  // llama.cpp may have kept a part
      throw;
    }
    length_ += std::ssize(tokens);
    return {pointers_, vocab_size()};
  }

  /// Adds the tokens to the tree that is open after the context: see specdec/model/trees.hpp. Every token takes a place in
  /// the context until keep() or truncate().
  ///
  /// Throws, with context and tree as they were: as forward(tokens, rows), std::invalid_argument unless there is a
  /// parent for each token, −1 or the number of one before it, and std::length_error where the tree would have more
  /// leaves than Options::sequences.
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
  /// Throws std::invalid_argument unless they are a way from the context outward.
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
    broken_ = false;  // if it was, all that was left behind goes now
    remove(-1, length_);
  }

 private:
  void check(specdec::Index count, specdec::Index rows) const {
    if (broken_) throw std::runtime_error("'" + weights().path() + "' could not be rolled back");
    context_.check(length_ + tree_.size(), count, rows);
  }

  // Of every sequence where it is −1.
  void remove(llama_seq_id sequence, specdec::Index from) {
    if (!context_.remove(sequence, from)) broken_ = true;
  }

  // Of what the owner holds of the tree, the first `depth` tokens.
  void share(specdec::Index owner, specdec::Index other, specdec::Index depth) {
    context_.share(static_cast<llama_seq_id>(owner), static_cast<llama_seq_id>(other), length_,
                   length_ + depth);
  }

  // The next of the tokens goes there, and these sequences hold it.
  void add(std::span<const specdec::Token> tokens, specdec::Index rows, specdec::Index position,
           std::span<llama_seq_id> holders) {
    const auto token = static_cast<std::size_t>(call_.size());
    call_.add(tokens[token], position, holders, std::ssize(tokens.subspan(token)) <= rows);
  }

  // All is taken through the model at once: where llama.cpp has no room for a batch, nothing is left of it.
  void decode_all(specdec::Index rows) {
    context_.decode_all(call_, pointers_, rows, [] {});
  }

  LlamaTree tree_;  // what is open behind the context
  LlamaContext context_;
  specdec::Index length_ = 0;  // how many tokens the context holds
  bool broken_ = false;
  std::vector<llama_seq_id> all_sequences_;
  LlamaCall call_;
  std::vector<const float*> pointers_;  // where the logits of its last batch are
};

static_assert(specdec::Model<LlamaModel> && specdec::takes_trees<LlamaModel>);
