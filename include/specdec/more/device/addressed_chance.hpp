// Chance by address: each decision has random numbers of its own, whatever was decided before.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/race.hpp"
#include "specdec/chance/race_rounds.hpp"
#include "specdec/more/device/address.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A round of a race with the two numbers of one address: see lost_below() and won_below().
template <class Pair>
struct AddressedRound {
  Pair pair;

  constexpr bool coin(double h) const { return pair.below(h); }
  constexpr bool lost(double w) const { return pair.below(lost_below(w)); }
  constexpr bool won(double w, double p, double residual) const {
    return pair.below(won_below(w, p, residual));
  }
  constexpr Token draw(const auto& row) const {
    auto sampler = row.sampler();
    return pair.draw(sampler, row);
  }
  constexpr Token draw_again(auto& sampler, const auto& row) const { return pair.draw(sampler, row); }
  /// For a row that ends races by sums in an order of its own.
  template <class P, class Q>
    requires SettlesRaces<P, Q, Pair>
  constexpr auto settle(double w, const P& p, const Q& q) const {
    return unnamed(p).settle(w, unnamed(q), pair);
  }
};
template <class Pair>
AddressedRound(Pair) -> AddressedRound<Pair>;

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
    const auto round_of = [&](int n) {
      return AddressedRound{numbers_.at({first.step, first.question, static_cast<std::uint32_t>(n)})};
    };
    return in_name_of(p, [&] { return race_by_rounds(numbers_.race_rounds(), round_of, w, p, q); });
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
    return in_name_of(row, [&] { return AddressedRound{numbers_.at(at)}.draw(row); });
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
