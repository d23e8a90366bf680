// Any model on llama.cpp: one that can be rolled back, or a recurrent one.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <specdec/more/models/replayed.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <variant>

#include "llama_model.hpp"
#include "llama_recurrent.hpp"
#include "llama_weights.hpp"

/// A LlamaModel, or a Replayed LlamaRecurrent if the weights are of a recurrent model. A specdec::Model of logits. It takes
/// trees, unless it is recurrent.
class AnyLlama {
  using Recurrent = specdec::Replayed<LlamaRecurrent>;

 public:
  /// `replayed` is for a recurrent model: a target needs one snapshot, a draft model more.
  /// Throws: the errors of LlamaModel or LlamaRecurrent; std::runtime_error for a recurrent model with more than one
  /// sequence, because several sequences are for trees.
  AnyLlama(const LlamaWeights& weights, const LlamaModel::Options& options,
           const specdec::ReplayedOptions& replayed = {})
      : weights_(weights), model_(made(weights, options, replayed)) {}

  /// Replayed keeps the tokens of its context.
  static constexpr bool keeps_context = true;

  const LlamaWeights& weights() const { return weights_; }
  specdec::Index vocab_size() const { return weights_.vocab_size(); }
  specdec::Index context_size() const {
    return std::visit([](const auto& model) { return model.context_size(); }, model_);
  }

  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    return std::visit([&](auto& model) { return model.forward(tokens, rows); }, model_);
  }
  /// Throws: std::bad_variant_access if the model is recurrent.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens,
                                      std::span<const specdec::Index> parents, specdec::Index rows) {
    return std::get<LlamaModel>(model_).forward(tokens, parents, rows);
  }
  void keep(std::span<const specdec::Index> path) { std::get<LlamaModel>(model_).keep(path); }
  void truncate(specdec::Index length) {
    std::visit([&](auto& model) { model.truncate(length); }, model_);
  }

 private:
  using Made = std::variant<LlamaModel, Recurrent>;

  static Made made(const LlamaWeights& weights, const LlamaModel::Options& options,
                   const specdec::ReplayedOptions& replayed) {
    if (!weights.is_recurrent()) return Made(LlamaModel(weights, options));
    if (options.sequences > 1)
      throw std::runtime_error("'" + weights.path() + "' is a recurrent model, which takes no trees");
    return Made(Recurrent(
        LlamaRecurrent(weights,
                       {.context = options.context, .batch = options.batch, .threads = options.threads}),
        replayed));
  }

  LlamaWeights weights_;
  Made model_;
};

static_assert(specdec::Model<AnyLlama> && specdec::takes_trees<AnyLlama>);
