// Random numbers that stand at addresses. Includes no Eigen, allocates nothing, and may be used in a constant expression: code
// for a GPU calls it, too.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "specdec/chance/philox.hpp"
#include "specdec/chance/race_rounds.hpp"

namespace specdec::inline v0_2_0 {

/// Where the random numbers of a decision stand. A rule asks questions: a coin, a draw or a race. They are counted from 0 on
/// in each step. A race has rounds; a coin and a draw have only round 0.
struct Address {
  std::uint64_t step = 0;
  std::uint32_t question = 0;
  std::uint32_t round = 0;

  friend constexpr bool operator==(const Address&, const Address&) = default;
};

/// The two numbers of an address. They are independent and uniform on [0, 1), and multiples of 2^-53.
struct AddressedNumbers {
  double draw;  ///< draws a token
  double coin;  ///< decides a coin, and whether a round of a race is won, lost or repeated

  friend constexpr bool operator==(const AddressedNumbers&, const AddressedNumbers&) = default;
};

/// The numbers of an address under a seed.
/// Source: Philox4x32-10. The counter is (step, question, round), the key is the seed with the bits of 2^64·π turned over: so the
/// numbers of a Philox of an equal seed are others, and may draw the draft. Words 0 and 1 of the block give `draw`, words 2 and
/// 3 `coin`, each from the low word on, shifted to 53 bits.
constexpr AddressedNumbers numbers_at(std::uint64_t seed, const Address& at) {
  constexpr std::uint32_t low_of_pi = 0x85a308d3, high_of_pi = 0x243f6a88;
  const auto low = [](std::uint64_t n) { return static_cast<std::uint32_t>(n); };
  const Philox::Block words = Philox::block({low(at.step), low(at.step >> 32), at.question, at.round},
                                            {low(seed) ^ low_of_pi, low(seed >> 32) ^ high_of_pi});
  const auto uniform = [](std::uint64_t first, std::uint64_t second) {
    return static_cast<double>((first | second << 32) >> 11) * 0x1p-53;
  };
  return {uniform(words[0], words[1]), uniform(words[2], words[3])};
}

namespace detail {

/// The numbers of a seed, for sources of chance by address.
class SeededNumbers {
 public:
  /// The numbers of one address.
  struct Pair {
    AddressedNumbers numbers;

    constexpr bool below(double limit) const { return numbers.coin < limit; }
    template <class Sampler, class R>
    constexpr auto draw(Sampler&& sampler, const R&) const {
      return sampler(numbers.draw);
    }
  };

  constexpr explicit SeededNumbers(std::uint64_t seed) : seed_(seed) {}

  constexpr std::uint64_t seed() const { return seed_; }
  constexpr Pair at(const Address& address) const { return {numbers_at(seed_, address)}; }
  /// After so many rounds a race sums the residual.
  static constexpr int race_rounds() { return max_race_rounds; }

  friend constexpr bool operator==(const SeededNumbers&, const SeededNumbers&) = default;

 private:
  std::uint64_t seed_;
};

}  // namespace detail
}  // namespace specdec
