// A wrong rule, kept to show how the checks report one.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/specdec.hpp"

namespace acceptance {

/// Block verification with a mistake. LOSSY. The coin for the prefix of i tokens has probability w_i, where the paper has
/// h_i <= w_i (Sun et al., arXiv:2403.10444, Eq. 5). w_i is the probability that block verification keeps this prefix in the
/// end. The wrong rule accepts more, but its text does not have the target's law.
struct PrefixCoins {
  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    std::vector<double> w{1.0};
    for (specdec::Index i = 0; i < drafted.gamma(); ++i)
      w.push_back(std::min(1.0, w.back() * drafted.ratio(i)));
    specdec::Index tau = drafted.gamma();
    while (tau > 0 && !chance.coin(w[static_cast<std::size_t>(tau)])) --tau;
    if (tau == drafted.gamma()) return {tau, drafted.draw(chance, tau)};
    const auto p = drafted.target(tau);
    const specdec::ResidualRow residual(w[static_cast<std::size_t>(tau)], p, 1.0, drafted.draft(tau));
    return {tau, residual.mass() > 0 ? chance.draw(residual) : chance.draw(p)};
  }
  friend bool operator==(const PrefixCoins&, const PrefixCoins&) = default;
};

}  // namespace acceptance
