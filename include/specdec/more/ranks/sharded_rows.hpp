// Rows that are spread over ranks, for verifiers.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "specdec/eigen.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/rank_part.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

template <DistributionMatrix M, class C>
class Shards;

/// Sums and draws over all ranks, for rows that are made of rows of Shards: see detail::SpreadRow.
template <DistributionMatrix M, Communicator C>
class RankSpread {
 public:
  explicit RankSpread(Shards<M, C>& shards) : shards_(&shards) {}

  /// The sum of f over all ranks; NaN if f throws on a rank.
  /// Cost: one exchange of one number.
  template <class F>
  double sum(Index start, Index end, const F& f) const {
    const auto part = mine();
    const auto range = part.columns().within(start, end);
    return shards_->sum_of(
        [&] { return range.first < range.second ? f(part, range.first, range.second) : 0.0; });
  }

  /// Cost: two exchanges: one number, to find the rank that draws; then two, the token and its probability.
  template <class Row>
  Token draw(double u, const Row& row) const {
    return shards_->draw_of(u, [&, part = mine()] { return part(row); });
  }

  /// Cost: one exchange of two numbers.
  template <class Row, class F>
  Token first_to_arrive(const Row& row, const F& f) const {
    return shards_->first_to_arrive([&, part = mine()] { return f(part(row), part.columns().first); });
  }

 private:
  detail::RankPart mine() const { return detail::RankPart(shards_->columns()); }

  Shards<M, C>* shards_;
};

/// A row of Shards. A number that is not known yet takes an exchange: all ranks must ask together.
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
  /// Takes no exchange.
  bool is_dead_end() const { return shards_->is_dead_end(i_); }

  /// For rows that are made of this row: see detail::SpreadRow.
  RankSpread<M, C> spread() const { return RankSpread<M, C>(*shards_); }
  auto made_of(const detail::RankPart& part) const { return shards_->part(i_, part.columns()); }

  /// Returns unused tokens that were drawn ahead first; u is then ignored.
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
    shards_->check_row(i);
    return {*shards_, i};
  }

  /// Looks up tokens[i] in row first + i. Tokens that were passed to the constructor of Shards need no exchange.
  void probabilities(TokenIds tokens, std::span<double> out, Index first = 0) const {
    for (Index i = 0; i < tokens.size(); ++i)
      detail::at(out, i) = shards_->probability(first + i, static_cast<Token>(tokens[i]));
  }

 private:
  Shards<M, C>* shards_;
};

}  // namespace specdec
