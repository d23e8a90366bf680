// One step: every rule judges each of many drafts once, with a fresh verifier each time.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "acceptance/estimate.hpp"
#include "acceptance/hashed_model.hpp"
#include "acceptance/rules.hpp"
#include "specdec/more/analysis/survival.hpp"

namespace acceptance {

/// The measured figures of a rule. Standard errors are over drafts (one step) or generations (whole loop).
struct Measured {
  Estimate efficiency;           ///< tokens a step
  Estimate gain;                 ///< ratio to token verification on the same drafts (or prompts), minus 1
  double accepted_fraction = 0;  ///< of the drafted tokens
  std::vector<double> beyond;    ///< [i]: share of the steps that accepted more than i tokens
  bool consistent = true;        ///< the counted tokens agree with the expected ones
};

/// One draft of the pool's HashedModels: γ tokens and their rows.
struct DraftedRows {
  std::vector<Token> tokens;
  std::vector<const float*> target, draft;

  auto target_rows(Index gamma, Index vocab_size) const {
    return specdec::RowPointers<float>(std::span(target).first(static_cast<std::size_t>(gamma) + 1),
                                       vocab_size);
  }
  auto draft_rows(Index gamma, Index vocab_size) const {
    return specdec::RowPointers<float>(std::span(draft).first(static_cast<std::size_t>(gamma)), vocab_size);
  }
  std::span<const Token> first(Index gamma) const {
    return std::span(tokens).first(static_cast<std::size_t>(gamma));
  }
};

/// Drafts of `gamma` tokens after random contexts of `order` tokens. A shorter draft is the beginning of a longer one, so
/// that all draft lengths are measured on the same tokens.
class Drafts {
 public:
  Drafts(const Pool& pool, Index order, Index gamma, Index count, std::uint64_t seed)
      : vocab_size_(pool.vocab_size()) {
    drafts_.resize(static_cast<std::size_t>(count));
    for (std::size_t k = 0; k < drafts_.size(); ++k) {
      SplitMix64 generator(mixed(seed, k));
      std::vector<Token> context;
      for (Index i = 0; i < order; ++i) context.push_back(static_cast<Token>(below(generator, vocab_size_)));
      draw(pool, order, gamma, context, generator, drafts_[k]);
    }
  }

  Index vocab_size() const { return vocab_size_; }
  std::size_t size() const { return drafts_.size(); }
  const DraftedRows& operator[](std::size_t k) const { return drafts_[k]; }

 private:
  static void draw(const Pool& pool, Index order, Index gamma, std::vector<Token>& context,
                   SplitMix64& generator, DraftedRows& out) {
    specdec::RandomChance chance(generator);
    for (Index i = 0;; ++i) {
      const Index slot = slot_of(context, order, pool.contexts());
      out.target.push_back(pool.row(Side::target, slot));
      if (i == gamma) return;
      out.draft.push_back(pool.row(Side::draft, slot));
      out.tokens.push_back(chance.draw(specdec::DenseRow<float>(out.draft.back(), pool.vocab_size())));
      context.push_back(out.tokens.back());
    }
  }

  Index vocab_size_;
  std::vector<DraftedRows> drafts_;
};

/// p and q of token i of a draft.
inline std::pair<double, double> probabilities(const DraftedRows& draft, std::size_t i) {
  const auto x = static_cast<std::size_t>(draft.tokens[i]);
  return {static_cast<double>(draft.target[i][x]), static_cast<double>(draft.draft[i][x])};
}

/// P(τ > i | x_1..x_{i+1}) for i < gamma under a rule.
template <specdec::SurvivalRule Rule>
std::vector<double> expected(const Rule& rule, const DraftedRows& draft, Index gamma, Index vocab_size) {
  return specdec::survival_of_draft(rule, draft.target_rows(gamma, vocab_size),
                                    draft.draft_rows(gamma, vocab_size), draft.first(gamma))
      .beyond;
}

/// Collects, for one draft after another, P(τ > i | draft). If only the verdict is known, this is 1 for an accepted token
/// and 0 for any other.
class Collector {
 public:
  Collector(Index gamma, std::size_t count) : beyond_(static_cast<std::size_t>(gamma), 0.0) {
    tokens_.reserve(count);
  }

