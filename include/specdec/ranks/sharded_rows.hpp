// Rows that are spread over ranks, as verifiers see them.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>

#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/rank_part.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

template <DistributionMatrix M, Communicator C>
class Shards;

/// The ranks that a row of Shards is spread over: see detail::SpreadRow.
template <DistributionMatrix M, Communicator C>
class RankSpread {
 public:
  explicit RankSpread(Shards<M, C>& shards) : shards_(&shards) {}

  /// One exchange of one number. NaN where a rank throws.
  template <class F>
  double sum(Index start, Index end, const F& f) const {
    const auto part = mine();
    const auto [from, to] = part.columns().within(start, end);
    return shards_->sum_of([&, from = from, to = to] { return from < to ? f(part, from, to) : 0.0; });
  }

  /// Two exchanges, of a number, by which the ranks find whose it is, and of two.
  template <class Row>
  Token draw(double u, const Row& row) const {
    return shards_->draw_of(u, [&, part = mine()] { return part(row); });
  }

  /// One exchange of two numbers.
  template <class Row, class F>
  Token first_to_arrive(const Row& row, const F& f) const {
    return shards_->first_to_arrive([&, part = mine()] { return f(part(row), part.columns().first); });
  }

 private:
  detail::RankPart mine() const { return detail::RankPart(shards_->columns()); }

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

  /// For sums and draws of what is made of rows: see detail::SpreadRow.
  RankSpread<M, C> spread() const { return RankSpread<M, C>(*shards_); }
  auto made_of(const detail::RankPart& part) const { return shards_->part(i_, part.columns()); }

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
  ShardedRow<M, C> row(Index i) const {
    shards_->check(i);
    return {*shards_, i};
  }

  /// tokens[i] in row first + i, together: no exchange for those that were told when the Shards were made.
  void probabilities(TokenIds tokens, std::span<double> out, Index first = 0) const {
    for (Index i = 0; i < tokens.size(); ++i)
      out[static_cast<std::size_t>(i)] = shards_->probability(first + i, static_cast<Token>(tokens[i]));
  }

 private:
  Shards<M, C>* shards_;
};

}  // namespace specdec
