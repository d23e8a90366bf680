// Finds the cut of rows of logits that are spread over ranks: the largest c so that the tokens with logit >= c, on all ranks
// together, reach a given weight.
//
// All rows are searched together: a round is one exchange. In a round, sixteen pivots divide the range of each row's cut.
// Each rank tells the weight of its tokens from each pivot on. The cut then lies between two neighbouring pivots. A rank
// with at most sixteen tokens left in the range tells their logits instead. The search ends when all ranks tell logits:
// usually after two to four rounds. It always ends, since later pivots divide the range of the numbers' ordered bits.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/exchange.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The weight of a token with logit l: 1, or its probability exp(l/T − log Σ exp(l/T)).
struct RankTokenWeight {
  bool counts;
  double inverse_temperature = 1, log_sum_exp = 0;

  double operator()(double l) const { return counts ? 1.0 : std::exp(l * inverse_temperature - log_sum_exp); }
};

/// The search in one row. The logits are Scalars, stored as doubles.
template <class Scalar>
class RankCut {
  using Key = OrderedKey<Scalar>;
  using Distance = std::make_unsigned_t<Key>;

 public:
  /// A rank tells 18 numbers in a round: how many logits it lists (−1: none), the weight of its tokens above the range, and
  /// the weights from each pivot on, or the listed logits.
  static constexpr std::size_t pivots = 16, numbers = pivots + 2;

  /// Begins a search for the cut in [low, high]. put() then adds this rank's logits in the range, put_above() its weight
  /// above the range.
  /// Pre: over all ranks, the weight from low on reaches the target, if any cut does; the weight above high does not.
  void begin(Scalar low, Scalar high, double target, const RankTokenWeight& weight) {
    low_ = ordered_key(low);
    high_ = ordered_key(high);
    target_ = target;
    weight_ = weight;
    above_ = 0;
    near_.clear();
    round_ = 0;
  }
  /// Makes room for the final lists of all ranks. put() may need more.
  void make_room(Index ranks) { detail::reserve(near_, ranks * Index{pivots}); }
  void put(Scalar logit) { near_.push_back(static_cast<double>(logit)); }
  void put_above(double weight) { above_ += weight; }

  bool found() const { return low_ >= high_; }
  Scalar cut() const { return from_ordered_key<Scalar>(low_); }

  /// Appends the numbers that this rank tells in this round.
  void tell(std::vector<double>& out) {
    choose_pivots();
    const bool list = near_.size() <= pivots;
    out.push_back(list ? static_cast<double>(near_.size()) : -1.0);
    out.push_back(above_);
    for (std::size_t j = 0; j < pivots; ++j) {
      if (!list) out.push_back(above_ + from(pivot(j)));
      else out.push_back(j < near_.size() ? near_[j] : 0.0);
    }
  }

  /// Narrows the range by the numbers of all ranks. number(r, k) is the k-th number of rank r.
  template <class Number>
  void hear(Index ranks, const Number& number) {
    bool all_listed = true;
    for (Index r = 0; r < ranks; ++r) all_listed = all_listed && number(r, 0) >= 0;
    if (all_listed) end_by_lists(ranks, number);
    else narrow(ranks, number);
  }

 private:
  // The first three rounds divide the range by value, since logits are spread more evenly by value than by key: half of all
  // keys belong to numbers below 1. Later rounds divide the range by key: this ends soon for sure.
  void choose_pivots() {
    const bool by_value = round_++ < 3;
    const auto low = static_cast<double>(from_ordered_key<Scalar>(low_)),
               high = static_cast<double>(from_ordered_key<Scalar>(high_));
    const Distance distance = static_cast<Distance>(high_) - static_cast<Distance>(low_);
    for (std::size_t j = 1; j <= pivots; ++j) {
      const double t = static_cast<double>(j) / pivots;
      const auto steps = static_cast<Distance>(j), of = static_cast<Distance>(pivots);
      const Distance way = distance / of * steps + distance % of * steps / of;
      pivots_[j - 1] =
          by_value ? std::clamp(ordered_key(static_cast<Scalar>(low * (1 - t) + high * t)), low_, high_)
                   : static_cast<Key>(static_cast<Distance>(low_) + way);
    }
    pivots_.back() = high_;
  }
  double pivot(std::size_t j) const { return static_cast<double>(from_ordered_key<Scalar>(pivots_[j])); }

