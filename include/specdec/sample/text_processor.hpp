// What changes logits by the text that they follow, and keeps of the text what it needs.
#pragma once

#include <Eigen/Core>
#include <concepts>

#include "specdec/types.hpp"

namespace specdec {

/// A processor of logits with state: a penalty, a grammar, a ban.
///
///   apply(logits)   changes the logits of the next token, an Eigen::Ref of a row of float (of double, where the model's
///                   logits are), or over ranks PartialLogits; −inf forbids a token. It changes nothing that later calls
///                   depend on.
///   push(token)     the text goes on with `token`. It may return bool: false where the text cannot go on so, which then
///                   has not been pushed. What is refused has to be forbidden by apply().
///   pop(n)          takes the last n tokens back that were pushed; there are as many. Must not throw.
///
/// What apply() does depends on the tokens that were pushed and not taken back, and on nothing else. Where apply() or
/// push() throws, the processor is as before. The text begins with the prompt, and tokens are pushed once, in order; over a
/// draft, and from one branch of a tree to the next, the processor goes forward and back. Copies are processors of texts of
/// their own.
///
/// Ready ones are RepetitionPenalty, PresencePenalty, FrequencyPenalty, NoRepeatNgrams, MinLength, LogitBias and Grammar;
/// Processors{a, b} makes one of several, AfterPrompt{n, a} leaves the prompt out, and Snapshots{a} adds pop() to what can
/// be copied. All of them work over ranks. ProcessedModel and ForcedTokens take them.
template <class P, class Logits = Eigen::Ref<Eigen::RowVectorXf>>
concept TextProcessor =
    std::copy_constructible<P> && requires(P& processor, Logits logits, Token x, Index n) {
      processor.apply(logits);
      processor.push(x);
      processor.pop(n);
    };

/// Shows a processor the next token of its text. False where it refuses it: nothing has been pushed then.
template <class P>
bool push_token(P& processor, Token x) {
  if constexpr (std::same_as<decltype(processor.push(x)), void>) {
    processor.push(x);
    return true;
  } else {
    return processor.push(x);
  }
}

}  // namespace specdec
