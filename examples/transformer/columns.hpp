// A Llama model that computes some columns of its logits: one rank's piece of an output layer that is cut by vocabulary.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <specdec/sample/logit_columns.hpp>
#include <utility>

#include "transformer/panels.hpp"
#include "transformer/transformer.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// So many tokens from `first` on.
struct TokenRange {
  Index first, count;
};

/// Rank `rank` of `ranks` has whole panels of the output layer, as nearly as many as the others, and maybe none.
inline TokenRange tokens_of_rank(Index vocab_size, Index rank, Index ranks) {
  const Index panels = padded(vocab_size) / lanes;
  const auto begin = [&](Index r) { return std::min(vocab_size, panels * r / ranks * lanes); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

/// Weights whose output layer is the rows of some tokens, and no others.
template <class Scalar>
Weights<Scalar> with_output_of(Weights<Scalar> weights, TokenRange tokens) {
  const Panels<Scalar>& whole = weights.classifier();
  Panels<Scalar> some(tokens.count, whole.cols());
  for (Index i = 0; i < tokens.count; ++i) some.set_rows(i, whole.row(tokens.first + i));
  weights.own_classifier = std::move(some);
  weights.shape.shared_classifier = false;
  return weights;
}

/// A Transformer on each rank, with the output layer of its own tokens: what specdec::ShardedModel takes.
///
///   const auto mine = transformer::tokens_of_rank(weights.shape.vocab_size, ranks.rank(), ranks.size());
///   specdec::ShardedModel target{transformer::Columns<float>(std::move(weights), mine), ranks, std::mt19937_64{1}};
///
/// The other layers are whole on every rank.
/// Numeric: a column is that of the whole model, to the bit.
template <class Scalar>
class Columns {
 public:
  using Logits = specdec::LogitColumns<specdec::NumbersOf<typename Transformer<Scalar>::Logits>>;

  Columns(Weights<Scalar> whole, TokenRange tokens)
      : first_(tokens.first),
        model_(std::make_shared<const Weights<Scalar>>(with_output_of(std::move(whole), tokens))) {}

  /// Tokens of the whole vocabulary.
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
