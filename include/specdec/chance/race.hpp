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
// Cost: 1/(S + 1 − w) rounds for w <= 1. Block verification reaches a position, given its prefix, with exactly the
// probability S + 1 − w. So each position costs one round in expectation, for any pair of models.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "specdec/chance/race_rounds.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/residual.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The race of weight w, by the random numbers of its rounds: round_of(n) answers lost(w), and won(w, p, r) for a token with
/// r = (w·p − q)+; it has coin(h), draw(row), and draw_again(sampler, row) with a sampler that all rounds share.
/// After `most` rounds it sums the residual: the race is then won with probability S/(S + 1 − w), and the winner is drawn ∝
/// (w·p − q)+. If w >= 1 and no residual mass is left (p = q up to rounding), the winner is drawn from p.
template <class RoundOf, Distribution P, Distribution Q>
constexpr std::optional<Token> race_by_rounds(int most, const RoundOf& round_of, double w, const P& p,
                                              const Q& q) {
  auto sampler = p.sampler();
  for (int n = 0; n < most; ++n) {
    auto round = round_of(n);
    if (round.lost(w)) return std::nullopt;
    const Token y = round.draw_again(sampler, p);
    if (round.won(w, p.probability(y), residual(w, p, 1.0, q, y))) return y;
  }
  auto end = round_of(most);
  if constexpr (requires { end.settle(w, p, q); }) {
    return end.settle(w, p, q);
  } else {
    const ResidualRow<P, Q> rest(w, p, 1.0, q);
    const double lost = lost_below(w);
    if (!(rest.mass() > 0)) return lost > 0 ? std::nullopt : std::optional<Token>(end.draw(p));
    if (!end.coin(rest.mass() / (rest.mass() + lost))) return std::nullopt;
    return end.draw(rest);
  }
}

/// Rounds by coins and draws of a source of chance.
template <class Chance>
struct RoundOfCoins {
  Chance& chance;

  bool coin(double h) const { return chance.coin(h); }
  bool lost(double w) const { return !chance.coin(w); }
  bool won(double w, double p, double residual) const {
    return chance.coin(residual / std::max(w * p, std::numeric_limits<double>::min()));  // no 0/0
  }
  Token draw(const auto& row) const { return chance.draw(row); }
  Token draw_again(auto& sampler, const auto& row) const { return chance.draw_again(sampler, row); }
};

}  // namespace detail

/// Runs the race of weight w between target row p and draft row q. Returns the winner; empty if the race is lost.
/// Pre: `chance` has coin(h), draw(row) and draw_again(sampler, row). The last draws by a kept sampler, whose sums rounds share.
/// Random: a round takes one coin if 0 < w < 1, one draw, and one coin unless the outcome is certain.
/// Cost: a look-up in each row and a lazy draw per round; no pass over a row in the first `rounds` rounds.
template <class Chance, Distribution P, Distribution Q>
std::optional<Token> run_race(Chance& chance, double w, const P& p, const Q& q,
                              int rounds = max_race_rounds) {
  if (w <= 0) return std::nullopt;  // p is not read: it may be the row after an impossible token
  const auto round_of = [&chance](int) { return detail::RoundOfCoins<Chance>{chance}; };
  return detail::race_by_rounds(rounds, round_of, w, p, q);
}

}  // namespace specdec
