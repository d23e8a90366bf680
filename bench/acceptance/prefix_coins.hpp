// A wrong rule, kept to show what the laboratory makes of one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/specdec.hpp"

namespace acceptance {

/// Block verification with a mistake: the coin of the prefix of i tokens falls with probability w_i, which is
/// what block verification keeps that prefix with all in all, where the paper's h_i <= w_i belongs (Sun et al.,
/// arXiv:2403.10444, Eq. 5). It accepts more, and its text is not the target's. LOSSY.
struct PrefixCoins {
  template <specdec::Probabilities Target, specdec::Probabilities Draft, specdec::RandomSource Source>
  specdec::Verdict operator()(const Target& target, const Draft& draft,
                              std::span<const specdec::Token> tokens, Source& source) const {
    auto&& chance = specdec::as_chance(source);
    const auto p = specdec::distributions(target);
    const auto q = specdec::distributions(draft);
    std::vector<double> w{1.0};
    for (specdec::Index i = 0; i < std::ssize(tokens); ++i) {
      const specdec::Token x = tokens[static_cast<std::size_t>(i)];
      w.push_back(std::min(1.0, w.back() * p.row(i).probability(x) / q.row(i).probability(x)));
    }
    specdec::Index tau = std::ssize(tokens);
    while (tau > 0 && !chance.coin(w[static_cast<std::size_t>(tau)])) --tau;
    if (tau == std::ssize(tokens)) return {tau, chance.draw(p.row(tau))};
    const specdec::ResidualRow residual(w[static_cast<std::size_t>(tau)], p.row(tau), 1.0, q.row(tau));
    return {tau, residual.mass() > 0 ? chance.draw(residual) : chance.draw(p.row(tau))};
  }
  friend bool operator==(const PrefixCoins&, const PrefixCoins&) = default;
};

}  // namespace acceptance
