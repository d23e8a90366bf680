// The expected acceptance of models without context: one row of the target and one of the draft, for every position.
//
// Then the weight after i tokens is a random walk. Each token multiplies the weight by a ratio p(x)/q(x), x ~ q. Block
// verification clips the weight at 1. Greedy block verification (the bound with full information) does not. The number of
// possible weights grows like the number of multisets of i ratios. If there are few weights, their distribution is computed.
// If there are many, two distributions on a grid of cells of the logarithm bound it from above and from below:
//
//   E[P(τ >= i+j) | weight] is concave in the weight w, because it is built from w ↦ min(1, w·r), which are concave and
//   increasing. By Jensen's inequality, the expectation does not fall if all weights of a cell move to their mean. It does
//   not rise if each weight is spread over the two ends of its cell with an unchanged mean.
//
// The error of both bounds is of the order of the squared width of a cell. The ratios are put into cells in both ways, too.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/analysis/survival.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/each_segment.hpp"
#include "specdec/rows/read/overlap.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/rules/greedy_block.hpp"
#include "specdec/verify/rules/lenient.hpp"
#include "specdec/verify/rules/token.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Whether the rule's weight is a running product of ratios, clipped or not.
template <class Rule>
concept ProductRule = std::same_as<Rule, BlockVerifier> || std::same_as<Rule, GreedyBlockVerifier>;

/// A value of a positive random variable.
struct Atom {
  double value, mass, log = std::log(value);
};
using Atoms = std::vector<Atom>;  // by ascending value

/// The values within [exp(key·width), exp((key+1)·width)): their mass, and the sum of mass times value.
struct Cell {
  std::int64_t key;
  double mass, moment;
};
using Cells = std::vector<Cell>;  // by ascending key

/// ⌊log_value/width⌋, for finite numbers. Not std::floor, which is a function call where the compiler targets old processors.
inline std::int64_t cell_key(double log_value, double width) {
  const double quotient = log_value / width;
  const auto truncated = static_cast<std::int64_t>(quotient);
  return truncated - (static_cast<double>(truncated) > quotient ? 1 : 0);
}

inline void enter(Cells& cells, const Cell& more) {
  if (cells.empty() || cells.back().key != more.key) return cells.push_back(more);
  cells.back().mass += more.mass;
  cells.back().moment += more.moment;
}

/// Adds `more` to the cells.
inline void merge(Cells& cells, const Cells& more, Cells& scratch) {
  scratch.clear();
  auto a = cells.cbegin(), b = more.cbegin();
  while (a != cells.cend() || b != more.cend()) {
    const bool first = b == more.cend() || (a != cells.cend() && a->key <= b->key);
    enter(scratch, first ? *a++ : *b++);
  }
  cells.swap(scratch);
}

/// Weights and ratios are kept within these bounds. The mean of a ratio is at most 1, so values outside have negligible mass.
inline const double log_largest = std::log(largest_weight);

/// The walk of the weights.
class WeightWalk {
 public:
  enum class Kind { collapsed, spread };

  /// `clipped`: weights are clipped at 1. `kind`: what is done with the distribution within a cell, see above.
  WeightWalk(bool clipped, Kind kind, double width, const Cells& ratios)
      : clipped_(clipped), kind_(kind), width_(width), law_{{1.0, 1.0}} {
    ratios_ = atoms(ratios, no_key, -no_key);
  }

  /// Adds a token, with up to `remaining` tokens to follow, and returns P(τ >= i) after it. Throws InvalidArgument if
  /// more than `most` weights would have to be kept.
  double step(Index remaining, std::size_t most) {
    set_region(static_cast<double>(remaining));
    Cells cells, scaled, scratch;
    for (const Atom& ratio : ratios_) {
      scale(ratio, scaled);
      merge(cells, scaled, scratch);
      if (cells.size() > most)
        invalid_argument("most_weights = ", most, " is too few: the weights of these rows take more values");
    }
    additions_ += static_cast<double>(law_.size() + ratios_.size() + cells.size() + 256);
    law_ = atoms(cells, lowest_, highest_);
    double survival = 0;  // Σ min(1, weight): cells do not reach across 1
    for (const Cell& cell : cells) survival += cell.key < 0 ? cell.moment : cell.mass;
    return survival;
  }

