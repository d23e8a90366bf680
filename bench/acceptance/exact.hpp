// The exact expectation of a rule, where it can be computed: on rows that are the same in every context.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "acceptance/pool.hpp"
#include "specdec/more/analysis/context_free_survival.hpp"
#include "specdec/more/analysis/row_acceptance.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/verify/verdict.hpp"

namespace acceptance {

/// The expected tokens of one step, 1 + E[τ], with a fresh verifier. Empty if the pool's rows depend on the context, or if
/// the analysis does not know the rule.
template <class V>
std::optional<double> exact_step_efficiency(const V& rule, const Pool& pool, Index gamma) {
  const auto row = [&](Side side) { return specdec::DenseRow<float>(pool.row(side, 0), pool.vocab_size()); };
  if constexpr (requires {
                  specdec::context_free_survival(rule, row(Side::target), row(Side::draft), gamma);
                }) {
    if (pool.context_free())
      return 1 + specdec::context_free_survival(rule, row(Side::target), row(Side::draft), gamma)
                     .expected_accepted();
  }
  return std::nullopt;
}

/// The expected tokens per step of a generation, equal to exact_step_efficiency. Empty if the rule has state.
template <class V>
std::optional<double> exact_loop_efficiency(const V& rule, const Pool& pool, Index gamma) {
  if constexpr (requires { rule.min_draft_length(); }) return std::nullopt;
  else return exact_step_efficiency(rule, pool, gamma);
}

/// The expected tokens of a step of keyed verification, in which drafts and target agree place by place.
inline std::optional<double> exact_keyed_efficiency(const Pool& pool, Index gamma) {
  if (!pool.context_free()) return std::nullopt;
  const auto row = [&](Side side) { return specdec::DenseRow<float>(pool.row(side, 0), pool.vocab_size()); };
  const double agreement = specdec::keyed_agreement(row(Side::target), row(Side::draft));
  double survival = 1, efficiency = 1;
  for (Index i = 0; i < gamma; ++i) efficiency += survival *= agreement;
  return efficiency;
}

}  // namespace acceptance
