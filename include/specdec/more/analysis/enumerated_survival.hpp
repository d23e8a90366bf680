// The expected acceptance of small models, over all drafts.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/analysis/survival.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Calls f with the row of the context. `source` is a callable or a model.
template <class S, class F>
void with_row(S& source, std::span<const Token> context, F&& f) {
  if constexpr (std::invocable<S&, std::span<const Token>>) {
    const Distribution auto& row = source(context);
    f(row);
  } else {
    static_assert(Model<S>, "the source is neither a function row(context) nor a specdec::Model");
    source.truncate(0);
    const auto& matrix = source.forward(context, 1);
    f(distributions(matrix).row(0));
  }
}

/// A drafted token, and its probabilities in the two rows of its place.
struct WalkedToken {
  Token token;
  double p, q;
};

/// Copies the two rows at place i after the context: rows of a model live only until its next call.
template <class Target, class Draft>
std::vector<WalkedToken> tokens_at(Index i, Target& target, Draft& draft, std::span<const Token> context) {
  std::vector<WalkedToken> tokens;
  with_row(draft, context, [&](const auto& row) {
    const NamedRow q(row, "draft", i);
    for (Token x = 0; x < q.vocab_size(); ++x)
      if (const double q_x = q.probability(x); q_x > 0) tokens.push_back({x, 0, q_x});
  });
  with_row(target, context, [&](const auto& row) {
    const NamedRow p(row, "target", i);
    for (WalkedToken& x : tokens) x.p = probability(p, x.token);
  });
  return tokens;
}

}  // namespace detail

/// The exact P(τ > i) of one iteration over all drafts of gamma tokens after the prompt.
///
/// `target` and `draft` are callables row(context), or Models. The context is the prompt and the drafted tokens.
/// Source: Sun et al., arXiv:2403.10444, Lemma 3.
/// Pre: a Model needs a prompt. Afterwards its context is unspecified.
/// Throws: InvalidArgument if gamma is negative or more than longest_draft; InvalidDistribution if a number is no probability.
/// Cost: two rows for each of up to V^i prefixes of each length i < γ, and V^γ ratios. Only for small models.
template <SurvivalRule Rule, class Target, class Draft>
Survival enumerated_survival(const Rule& rule, Target&& target, Draft&& draft, std::span<const Token> prompt,
                             Index gamma) {
  detail::check_drafted("gamma", gamma);
  Survival out{std::vector<double>(static_cast<std::size_t>(gamma))};
  std::vector<Token> context(prompt.begin(), prompt.end());
  // A depth-first walk over all drafts that may survive. i tokens have been drafted, with probability `mass`. The weight after
  // them is `weight`.
  const auto walk = [&](const auto& walk_on, Index i, double mass, double weight) -> void {
    if (i == gamma) return;
    for (const auto& [token, p, q] : detail::tokens_at(i, target, draft, context)) {
      const double next = detail::next_weight(rule, weight, p, q);
      if (!(next > 0)) continue;
      detail::at(out.beyond, i) += mass * q * detail::survival(rule, next);
      context.push_back(token);
      walk_on(walk_on, i + 1, mass * q, next);
      context.pop_back();
    }
  };
  walk(walk, 0, 1.0, 1.0);
  return out;
}

}  // namespace specdec
