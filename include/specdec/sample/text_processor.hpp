// Logits processors with state: they depend on the text before the logits.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>

#include "specdec/eigen.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A TextProcessor, whatever logits it takes.
template <class P>
concept FollowsText = std::copy_constructible<P> && requires(P& processor, Token x, Index n) {
  processor.push(x);
  processor.pop(n);
};

}  // namespace detail

/// A processor of logits with state: a penalty, a grammar, a ban.
///
///   apply(logits)   changes the logits of the next token; −inf forbids a token. `logits` is an Eigen::Ref of a row of
///                   float (of double, if the model's logits are double), or over ranks a PartialLogits. It changes
///                   nothing that later calls depend on.
///   push(token)     the text goes on with `token`. push() may return bool: false refuses the token, which then has not
///                   been pushed. apply() must forbid each token that push() would refuse.
///   pop(n)          takes back the last n pushed tokens; n is never more than there are. Must not throw.
///
/// apply() depends only on the tokens that were pushed and not taken back. After a throw of apply() or push() the processor
/// is as before. The text begins with the prompt. Tokens are pushed once, in order. The processor moves through a draft, and
/// from branch to branch of a tree, by push() and pop(). A copy of a processor serves another text.
///
/// Ready processors are RepetitionPenalty, PresencePenalty, FrequencyPenalty, NoRepeatNgrams, BadWords, Dry, MinLength,
/// ReasoningBudget, LogitBias and Grammar. Processors{a, b} combines several, AfterPrompt{n, a} leaves the prompt out, and
/// Snapshots{a} adds pop() to a class that can be copied. All of them work over ranks. TypicalP, Xtc and steps among Processors
/// are processors of whole rows: they do not compile over ranks. ProcessedModel and ForcedTokens take processors.
template <class P, class Logits = Eigen::Ref<Eigen::RowVectorXf>>
concept TextProcessor =
    detail::FollowsText<P> && requires(P& processor, Logits logits) { processor.apply(logits); };

/// Pushes the next token of a processor's text. False if the processor refuses the token: then it has not been pushed.
template <class P>
bool push_token(P& processor, Token x) {
  if constexpr (std::same_as<decltype(processor.push(x)), void>) return processor.push(x), true;
  else return processor.push(x);
}

}  // namespace specdec
