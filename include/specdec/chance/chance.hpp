// Chance: everything random that a verifier, a drafter or the loop may do, behind four calls.
//
// What a rule computes is arithmetic; what it leaves to chance goes through here. Normally chance is a random
// bit generator and inlines to nothing. In a proof it is testing::Enumerator, which takes every branch in
// turn with its exact probability, so that the shipped templates themselves are run over all their outcomes.
#pragma once

#include <cmath>
#include <concepts>
#include <optional>

#include "specdec/chance/race.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A source of chance:
///
///   coin(h)          true with probability h (surely for h >= 1, never for h <= 0)
///   draw(row)        a token from a Distribution
///   draw(row, place) such a token, to stand in the text after so many others that are yet to come: for sources whose
///                    numbers belong to places. The others ignore the place, and write draw(row, place = 0)
///   race(w, p, q)    see race.hpp: a token ∝ (w·p − q)+ with probability S/(S + 1 − w), else empty
///   race(w, p)       the race against q = 0: a token from p with probability min(1, w), else empty
///
/// RandomChance is one over a generator; Keyed (chance/keyed.hpp) one for rules that draw and do nothing else. One whose
/// numbers belong to places may have a stand_at(position), by which a loop says how many tokens are before the next one.
template <class C>
concept Chance = requires(C& chance, double h, const OneHotRow& row, Index place) {
  { chance.coin(h) } -> std::same_as<bool>;
  { chance.draw(row) } -> std::same_as<Token>;
  { chance.draw(row, place) } -> std::same_as<Token>;
  { chance.race(h, row, row) } -> std::same_as<std::optional<Token>>;
  { chance.race(h, row) } -> std::same_as<std::optional<Token>>;
};

namespace detail {

/// A certain coin costs no randomness; a coin that is not a number is an error, not a "no".
template <class Flip>
bool coin(double h, Flip&& flip) {
  if (h >= 1) return true;
  if (h <= 0) return false;
  if (std::isnan(h)) throw InvalidDistribution("specdec: a coin has probability nan");
  return flip(h);
}

/// Tells a source whose numbers belong to places how many tokens are before the next one.
template <class C>
void stand_at(C& chance, Index position) {
  if constexpr (requires { chance.stand_at(position); }) chance.stand_at(position);
}

}  // namespace detail

/// Chance from a random bit generator, which must outlive it.
///
/// Random: coin and draw take one uniform01 each (a certain coin none; a draw from what rejected siblings leave of a row
/// as many as it takes); a race as run_race says.
template <RandomBitGenerator Generator>
class RandomChance {
 public:
  explicit RandomChance(Generator& generator) : generator_(&generator) {}

  bool coin(double h) {
    return detail::coin(h, [this](double p) { return uniform01(*generator_) < p; });
  }

  template <Distribution R>
  Token draw(const R& row, Index /*place*/ = 0) {
    auto sampler = row.sampler();
    return draw_again(sampler, row);
  }

  /// A sampler that can do with several numbers what takes more reading with one has a draw(uniform).
  template <class S, Distribution R>
  Token draw_again(S& sampler, const R&) {
    const auto uniform = [this] { return uniform01(*generator_); };
    if constexpr (requires { sampler.draw(uniform); }) return sampler.draw(uniform);
    else return sampler(uniform());
  }

  template <Distribution P, Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    return run_race(*this, w, p, q);
  }

  template <Distribution P>
  std::optional<Token> race(double w, const P& p) {
    if (!coin(w)) return std::nullopt;
    return draw(p);
  }

 private:
  Generator* generator_;
};

/// What the last argument of a verifier, a drafter of the library or the loop may be.
template <class R>
concept RandomSource = RandomBitGenerator<R> || Chance<R>;

/// The source as chance: a source of chance is passed through, a generator is wrapped.
template <RandomSource R>
decltype(auto) as_chance(R& source) {
  if constexpr (RandomBitGenerator<R>) return RandomChance<R>(source);
  else return static_cast<R&>(source);
}

}  // namespace specdec
