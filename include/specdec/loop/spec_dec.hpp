// SpecDec: speculative decoding over any target, any drafter and any verifier.
// Source: Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/draft/draft_length.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/loop/generation.hpp"
#include "specdec/model/model.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/verdict.hpp"

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
template <class TargetModel, class DraftSource, class V = BlockVerifier, class Length = FixedLength>
class SpecDec {
  // Not constraints of the class: where its arguments are deduced, compilers would not say which one failed.
  static_assert(Model<std::remove_reference_t<TargetModel>>, "the target is no specdec::Model");
  static_assert(Drafter<std::remove_reference_t<DraftSource>>, "the drafter is no specdec::Drafter");
  static_assert(Verifier<V>, "the verifier is no specdec::Verifier");
  static_assert(DraftLength<std::remove_reference_t<Length>>, "the draft length is no specdec::DraftLength");

 public:
  /// One text in the making: see Generation.
  using Sequence = Generation<std::remove_reference_t<TargetModel>, std::remove_reference_t<DraftSource>, V,
                              std::remove_reference_t<Length>>;

  SpecDec(TargetModel&& target, DraftSource&& drafter, V verifier = {})
    requires std::default_initializable<Length>
      : target_(std::forward<TargetModel>(target)),
        drafter_(std::forward<DraftSource>(drafter)),
        verifier_(std::move(verifier)) {}

  SpecDec(TargetModel&& target, DraftSource&& drafter, V verifier, Length&& length)
      : target_(std::forward<TargetModel>(target)),
        drafter_(std::forward<DraftSource>(drafter)),
        verifier_(std::move(verifier)),
        length_(std::forward<Length>(length)) {}

  /// A new sequence to be stepped by hand. Clears the contexts of both models.
  /// Throws std::invalid_argument: an empty prompt, a prompt token outside the target's vocabulary, a
  /// negative max_new_tokens or gamma.
  Sequence start(TokenIds prompt, const Options& options) {
    return Sequence(target_, drafter_, length_, verifier_, prompt, options, turn_);
  }

  /// Generates a continuation of the prompt (ids of 32 or 64 bits): a fresh sequence, from empty contexts.
  ///
  /// `source` is a random bit generator or a source of chance. Throws as start() and Generation::step().
  template <RandomSource Source>
  Result generate(TokenIds prompt, const Options& options, Source& source) {
    return generate(prompt, options, source, [](std::span<const Token>) {});
  }

  /// The same, calling on_step(tokens) with what each step emitted: for streaming text. A callback that
  /// returns bool ends the generation with false.
  template <RandomSource Source, std::invocable<std::span<const Token>> OnStep>
  Result generate(TokenIds prompt, const Options& options, Source& source, OnStep&& on_step) {
    Sequence sequence = start(prompt, options);
    while (!sequence.done()) {
      const std::span<const Token> emitted = sequence.step(source);
      if constexpr (std::same_as<std::invoke_result_t<OnStep&, std::span<const Token>>, bool>) {
        if (!on_step(emitted)) sequence.stop();
      } else {
        on_step(emitted);
      }
    }
    return sequence.result();
  }

 private:
  TargetModel target_;
  DraftSource drafter_;
  V verifier_;
  Length length_;
  Index turn_ = 0;
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
