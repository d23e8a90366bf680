// The outer loop.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/draft/one_text_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/observers.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/sequence.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0 {

/// The outer loop. With a lossless verifier the text is distributed exactly as if the target alone had
/// written it, with any drafter. A better drafter only saves target calls.
///
///   SpecDec decoder{target, drafter, BlockVerifier{}};
///   Result r = decoder.generate(prompt, {.max_new_tokens = 256, .gamma = 8}, rng);
///
/// The target is a Model, or a BatchModel, whose sequence 0 belongs to the decoder until its end. A target, drafter or
/// draft-length policy (draft_length.hpp) that is passed as an lvalue is used by reference: it must outlive the decoder. An
/// rvalue is moved in. The policy keeps learning from one generation to the next. The verifier is taken by value, and so are
/// Observers, if there are others than the statistics and log-probabilities of a Result: every generation starts with fresh
/// copies. A decoder can be moved, its sequences go on with what it was moved into. It cannot be copied, nor assigned to.
template <class TargetModel, class DraftSource, class V = BlockVerifier, class Length = FixedLength,
          class O = DefaultObservers>
class SpecDec {
  // Assertions, not constraints: with deduced arguments, compilers would not say which constraint failed.
  static_assert(detail::fits_model<std::remove_reference_t<TargetModel>,
                                   !is_external<std::remove_reference_t<TargetModel>>>());
  static_assert(detail::fits_drafter<DraftSource>());
  using Shared = detail::Shared<TargetModel, DraftSource, V, Length, O>;
  static_assert(detail::fit_together<std::remove_reference_t<TargetModel>,
                                     drafts_trees<std::remove_reference_t<detail::Lift<DraftSource>>>, V,
                                     std::remove_reference_t<Length>>());

 public:
  /// One text in generation.
  using Sequence = specdec::Sequence<Shared>;

  SpecDec(TargetModel&& target, DraftSource&& drafter, V verifier = {})
    requires std::default_initializable<Length>
      : SpecDec(std::forward<TargetModel>(target), std::forward<DraftSource>(drafter), std::move(verifier),
                Length{}) {}

  SpecDec(TargetModel&& target, DraftSource&& drafter, V verifier, Length&& length, O observers = {})
      : shared_(std::make_unique<Shared>(std::forward<TargetModel>(target),
                                         std::forward<DraftSource>(drafter), std::forward<Length>(length))),
        verifier_(std::move(verifier)),
        observers_(std::move(observers)) {}
  SpecDec(SpecDec&&) noexcept = default;
  SpecDec& operator=(SpecDec&&) = delete;  // the sequences of the decoder before would refer to nothing

  /// A new sequence, to be stepped by hand. Its first step() clears the contexts of both models. With `filled` the target keeps
  /// its context, a restored KV cache for example, which must begin with the first `cached` tokens of the prompt, unchecked.
  /// Throws: InvalidArgument for an empty prompt, a prompt or stop token outside the target's vocabulary, a negative
  /// max_new_tokens or gamma, a gamma above longest_draft that is not `unlimited`, a `cached` that is negative or larger than the
  /// prompt, log_probabilities without their observer, and a verifier that remembers; InvalidCall if the decoder was moved away.
  template <class Prompt = TokenIds>
  Sequence start(const Prompt& prompt, const Options& options, FilledContext filled = {}) & {
    detail::check_here(shared_ != nullptr, "decoder");
    if constexpr (detail::fits_prompt<Prompt>())
      return Sequence(*shared_, verifier_, prompt, options, filled, observers_);
  }
  void start(TokenIds, const Options&, FilledContext = {}) && = delete;  // the decoder would be dead

  /// Generates a continuation of the prompt (ids of 32 or 64 bits) in a fresh sequence, from empty contexts. Calls
  /// on_step(tokens), if given, with the tokens of each step, to stream them. A callback may return bool: false ends the
  /// generation. `source` is a random bit generator or a source of chance.
  /// Throws: what start(), Sequence::step() and on_step throw. on_step has then received all generated tokens. To be able to
  /// go on after an exception, use start() and Sequence::generate() instead. A new generation from the received tokens is
  /// lossless only if the rule remembers nothing (see Sequence::resume).
  template <class Prompt = TokenIds, class Source = detail::MissingGenerator,
            class OnStep = detail::NoCallback>
  Result generate(const Prompt& prompt, const Options& options, Source&& source = {}, OnStep&& on_step = {}) {
    if constexpr (detail::fits_prompt<Prompt>() && detail::fits_source<Source>())
      return start(prompt, options).generate(source, on_step);
    else return {};
  }
  /// Arguments in another order: a compile error that says so.
  template <class First, class Second, class... More>
  Result generate(const First&, const Second&, const Options&, More&&...) {
    static_assert(detail::fits_order<First, Second>());
    return {};
  }

 private:
  std::unique_ptr<Shared> shared_;  // the sequences refer to it
  V verifier_;
  [[no_unique_address]] O observers_;
};

template <class T, class D, class V = BlockVerifier>
SpecDec(T&&, D&&, V = {}) -> SpecDec<T, D, V>;

template <class T, class D, class V, class L>
SpecDec(T&&, D&&, V, L&&) -> SpecDec<T, D, V, L>;

template <class T, class D, class V, class L, class... O>
SpecDec(T&&, D&&, V, L&&, Observers<O...>) -> SpecDec<T, D, V, L, Observers<O...>>;

/// The baseline: the target alone writes one token per call. Takes SpecDec's options (gamma is ignored), returns a Result.
/// autoregressive<ArgmaxVerifier>(...) is greedy decoding.
template <class V = BlockVerifier, class M, class Prompt = TokenIds, class Source = detail::MissingGenerator,
          class OnStep = detail::NoCallback>
Result autoregressive(M&& target, const Prompt& prompt, Options options, Source&& source = {},
                      OnStep&& on_step = {}) {
  options.gamma = 0;
  SpecDec<M, NoDrafter, V> decoder(std::forward<M>(target), NoDrafter{});
  return decoder.generate(prompt, options, std::forward<Source>(source), on_step);
}

}  // namespace specdec
