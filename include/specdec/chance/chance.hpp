// Chance: the source of randomness of verifiers, drafters and the loop.
//
// A rule computes probabilities; a source of chance makes every random decision. Normally the source wraps a random bit
// generator, which costs nothing. In a proof the source is testing::Enumerator: it takes every branch in turn, with its
// exact probability. So the proof runs the rule's own code over all outcomes.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <type_traits>

#include "specdec/chance/race.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A source of chance:
///
///   coin(h)          true with probability h (surely for h >= 1, never for h <= 0)
///   draw(row)        a token from a Distribution
///   draw(row, place) a token for the position that is `place` tokens after the next one. Keyed sources use the random
///                    numbers of that position. All other sources ignore `place`, and declare draw(row, place = 0)
///   race(w, p, q)    see race.hpp: a token ∝ (w·p − q)+ with probability S/(S + 1 − w), else empty
///   race(w, p)       the race against q = 0: a token from p with probability min(1, w), else empty
///
/// RandomChance draws from a generator. Keyed (chance/keyed.hpp) is for rules that only draw. A keyed source may have a
/// stand_at(position): the loop calls it with the number of tokens before the next one.
template <class C>
concept Chance = requires(C& chance, double h, const OneHotRow& row, Index place) {
  { chance.coin(h) } -> std::same_as<bool>;
  { chance.draw(row) } -> std::same_as<Token>;
  { chance.draw(row, place) } -> std::same_as<Token>;
  { chance.race(h, row, row) } -> std::same_as<std::optional<Token>>;
  { chance.race(h, row) } -> std::same_as<std::optional<Token>>;
};

class Keyed;

/// Whether a source of chance is keyed: its random numbers belong to positions (chance/keyed.hpp).
template <class C>
inline constexpr bool is_keyed = std::derived_from<std::remove_cvref_t<C>, Keyed>;

/// The random argument of a verifier, a drafter of the library or the loop: a generator or a source of chance.
template <class R>
concept RandomSource = RandomBitGenerator<R> || Chance<R>;

namespace detail {

/// A certain coin takes no random number. A NaN probability is an error, not a "no".
template <class Flip>
bool coin(double h, Flip&& flip) {
  if (h >= 1) return true;
  if (h <= 0) return false;
  if (std::isnan(h)) invalid_distribution("specdec: a coin has probability nan");
  return flip(h);
}

/// Tells a keyed source how many tokens are before the next one; other sources ignore the call.
template <class C>
void stand_at(C& chance, Index position) {
  if constexpr (requires { chance.stand_at(position); }) chance.stand_at(position);
}

/// Whether an argument, whose forwarding reference has type `Source`, can give random numbers: a variable, and a RandomSource.
template <class Source>
concept DrawnFrom = std::is_lvalue_reference_v<Source> && RandomSource<std::remove_reference_t<Source>>;

/// Whether random numbers can be drawn from the argument. If not, a compile error that says why, and no other under this condition.
template <class Source>
consteval bool fits_source() {
  using S = std::remove_cvref_t<Source>;
  constexpr bool number = std::is_arithmetic_v<S>, source = RandomSource<S>,
                 missing = std::same_as<S, MissingGenerator>;
  static_assert(
      !missing,
      "the generator is missing: pass one after the other arguments, such as std::mt19937_64 rng{seed}");
  static_assert(!number,
                "a number is no source of random numbers (specdec::RandomSource): pass a generator that has "
                "it as its seed, such as std::mt19937_64 rng{seed}");
  static_assert(source || number || missing,
                "the argument for random numbers is no specdec::RandomSource: pass a random bit generator, "
                "such as a std::mt19937_64, or a source of chance");
  static_assert(!source || DrawnFrom<Source>,
                "the generator is a temporary or const: pass a variable, which goes on where it stopped");
  return DrawnFrom<Source>;
}

}  // namespace detail

/// Chance from a random bit generator, which must outlive it.
/// Random: coin and draw take one uniform01 each; a certain coin takes none. A draw from the residual of rejected siblings
/// takes as many as it needs. A race: see run_race.
template <RandomBitGenerator Generator>
class RandomChance {
 public:
  explicit RandomChance(Generator& generator) : generator_(&generator) {}

  bool coin(double h) {
    return detail::coin(h, [this](double p) { return uniform01(*generator_) < p; });
  }

  template <Distribution R>
  Token draw(const R& row, Index /*place*/ = 0) {
    return detail::in_name_of(row, [&] {
      auto sampler = row.sampler();
      return draw_again(sampler, row);
    });
  }

  /// Draws with a sampler of the row. A sampler with draw(uniform) may take several random numbers, to read less of the row.
  template <class S, Distribution R>
  Token draw_again(S& sampler, const R&) {
    const auto uniform = [this] { return uniform01(*generator_); };
    if constexpr (detail::DrawsWithSeveral<S, decltype(uniform)>) return sampler.draw(uniform);
    else return sampler(uniform());
  }

  template <Distribution P, Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    return detail::in_name_of(p, [&] { return run_race(*this, w, p, q); });
  }

  template <Distribution P>
  std::optional<Token> race(double w, const P& p) {
    return detail::in_name_of(p, [&] { return coin(w) ? std::optional<Token>(draw(p)) : std::nullopt; });
  }

 private:
  Generator* generator_;
};

/// A source of chance: the argument itself if it is one, else a RandomChance around the generator.
template <RandomSource R>
decltype(auto) as_chance(R& source) {
  if constexpr (RandomBitGenerator<R>) return RandomChance<R>(source);
  else return static_cast<R&>(source);
}

}  // namespace specdec
