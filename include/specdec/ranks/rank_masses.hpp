// How the mass of each row is spread over ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/ranks/rank_columns.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The probability that each rank's columns have in each row.
class RankMasses {
 public:
  void resize(Index rows, Index ranks) {
    ranks_ = ranks;
    masses_.resize(static_cast<std::size_t>(rows * ranks));
    kinds_.resize(static_cast<std::size_t>(rows));
  }

  /// Row i, by what the ranks said of it. Throws InvalidDistribution where that makes no distribution: where a part sums
  /// to less than 0, or all together to 0, or to more than `most`.
  template <class WeightOf>
  void take(Index i, RankWeight kind, const WeightOf& weight_of, double most) {
    kinds_[static_cast<std::size_t>(i)] = kind;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double largest = -infinity, all = 0;
    for (Index r = 0; r < ranks_; ++r) largest = std::max(largest, weight_of(r));
    for (Index r = 0; r < ranks_; ++r) {
      const double w = weight_of(r);
      double& mass = at(i, r);
      if (kind == RankWeight::mass) mass = w;
      else if (kind == RankWeight::logarithm || std::isnan(w)) mass = std::exp(w - largest);
      else mass = w == largest && w > -infinity && all == 0 ? 1.0 : 0.0;  // the lowest id among equals
      if (mass < 0) throw InvalidDistribution(message("the part of rank ", r, " sums to ", mass));
      all += mass;
    }
    if (!(all > 0) || !(all <= std::numeric_limits<double>::max()))
      throw InvalidDistribution(message("the ranks' parts sum to ", all));
    if (kind == RankWeight::mass && all > most)
      throw InvalidDistribution(message("the ranks' parts sum to ", all, ", which is more than 1"));
    if (kind != RankWeight::mass)
      for (Index r = 0; r < ranks_; ++r) at(i, r) /= all;
  }

  /// No rank has anything of row i.
  void clear(Index i) {
    for (Index r = 0; r < ranks_; ++r) at(i, r) = 0;
  }

  double of(Index i, Index rank) const { return masses_[static_cast<std::size_t>(i * ranks_ + rank)]; }

  /// By what the rank's own numbers are to be multiplied.
  double share(Index i, Index rank) const { return normalised_alone(i) ? of(i, rank) : 1.0; }

  /// The rank that a number u of [0, 1) falls to. A row that sums to less than 1 is drawn from as if it were normalised.
  Index owner(Index i, double u) const {
    u = wrap(i, u);
    Index owner = -1;  // the last one with mass, where rounding has u beyond all of them
    for (Index r = 0; r < ranks_; ++r) {
      if (of(i, r) > 0) owner = r;
      u -= of(i, r);
      if (u < 0 && owner == r) break;
    }
    return owner;
  }

  /// u as the sampler of its owner's part takes it.
  double inside(Index i, Index owner, double u) const {
    u = wrap(i, u);
    for (Index r = 0; r < owner; ++r) u -= of(i, r);
    const double most = of(i, owner) * (1 - 0x1p-52);
    u = std::clamp(u, 0.0, most);
    return normalised_alone(i) ? u / of(i, owner) : u;
  }

 private:
  // What is not below the mass of all ranks is uniform beyond it, and decides anew.
  double wrap(Index i, double u) const {
    double all = 0;
    for (Index r = 0; r < ranks_; ++r) all += of(i, r);
    return u < all ? u : (u - all) / (1 - all) * all;
  }

  double& at(Index i, Index rank) { return masses_[static_cast<std::size_t>(i * ranks_ + rank)]; }
  bool normalised_alone(Index i) const { return kinds_[static_cast<std::size_t>(i)] != RankWeight::mass; }

  Index ranks_ = 0;
  std::vector<double> masses_;
  std::vector<RankWeight> kinds_;
};

}  // namespace specdec::detail
