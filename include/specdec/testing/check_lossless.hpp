// The proof harness: compares a verifier's output with the target's law on many small models, exactly.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/model_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/spec_dec.hpp"
#include "specdec/testing/form_drafter.hpp"
#include "specdec/testing/law.hpp"
#include "specdec/testing/table_model.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::inline v0_2_0::testing {

/// The law that the output is compared with.
enum class Reference {
  sampling,  ///< the target's own distribution
  greedy,    ///< the target's argmax at every position
};

/// The models of a check: random context-dependent tables for target and draft. Some probabilities are 0.
struct LosslessCheck {
  std::vector<Index> vocab_sizes = {2, 3, 4};
  std::vector<Index> gammas = {1, 2, 3, 4};  ///< drafted tokens; for rules for trees, in random trees
  Index models = 10;                         ///< random pairs of models for every vocabulary size and γ
  Index max_new_tokens = 5;                  ///< length of the joint law, and the most iterations of the loop
  Index order = 2;                           ///< how many context tokens the models depend on
  double tolerance = 1e-12;                  ///< largest difference of an output's probability that passes
  std::uint64_t seed = 1;                    ///< of the random models
  Reference reference = Reference::sampling;
  /// In every second pair the last id of the vocabulary ends the text, so drafts of lines end at that token, too. A rule whose
  /// decisions about a token depend on how long the draft is after it is wrong then: see Verifier.
  bool stop_tokens = true;
  /// For rules for trees: each token of a random tree comes about in one of these ways, at random.
  std::vector<Sibling> siblings = {Sibling::independent, Sibling::without_replacement, Sibling::chosen};
};

/// The result of a check.
struct [[nodiscard]] LosslessReport {
  bool lossless = true;
  Index models = 0;             ///< pairs of models checked
  double worst_difference = 0;  ///< largest difference of an output's probability
  std::string counterexample;   ///< the first failure, in words; empty when lossless
  explicit operator bool() const { return lossless; }

  friend std::ostream& operator<<(std::ostream& out, const LosslessReport& report) {
    out << (report.lossless ? "lossless" : "NOT lossless") << " on " << report.models
        << " pairs of models, worst difference " << report.worst_difference;
    if (!report.lossless) out << "\n  " << report.counterexample;
    return out;
  }
};

namespace detail {

/// Throws if the check would pass in any case: with nothing to check, or with a tolerance that is too large.
inline void check_that_something_is_checked(const LosslessCheck& check) {
  using specdec::detail::invalid_argument;
  if (check.vocab_sizes.empty()) invalid_argument("vocab_sizes is empty: nothing would be checked");
  if (check.gammas.empty()) invalid_argument("gammas is empty: nothing would be checked");
  if (check.models < 1) invalid_argument("models = ", check.models, ": nothing would be checked");
  if (check.max_new_tokens < 1)
    invalid_argument("max_new_tokens = ", check.max_new_tokens, ": nothing would be checked");
  if (!(check.tolerance >= 0 && check.tolerance < 1))
    invalid_argument("tolerance = ", check.tolerance, " is outside [0, 1)");
  if (check.siblings.empty()) invalid_argument("siblings is empty: no tree could be checked");
}

/// The drafter of a check: it drafts lines, or a random tree if the rule judges trees.
template <class V, class M, class Generator>
auto drafter_for(const LosslessCheck& check, M draft, Index gamma, Generator& generator) {
  if constexpr (judges_trees<V>)
    return FormDrafter(std::move(draft), TreeForm::random(gamma, check.siblings, generator));
  else return ModelDrafter{std::move(draft)};
}

/// The options of a pair of models: see LosslessCheck::stop_tokens.
inline Options options_for(const LosslessCheck& check, Index vocab_size, Index gamma, Index model) {
  Options options{.max_new_tokens = check.max_new_tokens, .gamma = gamma};
  if (check.stop_tokens && model % 2 == 1) options.stop_tokens = {static_cast<Token>(vocab_size - 1)};
  return options;
}

}  // namespace detail

/// Runs a verifier inside SpecDec over all outcomes of small random models, and compares the exact joint law of the output
/// with the target's. Stops at the first pair of models where they differ.
///
/// `verifier` is a verifier (each model gets a fresh copy), or a function that makes one. A verifier for trees gets a random
/// tree for each pair of models. No sampling is involved. A pass is a proof for the models tried. A failure names an output
/// with both probabilities.
/// Throws: InvalidArgument if nothing would be checked: vocab_sizes, gammas or siblings empty, models or
/// max_new_tokens below 1, or a tolerance outside [0, 1).
/// Cost: with the defaults, a tenth of a second in an optimised build.
template <std::floating_point Scalar = double, class VerifierOrFactory>
LosslessReport check_lossless(VerifierOrFactory verifier, const LosslessCheck& check = {}) {
  detail::check_that_something_is_checked(check);
  SplitMix64 generator(check.seed);
  LosslessReport report;
  const auto fresh = [&] {
    if constexpr (std::invocable<VerifierOrFactory&>) return verifier();
    else return verifier;
  };
  for (const Index vocab_size : check.vocab_sizes)
    for (const Index gamma : check.gammas)
      for (Index model = 0; model < check.models; ++model) {
        auto target = TableModel<Scalar>::random(vocab_size, check.order, generator);
        auto draft = TableModel<Scalar>::random(vocab_size, check.order, generator);
        auto drafter = detail::drafter_for<decltype(fresh())>(check, std::move(draft), gamma, generator);
        SpecDec decoder{target, drafter, fresh()};
        const std::vector<Token> prompt{0};
        const Options options = detail::options_for(check, vocab_size, gamma, model);
        const Law expected = check.reference == Reference::greedy ? greedy_law(target, prompt, options)
                                                                  : target_law(target, prompt, options);
        const Difference found = largest_difference(exact_generate(decoder, prompt, options).law, expected);
        ++report.models;
        report.worst_difference = std::max(report.worst_difference, found.size);
        if (found.size <= check.tolerance) continue;
        report.lossless = false;
        report.counterexample = specdec::detail::message(
            "V = ", vocab_size, ", gamma = ", gamma, ", model pair ", model,
            options.stop_tokens.empty() ? "" : " with a stop token", ": output ", to_string(found.tokens),
            " has probability ", found.left, ", under the target ", found.right);
        return report;
      }
  return report;
}

}  // namespace specdec::testing
