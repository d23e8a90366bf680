// The proof harness: compares a verifier's output with the target's law on many small models, exactly.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/model_drafter.hpp"
#include "specdec/eigen.hpp"
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

/// The models of a check: random context-dependent tables for target and draft.
///
/// Most pairs of models are small: a handful of tokens, with probabilities that are multiples of 2^-10. A few pairs are wide: 50
/// to 100 tokens, one or two of them drafted, with probabilities down to 2^-36 (for float, 2^-24) and many zeros. The row after one
/// token has most tokens, in one model or both. All other rows have a few that are far apart, and many are nearly equal.
///
/// Not reached: mistakes that show only in a larger vocabulary (rows of the library are read in segments of up to 1024 tokens), if
/// several rows with many tokens are drafted from, at smaller probabilities, in rows that do not sum to 1, or in rows that are not
/// dense; and mistakes that change no output's probability by more than the tolerance.
struct LosslessCheck {
  std::vector<Index> vocab_sizes = {2, 3, 4};
  std::vector<Index> gammas = {1, 2, 3, 4};  ///< drafted tokens; for rules for trees, in random trees
  Index models = 10;         ///< random pairs of small models for every vocabulary size and γ
  Index wide_models = 8;     ///< random pairs of wide models, after them
  Index max_new_tokens = 5;  ///< length of the joint law, and the most iterations of the loop
  Index order = 2;           ///< how many context tokens the models depend on
  double tolerance = 1e-12;  ///< largest difference of an output's probability that passes
  std::uint64_t seed = 1;    ///< of the random models
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
  if (check.wide_models < 0) invalid_argument("wide_models = ", check.wide_models, " is negative");
  if (!(check.tolerance >= 0 && check.tolerance < 1))
    invalid_argument("tolerance = ", check.tolerance, " is outside [0, 1)");
  if (check.siblings.empty()) invalid_argument("siblings is empty: no tree could be checked");
}

/// The drafter of a check: it drafts lines. If the rule judges trees, it drafts a random tree, or siblings only.
template <class V, class M, class Generator>
auto drafter_for(const LosslessCheck& check, M draft, Index gamma, bool siblings, Generator& generator) {
  if constexpr (judges_trees<V>) {
    TreeForm form = TreeForm::random(gamma, check.siblings, generator);
    if (siblings) std::fill(form.parents.begin(), form.parents.end(), -1);
    return FormDrafter(std::move(draft), std::move(form));
  } else {
    return ModelDrafter{std::move(draft)};
  }
}

/// The options of a pair of models: see LosslessCheck::stop_tokens.
inline Options options_for(const LosslessCheck& check, Index vocab_size, Index gamma, Index model) {
  Options options{.max_new_tokens = check.max_new_tokens, .gamma = gamma};
  if (check.stop_tokens && model % 2 == 1) options.stop_tokens = {static_cast<Token>(vocab_size - 1)};
  return options;
}

/// A row of multiples of 2^-bits: of all magnitudes for about `share` of the tokens, large for token `sure`, 0 for others.
template <class Scalar, class Generator>
Eigen::Matrix<Scalar, 1, Eigen::Dynamic> wide_row(Index size, double share, Index sure,
                                                  Generator& generator) {
  constexpr int bits = std::min(std::numeric_limits<Scalar>::digits, 36);
  const double grains = std::ldexp(1.0, bits);
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Zero(size);
  for (Index x = 0; x < size; ++x) {
    if (x != sure && uniform01(generator) >= share) continue;
    const double halvings = uniform01(generator) * (x == sure ? 4 : bits), whole = std::floor(halvings);
    row[x] = std::ldexp(1 + halvings - whole, -static_cast<int>(whole));
  }
  row = (row * (grains / row.sum())).array().floor();
  row[sure] += grains - row.sum();
  return (row / grains).template cast<Scalar>();
}

/// Where a wide pair of models has a row with many tokens. All other rows have a few, so there are not too many outcomes.
enum class Wide { both, target, draft, target_later };

/// Pairs without and with a stop token take turns: see options_for.
inline Wide wide_at(Index model) { return static_cast<Wide>(model / 2 % 4); }

