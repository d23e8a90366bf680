// A draft model without weights of its own: the first layers of the target.
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

/// A model of logits that runs the target's first `layers` layers, and then the target's final norm and classifier. It is
/// for a specdec::ModelDrafter in a decoder with this very transformer as target.
///
///   transformer::EarlyExit exit(target, 2);
///   specdec::SpecDec decoder{specdec::ProcessedModel{target, chain},
///                            specdec::ModelDrafter{specdec::ProcessedModel{exit, chain}}};
///
/// It has no weights and no cache of its own. For tokens that the target has seen, it reads the target's keys and values.
/// For drafted tokens, it writes keys and values into the cache of the first layers, after the target's context, and leaves
/// their states with the target. The target's next call runs these tokens only through the remaining layers, and its other
/// tokens through all layers. (LayerSkip shares the cache and the state of the exit layer in this way, too.) Nothing needs
/// a rollback: entries after the context are used only if the next call feeds the same tokens; otherwise they are
/// overwritten.
///
/// LayerSkip trains its models for early exit, with layer dropout and a loss at every exit. Without this training few
/// guesses of early layers are right, even if the model is otherwise good.
/// Pre: every token of the target's context has been fed here too, or is in the next call. The loop does this.
/// Cost: `layers` layers and the classifier. The target's call repeats only the classifier.
/// Numeric: the target's rows equal the rows of a plain target, to the bit.
template <class Scalar>
class EarlyExit {
 public:
  using Logits = typename Transformer<Scalar>::Logits;

  /// Pre: the target outlives this object.
  /// Throws: std::invalid_argument unless 1 <= layers <= n_layers.
  EarlyExit(Transformer<Scalar>& target, Index layers) : target_(&target), layers_(layers) {
    if (layers < 1 || layers > target.shape().n_layers)
      fail<std::invalid_argument>("early exit: layers = ", layers, " is outside 1..",
                                  target.shape().n_layers);
  }

  Index vocab_size() const { return target_->vocab_size(); }
  Index context_size() const { return target_->context_size(); }

  /// Returns the logits after each of the last `rows` tokens. After a throw nothing has changed.
  /// Throws: as Transformer::forward, and std::invalid_argument if the target's context already holds a token whose row is
  /// wanted: the state of that token at the exit is lost.
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
  std::vector<Token> tokens_;  // all fed tokens, without truncated ones
};

}  // namespace transformer