  void add(const std::vector<double>& survival) {
    double sum = 1;
    for (std::size_t i = 0; i < beyond_.size(); ++i) beyond_[i] += survival[i], sum += survival[i];
    tokens_.push_back(sum);
  }

  const std::vector<double>& tokens() const { return tokens_; }

  Measured measured(const std::vector<double>& baseline) const {
    const auto count = static_cast<double>(tokens_.size()), gamma = static_cast<double>(beyond_.size());
    Measured out;
    out.efficiency = mean(tokens_);
    out.gain = gain(baseline, tokens_);
    out.accepted_fraction = gamma > 0 ? (out.efficiency.value - 1) / gamma : 0;
    for (const double sum : beyond_) out.beyond.push_back(sum / count);
    return out;
  }

 private:
  std::vector<double> beyond_, tokens_;
};

/// The expected accepted tokens of each draft.
template <specdec::SurvivalRule Rule>
Collector expected(const Rule& rule, const Drafts& drafts, Index gamma) {
  Collector out(gamma, drafts.size());
  for (std::size_t k = 0; k < drafts.size(); ++k)
    out.add(expected(rule, drafts[k], gamma, drafts.vocab_size()));
  return out;
}

/// The accepted tokens of each draft, judged by a fresh copy of the rule.
template <class V>
Collector counted(const V& verifier, const Drafts& drafts, Index gamma, std::uint64_t seed) {
  Collector out(gamma, drafts.size());
  for (std::size_t k = 0; k < drafts.size(); ++k) {
    SplitMix64 generator(mixed(seed, k));
    V fresh = verifier;
    const specdec::Verdict verdict =
        specdec::verify(fresh, drafts[k].target_rows(gamma, drafts.vocab_size()),
                        drafts[k].draft_rows(gamma, drafts.vocab_size()), drafts[k].first(gamma), generator);
    std::vector<double> survival(static_cast<std::size_t>(gamma), 0.0);
    std::fill_n(survival.begin(), verdict.accepted, 1.0);
    out.add(survival);
  }
  return out;
}

/// Whether two measurements of the same drafts have equal means, within five standard errors of the difference.
inline bool agree(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> difference(a.size());
  for (std::size_t k = 0; k < a.size(); ++k) difference[k] = a[k] - b[k];
  const Estimate off = mean(difference);
  return std::abs(off.value) <= 5 * off.standard_error + 1e-9;
}

/// The bound that no rule can exceed in one step: Σ_i Σ min(p, q) of the joint prefixes. A fresh step of greedy block
/// verification reaches it.
inline Measured full_information(const Drafts& drafts, Index gamma) {
  return expected(specdec::GreedyBlockVerifier{}, drafts, gamma)
      .measured(expected(specdec::TokenVerifier{}, drafts, gamma).tokens());
}

/// Judges every draft with a fresh copy of the verifier. If the rule's survival is known (specdec::SurvivalRule; a member
/// survival(before, p, q) is enough), the result is the expectation given the draft, so that only the drafts cause noise.
/// The counted tokens must agree with this expectation.
template <class V>
Measured one_step(const V& verifier, const Drafts& drafts, Index gamma, std::uint64_t seed) {
  const Collector baseline = expected(specdec::TokenVerifier{}, drafts, gamma);
  const Collector found = counted(verifier, drafts, gamma, seed);
  if constexpr (specdec::SurvivalRule<V>) {
    const Collector known = expected(verifier, drafts, gamma);
    Measured out = known.measured(baseline.tokens());
    out.consistent = agree(found.tokens(), known.tokens());
    return out;
  } else {
    return found.measured(baseline.tokens());
  }
}

}  // namespace acceptance