/// A wide pair of models. The row with many tokens is the one after the prompt, or the one after a token that is often drafted.
template <class Scalar, class Generator>
std::pair<TableModel<Scalar>, TableModel<Scalar>> wide_pair(const LosslessCheck& check, Index model,
                                                            Generator& generator) {
  const Wide wide = wide_at(model);
  const Index size = 50 + model % 6 * 10, order = std::min<Index>(check.order, 1);
  const Index sure = 1 + static_cast<Index>(uniform01(generator) * static_cast<double>(size - 2));
  const Index wide_row_number = order == 0 ? 0 : 1 + (wide == Wide::target_later ? sure : 0);
  typename TableModel<Scalar>::Rows target(order == 0 ? 1 : size + 1, size), draft = target;
  for (Index i = 0; i < target.rows(); ++i) {
    const bool here = i == wide_row_number;
    const auto row = [&](bool many) {
      return wide_row<Scalar>(size, here && many ? 0.8 : 3.0 / static_cast<double>(size), sure, generator);
    };
    target.row(i) = row(wide != Wide::draft);
    draft.row(i) = row(wide == Wide::both || wide == Wide::draft);
    const double u = uniform01(generator);
    if (here || u < 0.5) continue;
    target.row(i) = draft.row(i);  // nearly
    auto& changed = u < 0.75 ? target : draft;
    changed(i, sure) -= Scalar(0x1p-20);
    changed(i, i % sure) += Scalar(0x1p-20);
  }
  return {{std::move(target), order}, {std::move(draft), order}};
}

/// The options of a wide pair of models.
template <class V>
Options wide_options_for(const LosslessCheck& check, Index vocab_size, Index model) {
  const Wide wide = wide_at(model);
  const bool few_outcomes = wide == Wide::target_later || (wide == Wide::target && judges_trees<V>);
  const Index gamma =
      std::min<Index>(few_outcomes ? 2 : 1, *std::max_element(check.gammas.begin(), check.gammas.end()));
  Options options = options_for(check, vocab_size, gamma, model);
  options.max_new_tokens = std::min(check.max_new_tokens, gamma + 1);
  return options;
}

}  // namespace detail

/// Runs a verifier inside SpecDec over all outcomes of random models, and compares the exact joint law of the output
/// with the target's. Stops at the first pair of models where they differ.
///
/// `verifier` is a verifier (each model gets a fresh copy), or a function that makes one. A verifier for trees gets a random
/// tree for each pair of models. No sampling is involved. A pass is a proof for the models tried: LosslessCheck says which
/// mistakes they do not reach. A failure names an output with both probabilities.
/// Throws: InvalidArgument if nothing would be checked: vocab_sizes, gammas or siblings empty, models or max_new_tokens below 1,
/// or a tolerance outside [0, 1). InvalidDistribution if the verifier makes a choice that no generator can make: see Enumerator.
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
  using V = decltype(fresh());
  const auto passes = [&](const char* kind, TableModel<Scalar>& target, TableModel<Scalar>& draft,
                          bool siblings, Index model, const Options& options) {
    auto drafter = detail::drafter_for<V>(check, std::move(draft), options.gamma, siblings, generator);
    SpecDec decoder{target, drafter, fresh()};
    const std::vector<Token> prompt{0};
    const Law expected = check.reference == Reference::greedy ? greedy_law(target, prompt, options)
                                                              : target_law(target, prompt, options);
    const Difference found = largest_difference(exact_generate(decoder, prompt, options).law, expected);
    ++report.models;
    report.worst_difference = std::max(report.worst_difference, found.size);
    if (found.size <= check.tolerance) return true;
    report.lossless = false;
    report.counterexample = specdec::detail::message(
        "V = ", target.vocab_size(), ", gamma = ", options.gamma, ", ", kind, " pair ", model,
        options.stop_tokens.empty() ? "" : " with a stop token", ": output ", to_string(found.tokens),
        " has probability ", found.left, ", under the target ", found.right);
    return false;
  };
  for (const Index vocab_size : check.vocab_sizes)
    for (const Index gamma : check.gammas)
      for (Index model = 0; model < check.models; ++model) {
        auto target = TableModel<Scalar>::random(vocab_size, check.order, generator);
        auto draft = TableModel<Scalar>::random(vocab_size, check.order, generator);
        const Options options = detail::options_for(check, vocab_size, gamma, model);
        if (!passes("model", target, draft, false, model, options)) return report;
      }
  for (Index model = 0; model < check.wide_models; ++model) {
    auto [target, draft] = detail::wide_pair<Scalar>(check, model, generator);
    const Options options = detail::wide_options_for<V>(check, target.vocab_size(), model);
    const bool siblings = detail::wide_at(model) == detail::Wide::target;
    if (!passes("wide model", target, draft, siblings, model, options)) return report;
  }
  return report;
}

}  // namespace specdec::testing
