// Rows and a source of chance that count what a verifier reads and draws.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/race.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace bench {

using specdec::Index;
using specdec::Token;

/// How much of a row has been read.
struct Reads {
  Index lookups = 0;  ///< single entries
  Index summed = 0;   ///< entries read as part of a segment, counted each time
  bool touched() const { return lookups + summed > 0; }
};

/// The type of a sampler for another type of row.
template <class Sampler, class R>
struct Rebind;
template <template <class> class Sampler, class Old, class R>
struct Rebind<Sampler<Old>, R> {
  using Type = Sampler<R>;
};
template <template <class, bool> class Sampler, class Old, bool checks_sum, class R>
struct Rebind<Sampler<Old, checks_sum>, R> {
  using Type = Sampler<R, checks_sum>;
};

/// A row that counts its reads. `Normalises`: the first request reads the whole row once.
template <specdec::Distribution R, bool Normalises>
class CountedRow : public R {
 public:
  CountedRow(const R& row, Reads& reads) : R(row), reads_(&reads) {}

  bool possible(Token x) const {
    ++reads_->lookups;
    return specdec::possible(row(), x);
  }
  double probability(Token x) const {
    normalise();
    ++reads_->lookups;
    return R::probability(x);
  }
  double listed(Index k) const
    requires specdec::ListedRow<R>
  {
    ++reads_->lookups;
    return R::listed(k);
  }
  double sum(Index start, Index count) const
    requires specdec::SummableRow<R>
  {
    look(count);
    return R::sum(start, count);
  }
  auto segment(Index start, Index count) const
    requires specdec::SegmentedRow<R>
  {
    look(count);
    return R::segment(start, count);
  }
  Token argmax() const
    requires specdec::ArgmaxRow<R>
  {
    reads_->summed += R::vocab_size();
    return R::argmax();
  }
  auto sampler() const {
    if constexpr (Normalises) {
      normalise();
      return R::sampler();
    } else {
      return typename Rebind<decltype(R::sampler()), CountedRow>::Type(*this);
    }
  }

 private:
  const R& row() const { return *this; }
  void normalise() const {
    if (Normalises && reads_->summed == 0) reads_->summed = R::vocab_size();
  }
  void look(Index count) const {
    if constexpr (Normalises) normalise();
    else reads_->summed += count;
  }

  Reads* reads_;
};

/// A matrix of counted rows. reads[i] counts the reads of row i.
template <specdec::DistributionMatrix M, bool Normalises>
class CountedRows {
 public:
  CountedRows(M rows, std::vector<Reads>& reads) : rows_(std::move(rows)), reads_(&reads) {
    reads.assign(static_cast<std::size_t>(rows_.rows()), {});
  }

  Index rows() const { return rows_.rows(); }
  Index vocab_size() const { return rows_.vocab_size(); }
  auto row(Index i) const {
    return CountedRow<specdec::RowOf<M>, Normalises>(rows_.row(i), (*reads_)[static_cast<std::size_t>(i)]);
  }

 private:
  M rows_;
  std::vector<Reads>* reads_;
};

/// Chance from a generator. Counts draws and rounds of races. A race is the library's run_race.
class CountingChance {
 public:
  explicit CountingChance(std::mt19937_64& generator) : chance_(generator) {}

  Index draws = 0, rounds = 0, settled = 0;

  bool coin(double h) { return chance_.coin(h); }

  template <specdec::Distribution R>
  Token draw(const R& row, Index /*place*/ = 0) {
    ++draws;
    return chance_.draw(row);
  }

  template <class S, specdec::Distribution R>
  Token draw_again(S& sampler, const R& row) {
    ++draws;
    return chance_.draw_again(sampler, row);
  }

  template <specdec::Distribution P, specdec::Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    const Index before = draws;
    const std::optional<Token> y = specdec::run_race(*this, w, p, q);
    const Index drawn = draws - before;
    rounds += drawn + (y ? 0 : 1);  // a lost round draws nothing
    if (drawn >= specdec::max_race_rounds) ++settled;
    return y;
  }

  template <specdec::Distribution P>
  std::optional<Token> race(double w, const P& p) {
    ++rounds;
    if (!coin(w)) return std::nullopt;
    return draw(p);
  }

 private:
  specdec::RandomChance<std::mt19937_64> chance_;
};

}  // namespace bench
