// A wrong rule, kept to show what the laboratory makes of one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/specdec.hpp"

namespace acceptance {

/// Block verification with a mistake: the coin of the prefix of i tokens falls with probability w_i, which is
/// what block verification keeps that prefix with all in all, where the paper's h_i <= w_i belongs (Sun et al.,
/// arXiv:2403.10444, Eq. 5). It accepts more, and its text is not the target's. LOSSY.
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
