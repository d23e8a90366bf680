// Families of synthetic rows: pairs of a target and a draft distribution. A knob sets how far apart they are.
//
// For each context, a family makes a target row and a direction from a generator of that context. The draft row is a
// function of target row, direction and knob. At knob 0 the draft row is the target row; `most` is the end of the knob.
// Constants of a family (exponents, shapes) are members. To add a family, write such a class and add it to `families`, at
// the end of this file.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <concepts>
#include <functional>
#include <string_view>
#include <tuple>
#include <vector>

#include "acceptance/dial.hpp"
#include "acceptance/random_numbers.hpp"

namespace acceptance {

/// Weights of the tokens, or the direction of a family.
using Row = Eigen::ArrayXd;

/// A family. Its rows have one number per token. Weights need not sum to 1.
template <class F>
concept Family = requires(const F& family, SplitMix64& generator, const Row& row, double knob, Row& out) {
  { family.name } -> std::convertible_to<std::string_view>;
  { family.most } -> std::convertible_to<double>;
  family.target(generator, out);
  family.direction(generator, out);
  family.draft(row, row, knob, out);
};

/// Rows like those of a language model: a power law over the ranks, with noise. In every context the ranks begin at a random
/// token. The drafter's logits are the target's, plus normal noise of standard deviation `knob`. So on every token,
/// independently, the drafter is wrong by a log-normal factor.
struct Zipf {
  std::string_view name = "zipf";
  double exponent = 1.6;  ///< of the power law
  double spread = 0.7;    ///< standard deviation of the logits around it
  double most = 30;

  void target(SplitMix64& generator, Row& out) const {
    const Index size = out.size(), first = below(generator, size);
    for (Index rank = 0; rank < size; ++rank)
      out[(first + rank) % size] =
          std::exp(spread * normal(generator) - exponent * std::log(static_cast<double>(rank + 1)));
  }
  void direction(SplitMix64& generator, Row& out) const {
    for (double& x : out) x = normal(generator);
  }
  void draft(const Row& target, const Row& direction, double knob, Row& out) const {
    out.resize(target.size());
    for (Index x = 0; x < target.size(); ++x) out[x] = target[x] * std::exp(knob * direction[x]);
  }
};

/// (1 − m)·a + m·b for normalised rows.
inline void mix(const Row& a, const Row& b, double m, Row& out) {
  out = (1 - m) / total(a) * a + m / total(b) * b;
}

/// Dirichlet rows: uniform over all distributions at shape 1, and sparse below 1. The drafter is the target, mixed with a
/// share `knob` of another Dirichlet row. It knows a part of the target's row and invents the rest.
struct Dirichlet {
  std::string_view name = "dirichlet";
  double shape = 0.1;
  double most = 1;

  void target(SplitMix64& generator, Row& out) const {
    for (double& x : out) x = gamma(generator, shape);
    if (!(total(out) > 0)) out[0] = 1;  // all weights underflowed: one token gets all
  }
  void direction(SplitMix64& generator, Row& out) const { target(generator, out); }
  void draft(const Row& target, const Row& direction, double knob, Row& out) const {
    mix(target, direction, knob, out);
  }
};

/// A row raised to a power. Weights are relative to the largest one, so that they do not underflow.
inline void raise(const Row& row, double power, Row& out) {
  const double largest = row.maxCoeff();
  out.resize(row.size());
  for (Index x = 0; x < row.size(); ++x) out[x] = std::pow(row[x] / largest, power);
}

/// A drafter that is right but too confident: the target at temperature 1 − knob.
struct Sharpened : Zipf {
  Sharpened() { name = "sharpened", most = 0.99; }
  void draft(const Row& target, const Row&, double knob, Row& out) const {
    raise(target, 1 / (1 - knob), out);
  }
};

/// A drafter that is right but not confident enough: the target at temperature 1/(1 − knob).
struct Flattened : Zipf {
  Flattened() { name = "flattened", most = 1; }
  void draft(const Row& target, const Row&, double knob, Row& out) const { raise(target, 1 - knob, out); }
};

/// Zipf rows with top-k sampling: target and drafter each keep their own `kept` likeliest tokens. A token that one keeps
/// may be cut by the other.
struct Truncated : Zipf {
  Index kept = 20;
  Truncated() { name = "truncated"; }
  void finish(Row& row) const {
    if (kept >= row.size()) return;
    std::vector<double> weights(row.begin(), row.end());
    std::nth_element(weights.begin(), weights.begin() + kept - 1, weights.end(), std::greater<>());
    row = (row >= weights[static_cast<std::size_t>(kept) - 1]).select(row, 0.0);
  }
};

/// Partly disjoint supports: the target has every second token only, and the drafter spends a share `knob` of its mass on
/// the others. The acceptance rate is 1 − knob in every context. A refused token always has p = 0.
struct Disjoint : Zipf {
  Disjoint() { name = "disjoint", most = 1; }
  void target(SplitMix64& generator, Row& out) const { half(generator, 0, out); }
  void direction(SplitMix64& generator, Row& out) const { half(generator, 1, out); }
  void draft(const Row& target, const Row& direction, double knob, Row& out) const {
    mix(target, direction, knob, out);
  }

 private:
  void half(SplitMix64& generator, Index side, Row& out) const {
    Zipf::target(generator, out);
    for (Index x = 0; x < out.size(); ++x)
      if (x % 2 != side && out.size() > 1) out[x] = 0;
  }
};

/// The toy models of Sun et al., arXiv:2403.10444, Section 2, and similar ones: the same rows in every context. Over the
/// ids, the target's weights rise in a straight line and the drafter's fall. With two tokens,
/// p = ((1 − knob)/2, (1 + knob)/2), and q is p reversed. Knob 1/3 (acceptance rate 2/3) is the paper's example.
struct Toy {
  std::string_view name = "toy";
  double most = 1;
  static constexpr bool context_free = true;

  void target(SplitMix64&, Row& out) const { out.setOnes(); }
  void direction(SplitMix64&, Row& out) const {
    for (Index x = 0; x < out.size(); ++x) out[x] = slope(x, out.size());
  }
  // Here the knob changes both rows.
  void finish_target(const Row& direction, double knob, Row& out) const { out = 1 + knob * direction; }
  void draft(const Row&, const Row& direction, double knob, Row& out) const { out = 1 - knob * direction; }

 private:
  static double slope(Index x, Index size) {
    return size == 1 ? 0 : 2 * static_cast<double>(x) / static_cast<double>(size - 1) - 1;
  }
};

/// All families; the first is the default.
inline const std::tuple families{Zipf{},      Dirichlet{}, Sharpened{}, Flattened{},
                                 Truncated{}, Disjoint{},  Toy{}};

/// Calls f with the family of this name. Returns false if there is none.
template <class F>
bool with_family(std::string_view name, F&& f) {
  const auto call = [&](const Family auto& family) { return family.name == name && (f(family), true); };
  return std::apply([&](const auto&... family) { return (call(family) || ...); }, families);
}

}  // namespace acceptance
