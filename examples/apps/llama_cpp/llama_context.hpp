// A context of llama.cpp, and the tokens of a call.
// SPDX-License-Identifier: MIT
#pragma once

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "llama_api.hpp"
#include "llama_weights.hpp"

/// The tokens of a call: for each its position, its sequences and whether its logits are wanted. It points to the lists of
/// sequences and does not copy them.
/// Cost: no allocation in steady state.
class LlamaCall {
 public:
  /// Begins a new call of at most `tokens` tokens.
  void begin(std::size_t tokens) {
    tokens_.clear();
    positions_.clear();
    holder_counts_.clear();
    holders_.clear();
    wanted_.clear();
    tokens_.reserve(tokens);
    positions_.reserve(tokens);
    holder_counts_.reserve(tokens);
    holders_.reserve(tokens);
    wanted_.reserve(tokens);
  }

  void add(specdec::Token token, specdec::Index position, std::span<llama_seq_id> holders, bool wanted) {
    tokens_.push_back(token);
    positions_.push_back(static_cast<llama_pos>(position));
    holder_counts_.push_back(static_cast<std::int32_t>(holders.size()));
    holders_.push_back(holders.data());
    wanted_.push_back(wanted);
  }

  specdec::Index size() const { return std::ssize(tokens_); }

  llama_batch batch(specdec::Index first, specdec::Index count) {
    llama_batch batch = {};
    batch.n_tokens = static_cast<std::int32_t>(count);
    batch.token = tokens_.data() + first;
    batch.pos = positions_.data() + first;
    batch.n_seq_id = holder_counts_.data() + first;
    batch.seq_id = holders_.data() + first;
    batch.logits = wanted_.data() + first;
    return batch;
  }

 private:
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<std::int32_t> holder_counts_;
  std::vector<llama_seq_id*> holders_;
  std::vector<std::int8_t> wanted_;
};

/// A context over weights, with one KV cache for all its sequences. It can be moved but not copied.
class LlamaContext {
 public:
  struct Options {
    specdec::Index cells = 0;      ///< the most tokens in the cache; 0: the model's trained context
    specdec::Index batch = 512;    ///< the most tokens of one llama_decode
    specdec::Index at_once = 512;  ///< the most tokens that llama.cpp computes at once
    specdec::Index sequences = 1;
    int threads = 1;
  };

  /// Throws: std::runtime_error if llama.cpp cannot make the context.
  LlamaContext(LlamaWeights weights, const Options& options) : weights_(std::move(weights)) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(options.cells);
    params.n_batch = static_cast<std::uint32_t>(options.batch);
    params.n_ubatch = static_cast<std::uint32_t>(options.at_once);
    params.n_seq_max = static_cast<std::uint32_t>(options.sequences);
    params.n_threads = params.n_threads_batch = options.threads;
    llama_api::keep_whole_windows(params);
    llama_api::share_one_cache(params);
    context_.reset(llama_init_from_model(weights_.model(), params));
    if (!context_) throw std::runtime_error("llama.cpp has no context for '" + weights_.path() + "'");
  }

  const LlamaWeights& weights() const { return weights_; }
  specdec::Index cells() const { return llama_n_ctx(context_.get()); }
  specdec::Index batch_size() const { return llama_n_batch(context_.get()); }

  /// Removes the tokens from position `from` on from a sequence, or from all sequences if `sequence` is −1. Returns
  /// whether llama.cpp could.
  bool remove(llama_seq_id sequence, specdec::Index from) {
    return llama_api::remove(context_.get(), sequence, static_cast<llama_pos>(from));
  }

  /// Adds the tokens of `owner` at positions [from, to) to the sequence `other`.
  void share(llama_seq_id owner, llama_seq_id other, specdec::Index from, specdec::Index to) {
    llama_api::share(context_.get(), owner, other, static_cast<llama_pos>(from), static_cast<llama_pos>(to));
  }

  /// Writes the whole state of a sequence to `state`.
  /// Throws: std::runtime_error if llama.cpp fails.
  void save(llama_seq_id sequence, std::vector<std::uint8_t>& state) {
    state.resize(llama_state_seq_get_size(context_.get(), sequence));
    if (llama_state_seq_get_data(context_.get(), state.data(), state.size(), sequence) != state.size())
      throw std::runtime_error("llama.cpp could not save the state of '" + weights().path() + "'");
  }

  /// Restores a saved state into an empty sequence. Returns whether llama.cpp could.
  bool load(llama_seq_id sequence, const std::vector<std::uint8_t>& state) {
    return llama_state_seq_set_data(context_.get(), state.data(), state.size(), sequence) > 0;
  }

  /// Checks a call of `count` tokens and `rows` rows of logits, when the cache holds `held` tokens.
  /// Throws: std::length_error if held + count > cells(); std::invalid_argument unless 1 <= rows <= count and the rows fit
  /// into one batch.
  void check(specdec::Index held, specdec::Index count, specdec::Index rows) const {
    const auto number = [](specdec::Index n) { return std::to_string(n); };
    if (count > cells() - held)
      throw std::length_error("the context of '" + weights().path() + "' is full: it holds " + number(held) +
                              " of " + number(cells()) + " tokens, and " + number(count) +
                              " more are to follow");
    if (rows < 1 || rows > count || rows > batch_size())
      throw std::invalid_argument(number(rows) + " rows of logits were asked for after " + number(count) +
                                  " tokens; a batch has " + number(batch_size()));
  }

  /// Decodes the tokens of a call, batch by batch. The last batch gives the logits after the last `rows` tokens.
  /// Throws: as decode().
  template <class Undo>
  void decode_all(LlamaCall& call, std::vector<const float*>& logits_of, specdec::Index rows,
                  const Undo& undo) {
    specdec::Index first = 0, left = call.size();
    while (left > batch_size()) {
      const specdec::Index count = std::min(batch_size(), left - rows);
      decode(call, first, count, undo);
      first += count;
      left -= count;
    }
    decode(call, first, left, undo);
    logits_of.clear();
    for (specdec::Index i = left - rows; i < left; ++i) logits_of.push_back(logits(i));
  }

  /// Decodes `count` tokens of a call. If llama.cpp has no room, it may hold a part of the tokens: `undo` removes this part
  /// before another try.
  /// Throws: std::runtime_error if llama.cpp fails.
  template <class Undo>
  void decode(LlamaCall& call, specdec::Index first, specdec::Index count, const Undo& undo) {
    constexpr int no_room = 1;  // llama_decode's status for it
    int status = llama_decode(context_.get(), call.batch(first, count));
    // There is room, but perhaps in pieces. Each turn moves some cells together, until the room is in one piece.
    for (specdec::Index turn = 0; status == no_room && turn < cells(); ++turn) {
      undo();
      if (!llama_api::close_gaps(context_.get())) break;
      status = llama_decode(context_.get(), call.batch(first, count));
    }
    if (status != 0)
      throw std::runtime_error("llama.cpp could not decode " + std::to_string(count) + " tokens with '" +
                               weights_.path() + "' (status " + std::to_string(status) + ")");
  }

  /// The logits after token number `token` of the last decode().
  /// Throws: std::runtime_error if that call did not ask for them.
  const float* logits(specdec::Index token) {
    const float* const logits = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(token));
    if (!logits) throw std::runtime_error("llama.cpp has no logits of '" + weights_.path() + "'");
    return logits;
  }

 private:
  struct Free {
    void operator()(llama_context* context) const { llama_free(context); }
  };

  LlamaWeights weights_;
  std::unique_ptr<llama_context, Free> context_;
};
