// The outer loop.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/sequence.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/model/model.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// The outer loop. With a lossless verifier the text is distributed exactly as if the target alone had
/// written it, whatever the drafter; the drafter only decides how few target calls that takes.
///
///   SpecDec decoder{target, drafter, BlockVerifier{}};
///   Result r = decoder.generate(prompt, {.max_new_tokens = 256, .gamma = 8}, rng);
///
/// Target and drafter passed as lvalues are referred to and must outlive the decoder; rvalues are moved in.
/// The verifier is copied: every generation starts with a fresh copy of it. A draft-length policy
/// (draft_length.hpp) is held as the models are, and goes on learning from one generation to the next.
/// A decoder can neither be copied nor moved, since its sequences refer to it.
template <class TargetModel, class DraftSource, class V = BlockVerifier, class Length = FixedLength>
class SpecDec {
  // Not constraints of the class: where its arguments are deduced, compilers would not say which one failed.
  static_assert(Model<std::remove_reference_t<TargetModel>> ||
                    std::same_as<std::remove_cvref_t<TargetModel>, ExternalTarget>,
                "the target is no specdec::Model");
  static_assert(
      Drafter<std::remove_reference_t<DraftSource>>,
      "the drafter is no specdec::Drafter (one around a model for many texts drafts in a specdec::Batch)");
  static_assert(detail::fit_together<
                std::remove_reference_t<TargetModel>, std::remove_reference_t<DraftSource>,
                drafts_trees<std::remove_reference_t<DraftSource>>, V, std::remove_reference_t<Length>>());

  using Shared = detail::Shared<TargetModel, DraftSource, Length>;

 public:
  /// One text in the making.
  using Sequence = specdec::Sequence<Shared, V>;

  SpecDec(TargetModel&& target, DraftSource&& drafter, V verifier = {})
    requires std::default_initializable<Length>
      : SpecDec(std::forward<TargetModel>(target), std::forward<DraftSource>(drafter), std::move(verifier),
                Length{}) {}

  SpecDec(TargetModel&& target, DraftSource&& drafter, V verifier, Length&& length)
      : shared_(std::forward<TargetModel>(target), std::forward<DraftSource>(drafter),
                std::forward<Length>(length)),
        verifier_(std::move(verifier)) {}

  /// A new sequence, to be stepped by hand. Its first step() clears the contexts of both models. With `filled` the
  /// target's is left as it is: its first `cached` tokens are the prompt's (a restored cache, say), which is taken
  /// on trust.
  /// Throws std::invalid_argument: an empty prompt, a prompt or stop token outside the target's vocabulary, a
  /// negative max_new_tokens or gamma, a gamma above longest_draft that is not `unlimited`, `cached` negative or more
  /// than the prompt has.
  Sequence start(TokenIds prompt, const Options& options, Filled filled = {}) & {
    return Sequence(shared_, verifier_, prompt, options, filled);
  }
  void start(TokenIds prompt, const Options& options,
             Filled filled = {}) && = delete;  // it would refer to nothing

  /// Generates a continuation of the prompt (ids of 32 or 64 bits): a fresh sequence, from empty contexts.
  ///
  /// `source` is a random bit generator or a source of chance. Throws what start() and Sequence::step() throw.
  template <RandomSource Source>
  Result generate(TokenIds prompt, const Options& options, Source& source) {
    return start(prompt, options).generate(source);
  }

  /// Generates, and calls on_step(tokens) with what each step emitted: for streaming text. A callback that
  /// returns bool ends the generation with false.
  ///
  /// Throws what on_step throws, too. Whatever throws, on_step has been told all that there is. Who wants to go on
  /// behind that keeps the sequence: start() and Sequence::generate(). (To generate anew from the tokens that were
  /// told is lossless only with a rule that remembers nothing: see Sequence::resume.)
  template <RandomSource Source, std::invocable<std::span<const Token>> OnStep>
  Result generate(TokenIds prompt, const Options& options, Source& source, OnStep&& on_step) {
    return start(prompt, options).generate(source, on_step);
  }

 private:
  Shared shared_;
  V verifier_;
};

template <class T, class D, class V = BlockVerifier>
SpecDec(T&&, D&&, V = {}) -> SpecDec<T, D, V>;

template <class T, class D, class V, class L>
SpecDec(T&&, D&&, V, L&&) -> SpecDec<T, D, V, L>;

/// The baseline: the target alone, one token per call, with the same options (gamma is ignored) and result.
/// autoregressive<ArgmaxVerifier>(...) is greedy decoding.
template <Verifier V = BlockVerifier, class M, RandomSource Source, class... OnStep>
  requires Model<std::remove_reference_t<M>>
Result autoregressive(M&& target, TokenIds prompt, Options options, Source& source, OnStep&&... on_step) {
  options.gamma = 0;
  SpecDec<M, NoDrafter, V> decoder(std::forward<M>(target), NoDrafter{});
  return decoder.generate(prompt, options, source, std::forward<OnStep>(on_step)...);
}

}  // namespace specdec
