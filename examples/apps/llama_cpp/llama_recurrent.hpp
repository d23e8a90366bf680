// Recurrent and hybrid models on llama.cpp: they cannot be rolled back, but their state can be saved and restored.
//
//   specdec::Replayed target{LlamaRecurrent{LlamaWeights{"mamba.gguf"}}};
//   specdec::ProcessedModel p{target, chain};
// SPDX-License-Identifier: MIT
#pragma once

#include <llama.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <specdec/more/models/replayed.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "llama_context.hpp"
#include "llama_weights.hpp"

/// A context over weights, with its state. Satisfies specdec::RecurrentModel: inside specdec::Replayed it is a
/// specdec::Model of logits. It also takes models that can be rolled back, but LlamaModel is cheaper for them.
///
/// It shares the weights, and can be moved but not copied. The rows that forward() returns point into the context's own
/// memory until the next call. A snapshot holds llama.cpp's whole state of the text; for a hybrid model also the keys and
/// values.
class LlamaRecurrent {
 public:
  struct Options {
    specdec::Index context =
        0;  ///< the most tokens to take in; 0: the context that the model was trained for
    specdec::Index batch = 512;  ///< the most tokens of one llama_decode
    int threads = 1;
  };

  struct Snapshot {
    specdec::Index length = 0;  ///< the number of tokens that led to this state
    std::vector<std::uint8_t> state;
  };

  explicit LlamaRecurrent(LlamaWeights weights) : LlamaRecurrent(std::move(weights), Options{}) {}

  /// Throws: std::runtime_error if llama.cpp cannot make the context.
  LlamaRecurrent(LlamaWeights weights, const Options& options)
      : context_(std::move(weights), {.cells = options.context,
                                      .batch = options.batch,
                                      .at_once = options.batch,
                                      .sequences = 1,
                                      .threads = options.threads}) {}

  const LlamaWeights& weights() const { return context_.weights(); }
  specdec::Index vocab_size() const { return weights().vocab_size(); }
  specdec::Index context_size() const { return context_.cells(); }

  /// Takes the tokens in, and returns the logits after each of the last `rows` of them. A prompt that is longer than a
  /// batch is taken in piece by piece.
  /// Throws: std::length_error if there would be more than context_size() tokens; std::invalid_argument for more rows than
  /// tokens or than fit into one batch; std::runtime_error if llama.cpp fails, and then the state is undefined.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    const specdec::Index count = std::ssize(tokens);
    context_.check(length_, count, rows);
    call_.begin(tokens.size());
    for (specdec::Index i = 0; i < count; ++i)
      call_.add(tokens[static_cast<std::size_t>(i)], length_ + i, sequence_, i >= count - rows);
    context_.decode_all(call_, pointers_, rows, [] {});
    length_ += count;
    return {pointers_, vocab_size()};
  }

  void save(Snapshot& snapshot) {
    if (length_ > 0) context_.save(0, snapshot.state);
    snapshot.length = length_;
  }

  /// Throws: std::runtime_error if llama.cpp fails, and then the state is undefined.
  void restore(const Snapshot& snapshot) {
    if (!context_.remove(0, 0)) throw std::runtime_error("'" + weights().path() + "' could not be emptied");
    if (snapshot.length > 0 && !context_.load(0, snapshot.state))
      throw std::runtime_error("'" + weights().path() +
                               "' could not be taken back to a state that was saved");
    length_ = snapshot.length;
  }

 private:
  LlamaContext context_;
  specdec::Index length_ = 0;  // the number of tokens that led to the state
  std::vector<llama_seq_id> sequence_{0};
  LlamaCall call_;
  std::vector<const float*> pointers_;
};

static_assert(specdec::RecurrentModel<LlamaRecurrent>);
static_assert(specdec::Model<specdec::Replayed<LlamaRecurrent>>);