  /// An upper bound of the relative rounding error so far. All numbers are sums of products of numbers >= 0.
  double rounding() const { return 4 * additions_ * std::numeric_limits<double>::epsilon(); }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr std::int64_t no_key = std::numeric_limits<std::int64_t>::min() / 2;

  std::int64_t key(double log_value) const { return cell_key(log_value, width_); }

  // Two sorts of weights need one cell each. A weight that no further ratios can lift above 1 enters the result unchanged. A
  // weight that no further ratios can take below 1 enters as 1 (or, if clipped, is 1). For both, only mass and mean matter.
  void set_region(double remaining) {
    if (ratios_.empty()) return;
    const double rise = std::max(0.0, ratios_.back().log), fall = std::min(0.0, ratios_.front().log);
    lowest_ = key(std::max(-remaining * rise, -log_largest)) - 1;
    highest_ = clipped_ ? 0 : -key(std::max(remaining * fall, -log_largest));
  }

  // The law of the weights times a ratio, by cell.
  void scale(const Atom& r, Cells& cells) const {
    cells.clear();
    for (const Atom& w : law_) {
      const double value = bounded(w.value * r.value), mass = w.mass * r.mass;
      const std::int64_t at = std::clamp(key(w.log + r.log), lowest_, highest_);
      enter(cells, {at, mass, mass * (clipped_ ? std::min(1.0, value) : value)});
    }
  }

  Atoms atoms(const Cells& cells, std::int64_t lowest, std::int64_t highest) const {
    Atoms out;
    for (const Cell& cell : cells) {
      if (!(cell.mass > 0 && cell.moment > 0)) continue;  // underflow
      const double least = cell.key > lowest ? end(cell.key) : 0.0;
      const double most = cell.key < highest ? end(cell.key + 1) : infinity;
      const double mean = std::clamp(cell.moment / cell.mass, least, most);  // where rounding has led outside
      if (kind_ == Kind::spread && least > 0 && most < infinity) spread(cell.mass, mean, least, most, out);
      else add(out, mean, cell.mass);
    }
    return out;
  }

  static void spread(double mass, double mean, double low, double high, Atoms& out) {
    const double share = (mean - low) / (high - low);
    add(out, low, (1 - share) * mass);
    add(out, high, share * mass);
  }

  double end(std::int64_t at) const { return std::exp(static_cast<double>(at) * width_); }

  static void add(Atoms& out, double value, double mass) {
    if (!(mass > 0)) return;
    if (!out.empty() && out.back().value == value) out.back().mass += mass;
    else out.push_back({value, mass});
  }

  bool clipped_;
  Kind kind_;
  double width_;
  Atoms ratios_, law_;
  std::int64_t lowest_ = 0, highest_ = 0;
  double additions_ = 0;
};

/// The law of p(x)/q(x), x ~ q, by cell, where it is not 0.
template <Distribution P, Distribution Q>
Cells ratio_cells(const P& target, const Q& draft, double width) {
  const NamedRow p(target, "target", 0);
  const NamedRow q(draft, "draft", 0);
  Cells cells;
  const auto add = [&](Token x, double q_x) {
    const double p_x = q_x > 0 ? probability(p, x) : 0;
    if (!(p_x > 0)) return;
    const double log_ratio = std::clamp(std::log(p_x) - std::log(q_x), -log_largest, log_largest);
    cells.push_back({cell_key(log_ratio, width), q_x, p_x});
  };
  q.named([&] { each_token(q, add); });
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.key < b.key; });
  Cells merged;
  for (const Cell& cell : cells) enter(merged, cell);
  return merged;
}

/// P(τ > i) = β^(i+1): every token stands or falls alone.
inline Survival independent_survival(double acceptance, Index gamma) {
  check_drafted("gamma", gamma);
  Survival out;
  double all = 1;
  for (Index i = 0; i < gamma; ++i) out.beyond.push_back(all *= acceptance);
  return out;
}

}  // namespace detail

