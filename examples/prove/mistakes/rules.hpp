// Mistakes of rules: each is token verification, but for one thing. (One is block verification.)
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <specdec/specdec.hpp>
#include <vector>

#include "mistakes/rows.hpp"

namespace mistakes {

// Accepts while u < p/q, with a u that is always 0.
struct UniformIsZero {
  Verdict judge(const auto& drafted, auto& chance) const {
    const double u = 0;
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!(u < drafted.ratio(i))) return {i, *drafted.race(chance, 1.0, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Adds a small number to q, so that nothing is divided by 0.
struct SmoothedRatio {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.p(i) / (drafted.q(i) + 1e-5))) return {i, *drafted.race(chance, 1.0, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Draws the replacement of token i from target row i + 1.
struct NextRow {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i)))
        return {i, *chance.race(1.0, drafted.target(i + 1), drafted.draft(i))};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// A kernel draws the replacement tile by tile, and its loop ends one tile too early.
struct MissesLastTile {
  Index tile = 64;
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (chance.coin(drafted.ratio(i))) continue;
      Row residual = Row::Zero(drafted.vocab_size());
      for (Index begin = 0; begin + tile < residual.size(); begin += tile)
        for (auto x = static_cast<Token>(begin); x < begin + tile; ++x)
          residual[x] =
              std::max(0.0, drafted.target(i).probability(x) - specdec::probability(drafted.draft(i), x));
      if (!(residual.sum() > 0)) return {i, drafted.draw(chance, i)};
      return {i, draw_by(chance)(residual / residual.sum())};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Drafts were made in advance, and half of the time the one that is needed is not among them. Then a draft is made in haste, and
// judged greedily, at any temperature.
struct GreedyAtMiss {
  Verdict judge(const auto& drafted, auto& chance) const {
    if (chance.coin(0.5)) return specdec::TokenVerifier{}.judge(drafted, chance);
    return specdec::ArgmaxVerifier{}.judge(drafted, chance);
  }
};

// A choice of two, by weights that sum to 1. On paper the second may be negative. A generator then chooses the first.
struct Branches {
  double first;

  Index vocab_size() const { return 2; }
  double probability(Token x) const { return x == 0 ? first : 1 - first; }
  auto sampler() const {
    return [first = first](double u) { return u < first ? Token{0} : Token{1}; };
  }
};

// Accepts with weight p/q, and replaces with weight 1 − p/q by a token of p. Accepted tokens have the weight q·p/q = p. The weights of
// the replacements sum to Σ q·(1 − p/q) = 0, if the draft may hold any token. So on paper the law is right, whatever replaces.
struct NegativeBranches {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (chance.draw(Branches{drafted.ratio(i)}) == 1) return {i, drafted.draw(chance, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Draws the replacement from the target's row, as if nothing had been drafted. So a generator runs NegativeBranches.
struct ReplacementFromTarget {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i))) return {i, drafted.draw(chance, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Draws the bonus token from the last row of the draft.
struct BonusFromDraft {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i))) return {i, *drafted.race(chance, 1.0, i)};
    if (drafted.gamma() == 0) return {0, drafted.draw(chance, 0)};
    return {drafted.gamma(), chance.draw(drafted.draft(drafted.gamma() - 1))};
  }
};

// Block verification with w = Π p/q in place of min(1, Π p/q).
struct UncappedProduct {
  Verdict judge(const auto& drafted, auto& chance) const {
    std::vector<double> w{1};
    for (Index i = 0; i < drafted.gamma(); ++i) w.push_back(w.back() * drafted.ratio(i));
    for (Index i = drafted.gamma();; --i)
      if (const auto y = drafted.race(chance, w[static_cast<std::size_t>(i)], i)) return {i, *y};
  }
};

// Rows are lists of the possible tokens. Subtracts entry k of the draft's list from entry k of the target's list.
struct SubtractsByIndex {
  static std::vector<Token> list(const auto& row) {
    std::vector<Token> ids;
    for (Token x = 0; x < row.vocab_size(); ++x)
      if (row.probability(x) > 0) ids.push_back(x);
    return ids;
  }
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (chance.coin(drafted.ratio(i))) continue;
      const auto p = drafted.target(i), q = drafted.draft(i);
      const std::vector<Token> ps = list(p), qs = list(q);
      Row residual = Row::Zero(drafted.vocab_size());
      for (std::size_t k = 0; k < ps.size(); ++k)
        residual[ps[k]] = std::max(0.0, p.probability(ps[k]) - (k < qs.size() ? q.probability(qs[k]) : 0.0));
      if (!(residual.sum() > 0)) return {i, drafted.draw(chance, i)};
      return {i, draw_by(chance)(residual / residual.sum())};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Accepts a token with q = 0. The rule says that it needs no q: else the library refuses the draft.
struct AcceptsImpossible {
  static constexpr bool needs_draft = false;
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const double q = drafted.draft(i).probability(drafted.token(i));
      if (q > 0 && !chance.coin(drafted.p(i) / q)) return {i, *drafted.race(chance, 1.0, i)};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Cuts the target's row (top-p, top-k, min-p), and does not normalise it again. Accepts by what is left.
struct CutNotNormalised {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const Row p = cut_only(drafted.target(i));
      if (chance.coin(std::min(1.0, p[drafted.token(i)] / drafted.q(i)))) continue;
      Row residual = p;
      for (Token x = 0; x < p.size(); ++x)
        residual[x] = std::max(0.0, p[x] - drafted.draft(i).probability(x));
      if (!(residual.sum() > 0)) residual = p;
      return {i, draw_by(chance)(residual / residual.sum())};
    }
    const Row p = cut_only(drafted.target(drafted.gamma()));
    return {drafted.gamma(), draw_by(chance)(p / p.sum())};
  }

  // The row without the tokens that are less than half as likely as the likeliest.
  static Row cut_only(const auto& row) {
    Row p(row.vocab_size());
    for (Token x = 0; x < p.size(); ++x) p[x] = row.probability(x);
    return (p.array() >= 0.5 * p.maxCoeff()).select(p, 0.0);
  }
};

// Accepts a drafted token if its logit is within 1 of the largest one.
struct RelaxedAcceptance {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      double largest = 0;
      for (Token x = 0; x < drafted.vocab_size(); ++x)
        largest = std::max(largest, drafted.target(i).probability(x));
      if (drafted.p(i) >= std::exp(-1.0) * largest) continue;
      if (!chance.coin(drafted.ratio(i))) return {i, *drafted.race(chance, 1.0, i)};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Greedy block verification of a request that is preempted after each step, and taken up by a new rule.
struct ForgetsAtPreemption {
  Verdict judge(const auto& drafted, auto& chance) const {
    specdec::GreedyBlockVerifier fresh;
    return fresh.judge(drafted, chance);
  }
};

// Draws the replacement with the random number that the draft was drawn with.
struct SharedNoise {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (chance.coin(drafted.ratio(i))) continue;
      double before = 0;
      for (Token x = 0; x < drafted.token(i); ++x) before += drafted.draft(i).probability(x);
      Uniform number{before, before + drafted.q(i)};  // it led to the drafted token
      const specdec::ResidualRow residual(1.0, drafted.target(i), 1.0, drafted.draft(i));
      return {i, number.invert(residual, draw_by(chance))};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Draws the replacement with the random number that the coin was tossed with.
struct OneNumber {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const double accepts = std::min(1.0, drafted.ratio(i));
      if (chance.coin(accepts)) continue;
      Uniform number{accepts, 1};
      const specdec::ResidualRow residual(1.0, drafted.target(i), 1.0, drafted.draft(i));
      return {i, number.invert(residual, draw_by(chance))};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

}  // namespace mistakes
