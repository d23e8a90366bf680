// Chance that belongs to a place in the text: target and drafter draw the token there by equal numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "specdec/chance/random.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/first_arrival.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// False; told of a template's argument, so that only its use is an error.
template <class>
inline constexpr bool never = false;

}  // namespace detail

/// A source of chance of which every token of a text has numbers of its own. Target and drafter, who draw the token at a
/// place by equal numbers, draw one token from equal rows, and nearly always from similar ones.
///
///   specdec::Keyed keyed{seed};
///   decoder.generate(prompt, options, keyed);          // SpecDec of a KeyedVerifier
///
/// The draw from a row at position n is the y with the least e(seed, n, y)/row(y), the lowest of equals, where the e are
/// independent exponential numbers of mean 1. So it is y with probability row(y), and draws at different positions are
/// independent. The loop says where it stands; by hand that is stand_at(tokens of the context). draw(row, i) is then of the
/// position i tokens further, whenever it is asked for; draws without a place are of one position after the other.
///
/// One seed serves one text. Two texts of one seed and one prompt are the same text, which is what it is for; texts of
/// other prompts have their numbers in common, and are not independent.
/// There is no coin and no race: a rule of ratios decides by numbers that the draft does not depend on, so it would bias
/// the text with these. That it does not compile is the point.
///
/// Source: Gumbel-max coupling, Daliri, Musco and Suresh, arXiv:2408.07978; as a race of exponential numbers there and in
/// arXiv:2506.05632.
/// Throws InvalidDistribution where a probability of the row is negative or not finite, and where no token has any; it has
/// then not moved.
/// Random: e(seed, n, y) = −log(1 − (b + ½)/2^64) with b number y (from 0) of a SplitMix64 seeded with the first number of
/// a SplitMix64 seeded with n + the first number of SplitMix64(seed), n added modulo 2^64.
/// Cost: a look at all of the row: of a list at what it lists; a hash for each token, and a logarithm for few. Of a row
/// that is spread over ranks each looks at its own columns: one exchange of two numbers. No allocation.
/// Numeric: e to 2^−50 of itself, so that a token has its probability to 1e-15, as far as the row's numbers tell it. The
/// same to the bit on all processors.
class Keyed {
 public:
  explicit Keyed(std::uint64_t seed, Index position = 0) : seed_(seed), position_(position) {}

  /// The next draw is that of the token after so many others, the prompt's included.
  void stand_at(Index position) { position_ = position; }
  Index position() const { return position_; }

  /// Of where it stands; it then moves on by a token.
  template <Distribution R>
  Token draw(const R& row) {
    const Token token = draw(row, 0);
    ++position_;
    return token;
  }
  /// Of the place that has `place` tokens more before it.
  template <Distribution R>
  Token draw(const R& row, Index place) const {
    if constexpr (requires { row.named([] { return Token{}; }); })
      return row.named([&] { return detail::first_to_arrive(row, key(place)); });
    else return detail::first_to_arrive(row, key(place));
  }

  template <class W>
  bool coin(W) {
    refuse<W>();
    return false;
  }
  template <class W, class... Rows>
  std::optional<Token> race(W, const Rows&...) {
    refuse<W>();
    return {};
  }

 private:
  template <class T>
  static void refuse() {
    static_assert(detail::never<T>,
                  "the numbers of a specdec::Keyed are those that the draft was drawn by: a rule of ratios "
                  "would bias the text with them: use KeyedVerifier");
  }

  std::uint64_t key(Index place) const {
    return SplitMix64(SplitMix64(seed_)() + static_cast<std::uint64_t>(position_ + place))();
  }

  std::uint64_t seed_;
  Index position_;
};

/// Whether a source of chance is one whose numbers belong to places.
template <class C>
inline constexpr bool is_keyed = std::derived_from<std::remove_cvref_t<C>, Keyed>;

}  // namespace specdec
