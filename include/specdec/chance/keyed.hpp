// Chance that belongs to a place in the text: the same numbers for whoever draws the token there.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/kernels/arrivals.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/spread_row.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/walk.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// Finds the token of a row that arrives first.
class FirstOfRow {
 public:
  explicit FirstOfRow(std::uint64_t key) : key_(key) {}

  /// Looks at a row, or at a part of one whose token 0 is the whole's `from`.
  template <Distribution R>
  void look_at(const R& row, Index from = 0) {
    walk(row, [&](const auto& ids, const auto& segment) {
      const auto& p = side_by_side(segment);
      const Index count = p.size(), first = from + ids(0);
      const bool consecutive = ids(count - 1) - ids(0) == count - 1;
      if (consecutive) look_at_stretch(p.data(), count, first);
      else look_at_list(p.data(), count, [&](Index k) { return static_cast<Token>(from + ids(k)); });
      if (first_.has_bad_row) refuse(p, ids, from);
    });
  }

  const Arrival& first() const { return first_; }
  Token token() const {
    if (first_.token < 0) throw InvalidDistribution("no token has positive probability");
    return first_.token;
  }

 private:
  template <class Scalar, class Tokens>
  void run(const Scalar* p, Index count, Tokens tokens) {
    first_ = run_wide<FirstArrival<Scalar, Tokens>>(p, count, tokens, key_, first_);
  }

  // What is left over whole lots is filled up with tokens that do not arrive.
  template <class Scalar>
  void look_at_stretch(const Scalar* p, Index count, Index first) {
    const Index whole = count / lot * lot;
    if (whole > 0) run(p, whole, ConsecutiveTokens{first});
    if (whole == count) return;
    std::array<Scalar, lot> rest{};
    std::copy(p + whole, p + count, rest.begin());
    run(static_cast<const Scalar*>(rest.data()), lot, ConsecutiveTokens{first + whole});
  }

  template <class Scalar, class IdOf>
  void look_at_list(const Scalar* p, Index count, const IdOf& id_of) {
    std::array<Token, lot> ids;
    std::array<Scalar, lot> numbers;
    for (Index start = 0; start < count; start += lot) {
      const Index n = std::min(lot, count - start);
      ids.fill(0);
      numbers.fill(0);
      std::copy_n(p + start, n, numbers.begin());
      for (Index i = 0; i < n; ++i) ids[static_cast<std::size_t>(i)] = id_of(start + i);
      run(static_cast<const Scalar*>(numbers.data()), lot, ListedTokens{ids.data()});
    }
  }

  template <class P, class IdOf>
  [[noreturn]] static void refuse(const P& p, const IdOf& ids, Index from) {
    Index k = 0;
    while (k + 1 < p.size() && is_probability(static_cast<double>(p[k]))) ++k;
    throw InvalidDistribution(message("the probability of token ", from + ids(k), " is ", p[k]));
  }

  std::uint64_t key_;
  Arrival first_;
};

/// The token that arrives first of all of a row. Throws InvalidDistribution where a number is no probability, and where
/// no token has any.
template <Distribution R>
Token first_to_arrive(const R& row, std::uint64_t key) {
  if constexpr (SpreadRow<R>) {
    const auto spread = row.spread();
    return spread.first_to_arrive([&] {
      const ColumnRange here = spread.columns();
      FirstOfRow mine(key);
      mine.look_at(part_of(row, here), here.first);
      return mine.first();
    });
  } else {
    FirstOfRow all(key);
    all.look_at(row);
    check_id(all.token(), row.vocab_size());
    return all.token();
  }
}

/// False; told of a template's argument, so that only its use is an error.
template <class>
inline constexpr bool never = false;

}  // namespace detail

/// A source of chance of which every token of a text has numbers of its own, so that whoever draws the token at a place
/// from equal rows draws the same one, and from similar rows nearly always: the target, the drafter with the target's
/// numbers, the target again.
///
///   specdec::Keyed keyed{seed};
///   decoder.generate(prompt, options, keyed);          // SpecDec of a KeyedVerifier
///
/// The draw from a row at position n is the y with the least e(seed, n, y)/row(y), the lowest of equals, where the e are
/// independent exponential numbers of mean 1. So it is y with probability row(y), and draws at different positions are
/// independent. The loop says where it stands; by hand that is stand_at(tokens of the context). Draws that follow one
/// another are then of one position after the other, and those of behind(i) all of the one i tokens further.
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

  /// The next draw is that of the token behind so many others, the prompt's included.
  void stand_at(Index position) { position_ = position; }
  Index position() const { return position_; }

  /// A source whose draws are all for the token that has `depth` more before it than the next one has.
  Keyed behind(Index depth) const {
    Keyed there(seed_, position_ + depth);
    there.moves_ = false;
    return there;
  }

  template <Distribution R>
  Token draw(const R& row) {
    const Token token = draw_here(row);
    if (moves_) ++position_;
    return token;
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

  template <Distribution R>
  Token draw_here(const R& row) const {
    if constexpr (requires { row.named([] { return Token{}; }); })
      return row.named([&] { return detail::first_to_arrive(row, key()); });
    else return detail::first_to_arrive(row, key());
  }

  std::uint64_t key() const {
    return SplitMix64(SplitMix64(seed_)() + static_cast<std::uint64_t>(position_))();
  }

  std::uint64_t seed_;
  Index position_;
  bool moves_ = true;
};

/// A source of chance whose numbers belong to places.
template <class C>
concept KeyedSource = std::derived_from<std::remove_cvref_t<C>, Keyed>;

namespace detail {

/// Tells a source whose numbers belong to places that so many tokens are before the next one.
template <class C>
void stand_at(C& chance, Index position) {
  if constexpr (KeyedSource<C>) chance.stand_at(position);
}

/// The source for all that is drawn behind so many drafted tokens.
template <class C>
decltype(auto) behind(C& chance, Index depth) {
  if constexpr (KeyedSource<C>) return chance.behind(depth);
  else return static_cast<C&>(chance);
}

}  // namespace detail
}  // namespace specdec
