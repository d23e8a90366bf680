// The cut of rows of logits that are spread over ranks: the largest c for which the tokens of logit >= c, of all ranks
// together, weigh enough.
//
// All rows are searched together, so that a round is one exchange. In a round each rank tells of each row what its tokens
// weigh at sixteen numbers between which the cut may lie, and the cut is then known to lie between two of them. A rank that
// has no more than sixteen tokens left there tells their logits instead, so that the search ends as soon as all do: as a
// rule after two to four rounds. Ever smaller ranges of the ordered bits of a number would lead there in any case.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/exchange.hpp"
#include "specdec/sample/ordered_key.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// What a token of logit l weighs: 1, or its probability exp(l/T − log Σ exp(l/T)).
struct RankTokenWeight {
  bool counts;
  double inverse_temperature = 1, log_sum_exp = 0;

  double operator()(double l) const { return counts ? 1.0 : std::exp(l * inverse_temperature - log_sum_exp); }
};

/// The search in one row. The logits are numbers of type Scalar, held as doubles.
template <class Scalar>
class RankCut {
  using Key = OrderedKey<Scalar>;
  using Distance = std::make_unsigned_t<Key>;

 public:
  /// How many numbers a rank tells in a round: what it tells of, what its tokens above all that is searched weigh, and
  /// what they do at each pivot, or some logits.
  static constexpr std::size_t pivots = 16, numbers = pivots + 2;

  /// Between low and high, with what this rank has there, `near`, and what it has above high. The tokens of all ranks from
  /// low on weigh at least `target` where those of any number do, those above high less.
  void begin(Scalar low, Scalar high, double target, const RankTokenWeight& weight) {
    low_ = ordered_key(low);
    high_ = ordered_key(high);
    target_ = target;
    weight_ = weight;
    above_ = 0;
    near_.clear();
    round_ = 0;
  }
  /// Room for what all ranks list in the end. What is put takes more.
  void make_room(Index ranks) { near_.reserve(static_cast<std::size_t>(ranks) * pivots); }
  void put(Scalar logit) { near_.push_back(static_cast<double>(logit)); }
  void put_above(double weight) { above_ += weight; }

  bool found() const { return low_ >= high_; }
  Scalar cut() const { return from_ordered_key<Scalar>(low_); }

  /// What this rank tells.
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

  /// Learns from what number(r, k), the k-th of rank r, all ranks have told.
  template <class Number>
  void hear(Index ranks, const Number& number) {
    bool all_listed = true;
    for (Index r = 0; r < ranks; ++r) all_listed = all_listed && number(r, 0) >= 0;
    if (all_listed) end_by_lists(ranks, number);
    else narrow(ranks, number);
  }

 private:
  // Numbers are spread more evenly than their keys, of which half are those below 1; but only ranges of keys are sure
  // to end soon.
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

  // What of this rank's lies from a number on, of what is near.
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

  // What the tokens of rank r weigh from pivot j on.
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

  // All that is near lies open.
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

  Key low_ = 0, high_ = 0;  // the cut is one of these or between them
  double target_ = 0, above_ = 0;
  RankTokenWeight weight_{true};
  int round_ = 0;
  std::array<Key, pivots> pivots_{};
  std::vector<double> near_;
};

/// Searches in all rows, until all cuts are found.
///
/// Cost: a round is an exchange of 18 numbers for each row whose cut is open; three rounds and one for every four bits of a
/// Scalar at most, which is 11 for floats. No allocation once there has been room.
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
