// What is to be expected of a rule where that can be computed: on rows that are the same in every context.
#pragma once

#include <optional>

#include "acceptance/pool.hpp"
#include "specdec/analysis/context_free_survival.hpp"
#include "specdec/analysis/keyed_agreement.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/verify/verdict.hpp"

namespace acceptance {

/// The expected tokens of a step, 1 + E[τ], from a fresh verifier; nothing where the pool's rows depend on the
/// context or the analysis does not know the rule.
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

/// The same of every step of a generation: that of a fresh verifier, unless the rule has a state.
template <class V>
std::optional<double> exact_loop_efficiency(const V& rule, const Pool& pool, Index gamma) {
  if constexpr (requires { rule.min_draft_length(); }) return std::nullopt;
  else return exact_step_efficiency(rule, pool, gamma);
}

/// Of keyed verification, whose drafts agree with the target place by place.
inline std::optional<double> exact_keyed_efficiency(const Pool& pool, Index gamma) {
  if (!pool.context_free()) return std::nullopt;
  const auto row = [&](Side side) { return specdec::DenseRow<float>(pool.row(side, 0), pool.vocab_size()); };
  const double agreement = specdec::keyed_agreement(row(Side::target), row(Side::draft));
  double survival = 1, efficiency = 1;
  for (Index i = 0; i < gamma; ++i) efficiency += survival *= agreement;
  return efficiency;
}

}  // namespace acceptance
