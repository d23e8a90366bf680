// Chance by address: each decision has random numbers of its own, whatever was decided before.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "specdec/chance/address.hpp"
#include "specdec/chance/chance.hpp"
#include "specdec/chance/race.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Ends a race as settle_race() does, with the numbers of one address.
template <class Pair, Distribution P, Distribution Q>
std::optional<Token> settle_race_at(const Pair& pair, double w, const P& p, const Q& q) {
  const ResidualRow<P, Q> rest(w, p, 1.0, q);
  const double lost = lost_below(w);
  const auto drawn_from = [&pair](const auto& row) {
    auto sampler = row.sampler();
    return pair.draw(sampler, row);
  };
  if (!(rest.mass() > 0)) return lost > 0 ? std::nullopt : std::optional<Token>(drawn_from(p));
  if (!pair.below(rest.mass() / (rest.mass() + lost))) return std::nullopt;
  return drawn_from(rest);
}

/// A source of chance over numbers that stand at addresses: the numbers of a seed, or all numbers, in a proof.
template <class Numbers>
class ChanceByAddress {
 public:
  constexpr explicit ChanceByAddress(Numbers numbers, std::uint64_t step = 0, std::uint32_t question = 0)
      : numbers_(std::move(numbers)), next_{step, question, 0} {}

  constexpr std::uint64_t step() const { return next_.step; }
  /// The number of the next question.
  constexpr std::uint32_t question() const { return next_.question; }

  /// A certain coin is a question, too.
  constexpr bool coin(double h) {
    const Address at = ask();
    return detail::coin(h, [&](double p) { return numbers_.at(at).below(p); });
  }

  template <Distribution R>
  constexpr Token draw(const R& row, Index /*place*/ = 0) {
    return draw_at(ask(), row);
  }

  template <Distribution P, Distribution Q>
  constexpr std::optional<Token> race(double w, const P& p, const Q& q) {
    const Address first = ask();
    if (w <= 0) return std::nullopt;  // p is not read: it may be the row after an impossible token
    return in_name_of(p, [&] { return race_at(first, w, p, q); });
  }

  template <Distribution P>
  constexpr std::optional<Token> race(double w, const P& p) {
    const Address at = ask();
    const bool won = detail::coin(w, [&](double) { return !numbers_.at(at).below(lost_below(w)); });
    return won ? std::optional<Token>(draw_at(at, p)) : std::nullopt;
  }

  friend constexpr bool operator==(const ChanceByAddress&, const ChanceByAddress&) = default;

 protected:
  constexpr const Numbers& numbers() const { return numbers_; }

 private:
  // The address of the next question.
  constexpr Address ask() {
    const Address at = next_;
    ++next_.question;
    return at;
  }

  template <class R>
  constexpr Token draw_at(const Address& at, const R& row) const {
    return in_name_of(row, [&] {
      auto sampler = row.sampler();
      return numbers_.at(at).draw(sampler, row);
    });
  }

  template <class P, class Q>
  constexpr std::optional<Token> race_at(Address at, double w, const P& p, const Q& q) const {
    auto sampler = p.sampler();
    for (const auto rounds = static_cast<std::uint32_t>(numbers_.race_rounds()); at.round < rounds;
         ++at.round) {
      const auto pair = numbers_.at(at);
      if (pair.below(lost_below(w))) return std::nullopt;
      const Token y = pair.draw(sampler, p);
      if (pair.below(won_below(w, p.probability(y), residual(w, p, 1.0, q, y)))) return y;
    }
    const auto pair = numbers_.at(at);
    if constexpr (SettlesRaces<P, Q, decltype(pair)>) return unnamed(p).settle(w, unnamed(q), pair);
    else return settle_race_at(pair, w, p, q);
  }

  Numbers numbers_;
  Address next_;
};

}  // namespace detail

/// A source of chance whose random numbers depend on seed, step, question and round only (address.hpp). A decision that is
/// certain, or a race of more rounds, changes no other number. So a verification has the same verdict whether its rows are
/// judged here or on a device, in whatever order draws are made, as far as the rows are equal.
///
///   specdec::AddressedChance chance{request.seed, request.step++};     // a new one for each verification
///   specdec::Verdict verdict = specdec::BlockVerifier{}(target, draft, tokens, chance);
///
/// SpecDec takes one, too, for drafting and judging: decoder.generate(prompt, options, chance). Its questions are then counted
/// on over the text, and seed, step and question are all that must be kept to continue the text. A Batch keeps generators: give
/// it a Philox.
///
/// Use each pair of seed and step once. A draft may be drawn with a Philox of the same seed: its numbers are others. It must not
/// be drawn with an AddressedChance of the same seed and step, unless that very object goes on to judge.
/// Throws: what the rows throw; InvalidDistribution if a coin has the probability NaN.
/// Random: the numbers of one address for a coin and for a draw, and for each round of a race.
/// Cost: ten rounds of two multiplications for a coin, a draw or a round.
class AddressedChance : public detail::ChanceByAddress<detail::SeededNumbers> {
 public:
  constexpr explicit AddressedChance(std::uint64_t seed = 0, std::uint64_t step = 0,
                                     std::uint32_t question = 0)
      : ChanceByAddress(detail::SeededNumbers(seed), step, question) {}

  constexpr std::uint64_t seed() const { return numbers().seed(); }

  friend constexpr bool operator==(const AddressedChance&, const AddressedChance&) = default;
};

}  // namespace specdec
