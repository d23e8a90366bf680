// The whole loop: generations of many steps. Here the state that a step leaves affects the next steps.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "acceptance/estimate.hpp"
#include "acceptance/one_step.hpp"
#include "specdec/specdec.hpp"

namespace acceptance {

/// How much is generated: the number of texts, and the target calls of each.
struct Length {
  Index generations = 64;
  Index steps = 1000;
};

/// A fixed draft length. Sums the survival of every step (StepRecord::survival).
class Recorder {
 public:
  explicit Recorder(Index gamma) : sums_(static_cast<std::size_t>(gamma), 0.0) {}

  Index next(Index most) const { return most; }
  void observe(const specdec::StepRecord& step) {
    ++steps_;
    for (std::size_t i = 0; i < step.survival.size(); ++i) sums_[i] += step.survival[i];
  }

  /// The means over all steps so far.
  std::vector<double> survival() const {
    std::vector<double> out;
    for (const double sum : sums_) out.push_back(sum / static_cast<double>(steps_));
    return out;
  }

 private:
  Index steps_ = 0;
  std::vector<double> sums_;
};

/// A random prompt of `size` tokens. All rules get the same prompts.
inline std::vector<Token> prompt(Index size, Index vocab_size, SplitMix64& generator) {
  std::vector<Token> tokens;
  for (Index i = 0; i < size; ++i) tokens.push_back(static_cast<Token>(below(generator, vocab_size)));
  return tokens;
}

/// Takes `steps` steps with the generator. For a keyed rule, the generator gives the seed of a Keyed.
template <class V, class Sequence>
void take(Index steps, Sequence& sequence, SplitMix64& generator) {
  const auto by = [&](auto& source) {
    for (Index step = 0; step < steps; ++step) sequence.step(source);
  };
  if constexpr (specdec::draws_keyed<V>) {
    specdec::Keyed keyed(generator());
    by(keyed);
  } else {
    by(generator);
  }
}

/// Runs the verifier in SpecDec and collects the means of every generation. A text ends after a number of target calls, not
/// of tokens, so that no draft is cut short. `target` and `draft` are models; they are copied for the run.
template <class V, class TargetModel, class DraftModel>
Collector generate(const V& verifier, TargetModel target, DraftModel draft, Index gamma, const Length& length,
                   std::uint64_t seed) {
  constexpr Index prompt_size = 4;
  Collector out(gamma, static_cast<std::size_t>(length.generations));
  specdec::ModelDrafter drafter{draft};
  const specdec::Options options{.max_new_tokens = (length.steps + 1) * (gamma + 1), .gamma = gamma};
  for (Index k = 0; k < length.generations; ++k) {
    SplitMix64 generator(mixed(seed, static_cast<std::uint64_t>(k)));
    Recorder recorder(gamma);
    specdec::SpecDec decoder{target, drafter, verifier, recorder};
    auto sequence = decoder.start(prompt(prompt_size, target.vocab_size(), generator), options);
    take<V>(length.steps, sequence, generator);
    out.add(recorder.survival());
  }
  return out;
}

/// Measures the rule over whole generations. `token` is the result of generate() for token verification on the same prompts.
template <class V, class TargetModel, class DraftModel>
Measured whole_loop(const V& verifier, const TargetModel& target, const DraftModel& draft, Index gamma,
                    const Length& length, std::uint64_t seed, const Collector& token) {
  return generate(verifier, target, draft, gamma, length, seed).measured(token.tokens());
}

}  // namespace acceptance
