// Rows that are spread over ranks, as verifiers see them.
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <cstddef>
#include <span>

#include "specdec/ranks/communicator.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/spread_row.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

template <DistributionMatrix M, Communicator C>
class Shards;

/// The ranks that a row of Shards is spread over.
template <DistributionMatrix M, Communicator C>
class RankSpread {
 public:
  explicit RankSpread(Shards<M, C>& shards) : shards_(&shards) {}

  /// The tokens that this rank has.
  ColumnRange columns() const { return shards_->columns(); }

  /// Σ f() over the ranks: one exchange of one number. NaN where one throws.
  template <std::invocable F>
  double sum(const F& f) const {
    return shards_->sum_of(f);
  }

  /// The token that u of [0, 1) draws from a row of which this rank has the columns part(): two exchanges, of a number, by
  /// which the ranks find whose it is, and of two.
  template <std::invocable Part>
  Token draw(double u, const Part& part) const {
    return shards_->draw_of(u, part);
  }

  /// The token of the first of the arrivals f() that the ranks find in their own columns: one exchange of two numbers.
  template <std::invocable F>
  Token first_to_arrive(const F& f) const {
    return shards_->first_to_arrive(f);
  }

 private:
  Shards<M, C>* shards_;
};

/// A row of Shards. What it does not know yet it asks the ranks for, all of which have to be asking.
template <DistributionMatrix M, Communicator C>
class ShardedRow {
  using Segment = Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

 public:
  ShardedRow(Shards<M, C>& shards, Index i) : shards_(&shards), i_(i) {}

  Index vocab_size() const { return shards_->vocab_size(); }
  double probability(Token x) const { return shards_->probability(i_, x); }
  double sum(Index start, Index count) const { return shards_->sum(i_, start, count); }
  Segment segment(Index start, Index count) const {
    return shards_->template segment<Segment>(i_, start, count);
  }
  Token argmax() const { return shards_->argmax(i_); }

  /// For sums: see spread_row.hpp.
  RankSpread<M, C> spread() const { return RankSpread<M, C>(*shards_); }
  auto part(ColumnRange columns) const { return shards_->part(i_, columns); }

  /// First what was drawn ahead and no sampler has used, whatever u is.
  auto sampler() const {
    return [shards = shards_, i = i_](double u) { return shards->next_draw(i, u); };
  }

 private:
  Shards<M, C>* shards_;
  Index i_;
};

/// The rows of Shards as a matrix.
template <DistributionMatrix M, Communicator C>
class ShardedRows {
 public:
  explicit ShardedRows(Shards<M, C>& shards) : shards_(&shards) {}

  Index rows() const { return shards_->size(); }
  Index vocab_size() const { return shards_->vocab_size(); }
  ShardedRow<M, C> row(Index i) const { return {*shards_, i}; }

  /// tokens[i] in row i, together: no exchange for those that were told when the Shards were made.
  void probabilities(TokenIds tokens, std::span<double> out) const {
    for (Index i = 0; i < tokens.size(); ++i)
      out[static_cast<std::size_t>(i)] = shards_->probability(i, static_cast<Token>(tokens[i]));
  }

 private:
  Shards<M, C>* shards_;
};

}  // namespace specdec
