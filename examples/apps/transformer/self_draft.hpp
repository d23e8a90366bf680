// Draft models without weights of their own: some of the target's own sublayers, or all of them with a sparse cache.
// Source: Zhang et al., "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding",
// arXiv:2309.08168, section 3; Elhoushi et al., "LayerSkip: Enabling Early Exit Inference and Self-Speculative Decoding",
// arXiv:2404.16710, section 4.3; Sadhukhan et al., "MagicDec: Breaking the Latency-Throughput Tradeoff for Long Context
// Generation with Speculative Decoding", arXiv:2408.11049.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace transformer {

/// A model of logits that runs some of the target's attentions and feed-forward networks, and then the target's final norm
/// and classifier. The attentions may read a part of a long context (Sublayers::reading). It is for a specdec::ModelDrafter
/// in a decoder with this very transformer as target.
///
///   transformer::SelfDraft drafting(target, transformer::Sublayers::first(4).without(std::vector<std::string>{"a3", "f4"}));
///   specdec::SpecDec decoder{specdec::ProcessedModel{target, chain},
///                            specdec::ModelDrafter{specdec::ProcessedModel{drafting, chain}}};
///
/// It has no weights and no cache of its own. For tokens that the target has seen, it reads the target's keys and values. For
/// drafted tokens, it writes keys and values into the target's cache, after the target's context. Nothing needs a rollback:
/// the target's next call overwrites these entries, or goes on from them (EarlyExit).
/// Which sublayers to leave out is a search on text that the target wrote: see choose_sublayers.hpp.
///
/// steady_rows = false: the row after a token changes once the target has taken in drafted tokens before it. Then they have
/// the keys and values that all sublayers make, and a sparse cache may leave out other tokens. So a rule that remembers its
/// sequence (GreedyBlockVerifier) does not compile with it.
/// Pre: every token of the target's context has been fed here too, or is in the next call. The loop does this.
/// Cost: these sublayers, the keys and values that they read, and the classifier. The target's call is a whole one. A draft
/// before the target's first call also takes the prompt through these sublayers, and reads all of it.
/// Numeric: the target's rows equal the rows of a plain target, to the bit.
template <class Scalar>
class SelfDraft {
 public:
  static constexpr bool steady_rows = false;
  using Logits = typename Transformer<Scalar>::Logits;

  /// Pre: the target outlives this object.
  /// Throws: std::invalid_argument if the sublayers are of more layers than the target has.
  SelfDraft(Transformer<Scalar>& target, Sublayers sublayers)
      : target_(&target), sublayers_(std::move(sublayers)) {
    if (sublayers_.layers() > target.shape().n_layers)
      fail<std::invalid_argument>("self-draft: the sublayers are of ", sublayers_.layers(),
                                  " layers, the target has ", target.shape().n_layers);
  }

  Index vocab_size() const { return target_->vocab_size(); }
  Index context_size() const { return target_->context_size(); }

  /// Returns the logits after each of the last `rows` tokens. After a throw nothing has changed.
  /// Throws: as Transformer::forward, and std::invalid_argument if the target's context already holds a token whose row is
  /// wanted: its keys and values are the target's now.
  Logits forward(std::span<const Token> tokens, Index rows) {
    const std::size_t before = tokens_.size();
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    try {
      return target_->peek(behind_target(rows), rows, sublayers_);
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
      fail<std::invalid_argument>("self-draft: rows after the last ", rows, " of ", tokens_.size(),
                                  " tokens are asked for, but the target has gone on to ", target_->length());
    return std::span(tokens_).last(static_cast<std::size_t>(behind));
  }

  Transformer<Scalar>* target_;
  Sublayers sublayers_;
  std::vector<Token> tokens_;  // all fed tokens, without truncated ones
};

/// A SelfDraft by the target's first layers, whole. It leaves the drafted tokens' states with the target. The target's next
/// call runs these tokens only through the remaining layers, and its other tokens through all layers. (LayerSkip shares the
/// cache and the state of the exit layer in this way, too.) A row depends only on the tokens before it.
///
///   transformer::EarlyExit exit(target, 2);
///
/// LayerSkip trains its models for early exit, with layer dropout and a loss at the exits (train/layer_skip). Without this
/// training few guesses of early layers are right, even if the model is otherwise good.
/// Cost: these layers and the classifier, of which the target's call repeats only the classifier. No token goes through a
/// layer twice.
template <class Scalar>
class EarlyExit : public SelfDraft<Scalar> {
 public:
  static constexpr bool steady_rows = true;

  /// Pre: the target outlives this object.
  /// Throws: std::invalid_argument unless 1 <= layers <= n_layers.
  EarlyExit(Transformer<Scalar>& target, Index layers)
      : SelfDraft<Scalar>(target, first(layers, target.shape().n_layers)) {}

 private:
  static Sublayers first(Index layers, Index all) {
    if (layers < 1 || layers > all)
      fail<std::invalid_argument>("early exit: layers = ", layers, " is outside 1..", all);
    return Sublayers::first(layers);
  }
};

}  // namespace transformer
