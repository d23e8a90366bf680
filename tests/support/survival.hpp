// The rules with known survival, and pairs of models to test them on.
// SPDX-License-Identifier: MIT
#pragma once

#include <random>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "support/rules.hpp"

namespace support {

// The rules that tell their own survival, as one type. The analysis knows the survival of greedy block verification.
using TellingRule = AnyOf<true, specdec::TokenVerifier, specdec::BlockVerifier, specdec::SampleMatchVerifier,
                          specdec::LenientVerifier>;
using SurvivalRule = std::variant<TellingRule, specdec::GreedyBlockVerifier>;

inline const SurvivalRule survival_rules[] = {
    TellingRule{specdec::TokenVerifier{}}, TellingRule{specdec::BlockVerifier{}},
    specdec::GreedyBlockVerifier{}, TellingRule{specdec::SampleMatchVerifier{}},
    TellingRule{specdec::LenientVerifier{0.4}}};

// A rule's verifier on rows in memory.
inline AnyVerifier verifier_of(const SurvivalRule& rule) {
  if (const auto* telling = std::get_if<TellingRule>(&rule))
    return std::visit([](const auto& verifier) { return AnyVerifier{verifier}; }, telling->rule);
  return {std::get<specdec::GreedyBlockVerifier>(rule)};
}

// A target and a drafter.
struct ModelPair {
  specdec::testing::TableModel<> target, draft;
};

// Calls f(pair, gamma) for small random models, with zeros in their rows.
template <class F>
void for_random_models(F&& f) {
  std::mt19937_64 rng{71};
  for (const Index vocab_size : {2, 3})
    for (const Index gamma : {0, 1, 2, 3})
      for (int n = 0; n < 6; ++n) {
        auto target = specdec::testing::TableModel<>::random(vocab_size, 2, rng);
        f(ModelPair{std::move(target), specdec::testing::TableModel<>::random(vocab_size, 2, rng)}, gamma);
      }
}

// The tokens of a draft after the prompt, one at a time by draw(row), and all its rows.
struct DraftOfPair {
  RowMajor<double> p, q;
  std::vector<Token> tokens = {};
};
template <class Draw>
DraftOfPair draft_of(const ModelPair& pair, std::vector<Token> context, Index gamma, Draw&& draw) {
  const auto row_of = [&](const specdec::testing::TableModel<>& model) {
    return model.distribution(context).segment(0, model.vocab_size()).matrix().transpose().eval();
  };
  DraftOfPair out{{gamma + 1, pair.target.vocab_size()}, {gamma, pair.draft.vocab_size()}};
  for (Index i = 0;; ++i) {
    out.p.row(i) = row_of(pair.target);
    if (i == gamma) return out;
    out.q.row(i) = row_of(pair.draft);
    out.tokens.push_back(draw(i, pair.draft.distribution(context)));
    context.push_back(out.tokens.back());
  }
}

}  // namespace support