  // The weight of this rank's tokens in the range, from a number on.
  double from(double number) const {
    double sum = 0;
    for (const double l : near_) sum += l >= number ? weight_(l) : 0.0;
    return sum;
  }

  template <class Number>
  void narrow(Index ranks, const Number& number) {
    for (std::size_t j = pivots; j-- > 0;) {
      if (pivots_[j] <= low_) break;
      double weight = 0;
      for (Index r = 0; r < ranks; ++r) weight += told(number, r, j);
      if (weight >= target_) {
        low_ = pivots_[j];
        break;
      }
      high_ = std::min(high_, static_cast<Key>(pivots_[j] - 1));
    }
    forget_the_rest();
  }

  // The weight of rank r's tokens from pivot j on.
  template <class Number>
  double told(const Number& number, Index r, std::size_t j) const {
    if (!(number(r, 0) >= 0)) return number(r, 2 + j);
    double weight = number(r, 1);
    for (std::size_t k = 0; k < static_cast<std::size_t>(number(r, 0)); ++k)
      if (number(r, 2 + k) >= pivot(j)) weight += weight_(number(r, 2 + k));
    return weight;
  }

  void forget_the_rest() {
    const auto low = static_cast<double>(from_ordered_key<Scalar>(low_)),
               high = static_cast<double>(from_ordered_key<Scalar>(high_));
    std::erase_if(near_, [&](double l) {
      if (l > high) above_ += weight_(l);
      return l > high || l < low;
    });
  }

  // Finds the cut when all ranks have listed their logits.
  template <class Number>
  void end_by_lists(Index ranks, const Number& number) {
    double weight = 0;
    near_.clear();
    for (Index r = 0; r < ranks; ++r) {
      weight += number(r, 1);
      for (std::size_t k = 0; k < static_cast<std::size_t>(number(r, 0)); ++k)
        near_.push_back(number(r, 2 + k));
    }
    std::sort(near_.begin(), near_.end(), std::greater<>());
    for (const double l : near_) {
      weight += weight_(l);
      if (weight >= target_) {
        low_ = ordered_key(static_cast<Scalar>(l));
        break;
      }
    }
    high_ = low_;
  }

  Key low_ = 0, high_ = 0;  // the cut lies in [low_, high_]
  double target_ = 0, above_ = 0;
  RankTokenWeight weight_{true};
  int round_ = 0;
  std::array<Key, pivots> pivots_{};
  std::vector<double> near_;
};

/// Searches in all rows until all cuts are found.
/// Cost: a round is one exchange, of 18 numbers for each row without a cut yet. At most three rounds, and one for every four
/// bits of a Scalar: 11 for float. No allocation in steady state.
template <class Scalar, Communicator C>
void find_cuts(Exchange<C>& exchange, std::vector<RankCut<Scalar>>& rows) {
  constexpr std::size_t each = RankCut<Scalar>::numbers;
  const auto open = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(rows, [](const auto& row) { return !row.found(); }));
  };
  for (std::size_t count = open(); count > 0; count = open()) {
    exchange(each * count, [&](std::vector<double>& out) {
      for (auto& row : rows)
        if (!row.found()) row.tell(out);
    });
    std::size_t at = 0;
    for (auto& row : rows) {
      if (row.found()) continue;
      row.hear(exchange.ranks(), [&](Index r, std::size_t k) { return exchange.from(r, at + k); });
      at += each;
    }
  }
}

}  // namespace specdec::detail
