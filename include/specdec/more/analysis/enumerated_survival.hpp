// The expected acceptance of small models, over all drafts.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

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
    static_assert(Model<S>);
    source.truncate(0);
    const auto& matrix = source.forward(context, 1);
    f(distributions(matrix).row(0));
  }
}

/// A depth-first walk over all drafts that may survive.
template <class Rule, class Target, class Draft>
class SurvivalWalk {
 public:
  SurvivalWalk(const Rule& rule, Target& target, Draft& draft, std::span<const Token> prompt, Index gamma)
      : rule_(rule),
        target_(target),
        draft_(draft),
        context_(prompt.begin(), prompt.end()),
        levels_(static_cast<std::size_t>(gamma)) {
    out_.beyond.assign(levels_.size(), 0.0);
  }

  Survival run() {
    visit(0, 1.0, 1.0);
    return out_;
  }

 private:
  struct Drafted {
    Token token;
    double p, q;
  };

  // `depth` tokens have been drafted, with probability `mass`. The weight after them is `weight`.
  void visit(std::size_t depth, double mass, double weight) {
    if (depth == levels_.size()) return;
    read(levels_[depth]);
    for (const Drafted& x : levels_[depth]) {
      const double next = next_weight(rule_, weight, x.p, x.q);
      if (!(next > 0)) continue;
      out_.beyond[depth] += mass * x.q * survival(rule_, next);
      context_.push_back(x.token);
      visit(depth + 1, mass * x.q, next);
      context_.pop_back();
    }
  }

  // Copies the two rows at this place: rows of a model live only until its next call.
  void read(std::vector<Drafted>& level) {
    const Index i = static_cast<Index>(&level - levels_.data());
    level.clear();
    with_row(draft_, context_, [&](const auto& row) {
      const NamedRow q(row, "draft", i);
      for (Token x = 0; x < q.vocab_size(); ++x)
        if (const double q_x = q.probability(x); q_x > 0) level.push_back({x, 0, q_x});
    });
    with_row(target_, context_, [&](const auto& row) {
      const NamedRow p(row, "target", i);
      for (Drafted& x : level) x.p = probability(p, x.token);
    });
  }

  const Rule& rule_;
  Target& target_;
  Draft& draft_;
  std::vector<Token> context_;
  std::vector<std::vector<Drafted>> levels_;
  Survival out_;
};

}  // namespace detail

/// The exact P(τ > i) of one iteration over all drafts of gamma tokens after the prompt.
///
/// `target` and `draft` are callables row(context), or Models. The context is the prompt and the drafted tokens.
///
/// Source: Sun et al., arXiv:2403.10444, Lemma 3.
/// Pre: a Model needs a prompt. Afterwards its context is unspecified.
/// Throws: InvalidArgument if gamma is negative or more than longest_draft; InvalidDistribution if a number is no
/// probability.
/// Cost: two rows for each of up to V^i prefixes of each length i < γ, and V^γ ratios. Only for small models.
template <SurvivalRule Rule, class Target, class Draft>
Survival enumerated_survival(const Rule& rule, Target&& target, Draft&& draft, std::span<const Token> prompt,
                             Index gamma) {
  detail::check_drafted("gamma", gamma);
  return detail::SurvivalWalk(rule, target, draft, prompt, gamma).run();
}

}  // namespace specdec
