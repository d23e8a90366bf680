// The race: residual rejection sampling without computing the residual.
//
// A rule needs the residual (w·p − q)+, with its mass S, for two things: to flip a coin with h = S/(S + 1 − w), and to draw
// Y ∝ (w·p − q)+. A race does both without any sum:
//
//     repeat:  with probability 1 − w (never if w >= 1): lost
//              y ~ p;  with probability (w·p(y) − q(y))+ / (w·p(y)): won by y
//
// A round is won by y with probability (w·p(y) − q(y))+, is lost with probability 1 − w, and is repeated otherwise. So the
// race is won with probability S/(S + 1 − w) = h, and the winner has the distribution of the residual.
//
// Cost: 1/(S + 1 − w) rounds for w <= 1. Block verification reaches a position, given its prefix, with exactly the
// probability S + 1 − w. So each position costs one round in expectation, for any pair of models.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "specdec/chance/address.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/residual.hpp"

namespace specdec::inline v0_2_0 {

namespace detail {

/// Ends a race by summing the residual: it is won with probability S/(S + 1 − w), and the winner is drawn ∝ (w·p − q)+.
/// If w >= 1 and no residual mass is left (p = q up to rounding), the winner is drawn from p.
template <class Chance, Distribution P, Distribution Q>
std::optional<Token> settle_race(Chance& chance, double w, const P& p, const Q& q) {
  const ResidualRow<P, Q> rest(w, p, 1.0, q);
  const double lost = std::max(1 - w, 0.0);
  if (rest.mass() > 0) {
    if (!chance.coin(rest.mass() / (rest.mass() + lost))) return std::nullopt;
    return chance.draw(rest);
  }
  if (lost > 0) return std::nullopt;
  return chance.draw(p);
}

}  // namespace detail

/// Runs the race of weight w between target row p and draft row q. Returns the winner; empty if the race is lost.
///
/// Pre: `chance` has coin(h), draw(row) and draw_again(sampler, row). The last one draws with a kept sampler, so that all
/// rounds share the sums that the sampler has read.
/// Random: a round takes one coin if 0 < w < 1, one draw, and one coin unless the outcome is certain.
/// Cost: a look-up in each row and a lazy draw per round; no pass over a row in the first `rounds` rounds.
template <class Chance, Distribution P, Distribution Q>
std::optional<Token> run_race(Chance& chance, double w, const P& p, const Q& q,
                              int rounds = max_race_rounds) {
  if (w <= 0) return std::nullopt;  // p is not read: it may be the row after an impossible token
  auto sampler = p.sampler();
  for (int round = 0; round < rounds; ++round) {
    if (!chance.coin(w)) return std::nullopt;
    const Token y = chance.draw_again(sampler, p);
    const double weight = std::max(w * p.probability(y), std::numeric_limits<double>::min());  // no 0/0
    if (chance.coin(residual(w, p, 1.0, q, y) / weight)) return y;
  }
  return detail::settle_race(chance, w, p, q);
}

}  // namespace specdec
