// Drafts the tokens that a grammar forces.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Proposes the tokens that a processor forces: one after the other, as long as the processor allows exactly one token.
///
///   FallbackDrafter drafter{ForcedTokens{grammar, target.vocab_size()}, ModelDrafter{small}};
///
/// Known as jump-ahead or fast-forward decoding (SGLang, guidance, llguidance). With the target's processor every proposed token
/// is accepted. Nothing is tokenised anew: where a string can be written with different tokens, no token is forced, and the
/// target chooses. With another processor the drafts are only guesses. The drafter does not know which token ends a text. If the
/// processor allows only the end token, again and again (Grammar does), the drafter proposes it up to gamma times. The loop emits
/// nothing after a stop token, so the text does not change. It wastes some rows of the target's last call. If the processor
/// refuses the text, nothing is proposed. The processor is taken by value: each text is shown to a copy of its own.
/// Random: none; rows are one-hot.
/// Throws: InvalidArgument where vocab_size is below 1; what the processor throws. The drafter is then as before.
/// Cost: one row of the vocabulary and one apply() of the processor for each proposed token, and once more at the end. No
/// allocation in steady state.
template <class P>
class ForcedTokens {
  // An assertion: of deduced arguments, Clang does not say which constraint failed.
  static_assert(TextProcessor<P>);

 public:
  ForcedTokens(P processor, Index vocab_size) : processor_(std::move(processor)) {
    if (vocab_size < 1) detail::invalid_argument("vocab_size = ", vocab_size, " is not positive");
    logits_.resize(vocab_size);
  }

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    tokens_.clear();
    if (follow(context)) propose(gamma);
    return detail::chosen(tokens_);
  }

  void truncate(Index length) {
    const Index shown = std::clamp<Index>(length, 0, shown_);
    if (shown < shown_) processor_.pop(shown_ - shown);
    shown_ = shown;
  }

 private:
  // Shows the processor the context. Returns whether it takes all tokens.
  bool follow(std::span<const Token> context) {
    truncate(std::ssize(context));
    for (; shown_ < std::ssize(context); ++shown_)
      if (!push_token(processor_, context[static_cast<std::size_t>(shown_)])) return false;
    return true;
  }

  void propose(Index gamma) {
    Index pushed = 0;
    const auto push = [&] {
      for (; pushed < gamma; ++pushed) {
        const std::optional<Token> forced = only_choice();
        if (!forced) break;
        tokens_.push_back(*forced);
        if (!push_token(processor_, *forced))
          detail::invalid_argument("the processor refuses token ", *forced, ", the only one that it allows");
      }
    };
    const auto pop = [&] { processor_.pop(pushed); };
    detail::undo_on_error(push, pop);
    pop();
  }

  std::optional<Token> only_choice() {
    std::fill_n(logits_.data(), logits_.size(), 0.0F);
    processor_.apply(Eigen::Ref<Eigen::RowVectorXf>(logits_));
    std::optional<Token> only;
    for (Index x = 0; x < logits_.size(); ++x) {
      if (!(logits_[x] > -std::numeric_limits<float>::infinity())) continue;
      if (only) return std::nullopt;
      only = static_cast<Token>(x);
    }
    return only;
  }

  P processor_;
  Index shown_ = 0;  // tokens of the context that the processor has been shown
  Eigen::RowVectorXf logits_;
  std::vector<Token> tokens_;
};

}  // namespace specdec
