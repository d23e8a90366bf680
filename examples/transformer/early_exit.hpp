// A draft model for nothing: the first layers of the target.
// Source: Elhoushi et al., "LayerSkip: Enabling Early Exit Inference and Self-Speculative Decoding",
// arXiv:2404.16710, section 4.3.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/transformer.hpp"

namespace transformer {

/// The target's guess after its first `layers` layers, made into logits by the target's own last norm and classifier:
/// a model of logits for specdec::ModelDrafter, in the decoder whose target is that same transformer.
///
///   transformer::EarlyExit exit(target, 2);
///   specdec::SpecDec decoder{specdec::ProcessedModel{target, chain},
///                            specdec::ModelDrafter{specdec::ProcessedModel{exit, chain}}};
///
/// It has no weights and no cache of its own. Of tokens that the target has seen it reads the keys and values that
/// the target wrote. Those it drafts leave theirs in the cache of the first layers, behind the target's context, and
/// their states in the target's hands: the target's next call takes them from there through the remaining layers,
/// and the rest of its tokens through all. (LayerSkip shares the cache and the state of the exit layer just so.)
/// Nothing of it needs to be rolled back: what lies behind the context is used where it was made of the very tokens
/// that are fed, and written anew elsewhere. The target's rows are those of a plain target, to the bit.
///
/// LayerSkip trains its models for it, with dropout of layers and a loss at every exit. Without that few guesses of
/// early layers are right, however well the model is trained otherwise.
/// Pre: every token that the target's context holds has been fed here too, or is in the next call, as the loop does.
/// Cost: of `layers` layers and the classifier, of which the target's call has to do only the classifier again.
template <class Scalar>
class EarlyExit {
 public:
  using Logits = typename Transformer<Scalar>::Logits;

  /// The target must outlive this. Throws: std::invalid_argument unless layers is one of 1..n_layers.
  EarlyExit(Transformer<Scalar>& target, Index layers) : target_(&target), layers_(layers) {
    if (layers < 1 || layers > target.shape().n_layers)
      fail<std::invalid_argument>("early exit: layers = ", layers, " is outside 1..",
                                  target.shape().n_layers);
  }

  Index vocab_size() const { return target_->vocab_size(); }
  Index context_size() const { return target_->context_size(); }

  /// Throws: as Transformer::forward, and std::invalid_argument where the target has gone past a token whose row is
  /// asked for: its state at the exit is gone. After a throw nothing has changed.
  Logits forward(std::span<const Token> tokens, Index rows) {
    const std::size_t before = tokens_.size();
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    try {
      return target_->peek(behind_target(rows), rows, layers_);
    } catch (...) {
      tokens_.resize(before);
      throw;
    }
  }

  void truncate(Index length) {
    if (length < std::ssize(tokens_)) tokens_.resize(static_cast<std::size_t>(std::max<Index>(length, 0)));
  }

 private:
  std::span<const Token> behind_target(Index rows) const {
    const Index behind = std::ssize(tokens_) - target_->length();
    if (behind < rows)
      fail<std::invalid_argument>("early exit: rows after the last ", rows, " of ", tokens_.size(),
                                  " tokens are asked for, but the target has gone on to ", target_->length());
    return std::span(tokens_).last(static_cast<std::size_t>(behind));
  }

  Transformer<Scalar>* target_;
  Index layers_;
  std::vector<Token> tokens_;  // what was fed, and not truncated
};

}  // namespace transformer