/// P(τ > i) of token verification if every position has these two rows: β^(i+1), β = Σ min(p, q).
/// Throws: InvalidArgument if gamma is negative or more than longest_draft; InvalidDistribution: see overlap().
template <Distribution P, Distribution Q>
Survival context_free_survival(const TokenVerifier&, const P& p, const Q& q, Index gamma) {
  return detail::independent_survival(overlap(p, q), gamma);
}

/// P(τ > i) of lenient verification if every position has these two rows: β^(i+1), with the lenient overlap β.
template <Distribution P, Distribution Q>
Survival context_free_survival(const LenientVerifier& rule, const P& p, const Q& q, Index gamma) {
  return detail::independent_survival(lenient_overlap(p, q, rule.lenience()), gamma);
}

/// The exact P(τ > i) of block verification if every position has these two rows. With GreedyBlockVerifier: of one step,
/// which is the bound with full information, Σ min(Πp, Πq).
/// Source: Sun et al., arXiv:2403.10444, Lemma 3; see the top of this file.
/// Throws: InvalidArgument if gamma is negative or more than longest_draft, or if there are more than most_weights
/// weights: then use context_free_survival_bounds. InvalidDistribution if a number is no probability.
/// Cost: R different ratios make up to N = C(γ−1+R, R) weights. Weights that no further ratio can move across 1 share a cell.
/// Time R·N per token, about 100·N bytes. With two or three ratios any γ is possible; with V = 1000 different ones γ = 2.
/// Numeric: weights that agree to about 2^-36 (so all that differ by rounding only) are merged into their mean. This changes
/// results by the square, 2^-72: less than rounding.
template <detail::ProductRule Rule, Distribution P, Distribution Q>
Survival context_free_survival(const Rule&, const P& p, const Q& q, Index gamma,
                               std::size_t most_weights = std::size_t{1} << 18) {
  using detail::WeightWalk;
  detail::check_drafted("gamma", gamma);
  constexpr double width = 0x1p-36;
  WeightWalk walk(std::same_as<Rule, BlockVerifier>, WeightWalk::Kind::collapsed, width,
                  detail::ratio_cells(p, q, width));
  Survival out;
  for (Index i = 1; i <= gamma; ++i) out.beyond.push_back(walk.step(gamma - i, most_weights));
  return out;
}

/// Bounds of the true values, element by element.
struct SurvivalBounds {
  Survival lower, upper;
};

/// Bounds on P(τ > i) for any two rows. The true values lie between the bounds, rounding included (except values below 1e-290).
///
/// `cell` is the width of a cell in the logarithm of a weight. The distance of the bounds is about its square.
/// Source: see context_free_survival.
/// Throws: see context_free_survival; InvalidArgument also unless cell is within [2^-20, 1].
/// Cost: time K·N per token and memory N. K <= V is the number of cells that hold ratios. N is the number of cells that hold
/// weights which later ratios can still move across 1: N <= γ·(log max r − log min r)/cell.
template <detail::ProductRule Rule, Distribution P, Distribution Q>
SurvivalBounds context_free_survival_bounds(const Rule&, const P& p, const Q& q, Index gamma,
                                            double cell = 1.0 / 64) {
  using detail::WeightWalk;
  detail::check_drafted("gamma", gamma);
  if (!(cell >= 0x1p-20 && cell <= 1)) detail::invalid_argument("cell = ", cell, " is outside [2^-20, 1]");
  constexpr bool clipped = std::same_as<Rule, BlockVerifier>;
  constexpr std::size_t any = std::numeric_limits<std::size_t>::max();
  const detail::Cells ratios = detail::ratio_cells(p, q, cell);
  WeightWalk below(clipped, WeightWalk::Kind::spread, cell, ratios);
  WeightWalk above(clipped, WeightWalk::Kind::collapsed, cell, ratios);
  SurvivalBounds out;
  for (Index i = 1; i <= gamma; ++i) {
    const double lower = below.step(gamma - i, any), upper = above.step(gamma - i, any);
    out.lower.beyond.push_back(lower * (1 - below.rounding()));
    out.upper.beyond.push_back(std::min(1.0, upper * (1 + above.rounding())));
  }
  return out;
}

}  // namespace specdec
