// Mistakes of rules that judge several drafted lines.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <specdec/specdec.hpp>
#include <vector>

#include "mistakes/rows.hpp"
#include "paths/multi_path.hpp"
#include "paths/selected_row.hpp"
#include "paths/several_lines.hpp"

namespace mistakes {

// Selects the first drawn of tokens with equal ratios. The law of the selected token is summed up by ids.
struct TiesByDraw {
  bool operator()(const paths::Rated& x, const paths::Rated& y) const { return x.ratio < y.ratio; }
};

// A ratio is a probability of acceptance, so it is cut to 1 before it is compared. The sums use the whole ratio.
struct ClippedRatios {
  bool operator()(const paths::Rated& x, const paths::Rated& y) const {
    return std::min(1.0, x.ratio) < std::min(1.0, y.ratio);
  }
};

template <class Walk>
using SelectedBy = paths::MultiPath<specdec::BlockVerifier, true, Walk>;

// Each of K siblings from one row takes the share r = min(1, q/p) of what its elders have left of p, which is p·(1 − r)^k after k of
// them. After the rejection of all, Y is drawn from p·(1 − r^K). With one sibling this is token verification.
struct ResidualOfPowers {
  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    for (Index node = 0;;) {
      const std::vector<Index> siblings = paths::children(drafted, node);
      if (siblings.empty()) return {node, drafted.draw(chance, node)};
      std::size_t elders = 0;
      while (elders < siblings.size() && !chance.coin(accepts(drafted, siblings[elders], elders))) ++elders;
      if (elders == siblings.size()) return {node, replacement(drafted, chance, node, siblings)};
      node = siblings[elders] + 1;
    }
  }

 private:
  static double share(double p, double q) { return p > q ? q / p : 1; }
  static double accepts(const auto& drafted, Index k, std::size_t elders) {
    const double left = std::pow(1 - share(drafted.p(k), drafted.q(k)), static_cast<double>(elders));
    return std::min(1.0, drafted.ratio(k)) * left;
  }
  static Token replacement(const auto& drafted, auto& chance, Index node,
                           const std::vector<Index>& siblings) {
    Row residual(drafted.vocab_size());
    for (Token x = 0; x < residual.size(); ++x) {
      const double p = drafted.p(node, x), r = share(p, drafted.q(siblings[0], x));
      residual[x] = p * (1 - std::pow(r, static_cast<double>(siblings.size())));
    }
    if (!(residual.sum() > 0)) return drafted.draw(chance, node);
    return draw_by(chance)(residual / residual.sum());
  }
};

}  // namespace mistakes
