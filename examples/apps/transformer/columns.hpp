// A Llama model that computes only some columns of its logits: one rank's part of an output layer that is split by
// vocabulary.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <specdec/more/ranks/logit_columns.hpp>
#include <utility>

#include "transformer/panels.hpp"
#include "transformer/transformer.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// A range of token ids.
struct TokenRange {
  Index first, count;
};

/// The tokens of rank `rank`. Each rank has whole panels of the output layer, in nearly equal numbers; some may have none.
inline TokenRange tokens_of_rank(Index vocab_size, Index rank, Index ranks) {
  const Index panels = padded(vocab_size) / lanes;
  const auto begin = [&](Index r) { return std::min(vocab_size, panels * r / ranks * lanes); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

/// Weights with an output layer for these tokens only.
template <class Scalar>
Weights<Scalar> with_output_of(Weights<Scalar> weights, TokenRange tokens) {
  const Panels<Scalar>& whole = weights.classifier();
  Panels<Scalar> some(tokens.count, whole.cols());
  for (Index i = 0; i < tokens.count; ++i) some.set_rows(i, whole.row(tokens.first + i));
  weights.own_classifier = std::move(some);
  weights.shape.shared_classifier = false;
  return weights;
}

/// A Transformer with the output layer of this rank's tokens only. specdec::ShardedModel takes one on each rank.
///
///   const auto mine = transformer::tokens_of_rank(weights.shape.vocab_size, ranks.rank(), ranks.size());
///   specdec::ShardedModel target{transformer::Columns<float>(std::move(weights), mine), ranks, std::mt19937_64{1}};
///
/// The other layers are whole on every rank.
/// Numeric: a column equals the whole model's column, to the bit.
template <class Scalar>
class Columns {
 public:
  using Logits = specdec::LogitColumns<specdec::NumbersOf<typename Transformer<Scalar>::Logits>>;

  Columns(Weights<Scalar> whole, TokenRange tokens)
      : first_(tokens.first),
        model_(std::make_shared<const Weights<Scalar>>(with_output_of(std::move(whole), tokens))) {}

  /// The size of the whole vocabulary.
  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return model_.context_size(); }

  Logits forward(std::span<const Token> tokens, Index rows) { return {model_.forward(tokens, rows), first_}; }
  Logits forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return {model_.forward(tokens, parents, rows), first_};
  }
  void keep(std::span<const Index> path) { model_.keep(path); }
  void truncate(Index length) { model_.truncate(length); }

 private:
  Index first_;
  Transformer<Scalar> model_;
};

}  // namespace transformer
