// Rows that are spread over ranks, for verifiers.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/rank_columns.hpp"
#include "specdec/more/ranks/rank_part.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
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
    const detail::RankPart part = shards_->part();
    const auto [from, to] = part.within(start, end);
    shards_->exchange_.one([&] { return from < to ? f(part, from, to) : 0.0; });
    return shards_->exchange_.sum(0);
  }

  /// Cost: two exchanges: one number, to find the rank that draws; then two, the token and its probability.
  template <class Row>
  Token draw(double u, const Row& row) const {
    auto& exchange = shards_->exchange_;
    const detail::RankPart part = shards_->part();
    using Part = decltype(part(row));
    detail::RankMasses masses;
    exchange.prepare([&] { masses.resize(1, exchange.ranks()); });
    exchange.one([&] { return part(row).sum(0, part.count); });
    masses.take(
        0, detail::RankWeight::mass, [&](Index r) { return exchange.from(r, 0); },
        detail::most_mass<Part>(0));  // equal on all ranks: does not depend on the number of columns
    exchange(2, [&](auto& out) {
      out.assign({-1.0, 0.0});
      if (masses.owner(0, u) != exchange.rank()) return;
      const Part drawn_from = part(row);
      const Token x = drawn_from.sampler()(masses.inside(0, exchange.rank(), u));
      out.assign({static_cast<double>(part.first + x), drawn_from.probability(x)});
    });
    return shards_->told(0).token;
  }

  /// Among equal times the first rank wins: it has the lowest ids. A rank without mass is passed over.
  /// Cost: one exchange of two numbers.
  template <class Row, class F>
  Token first_to_arrive(const Row& row, const F& f) const {
    auto& exchange = shards_->exchange_;
    exchange(2, [&, part = shards_->part()](auto& out) {
      const auto arrived = f(part(row), part.first);
      out.assign({arrived.time, static_cast<double>(arrived.token)});
    });
    Index first = -1;
    for (Index r = 0; r < exchange.ranks(); ++r) {
      if (std::isnan(exchange.from(r, 0)))
        detail::invalid_distribution("rank ", r, " could not draw from its part of a row");
      if (exchange.from(r, 1) >= 0 && (first < 0 || exchange.from(r, 0) < exchange.from(first, 0))) first = r;
    }
    if (first < 0) detail::invalid_distribution("no token has positive probability");
    return static_cast<Token>(exchange.from(first, 1));
  }

 private:
  Shards<M, C>* shards_;
};

/// A row of Shards. A number that is not known yet takes an exchange: all ranks must ask together.
template <DistributionMatrix M, Communicator C>
class ShardedRow {
 public:
  ShardedRow(Shards<M, C>& shards, Index i) : shards_(&shards), i_(i) {}

  Index vocab_size() const { return shards_->vocab_size(); }
  double probability(Token x) const {
    shards_->check_row(i_);
    if (x < 0 || x >= vocab_size()) return 0;
    if (const auto known = shards_->looked_up_.find(i_, x)) return *known;
    shards_->exchange_.prepare([&] { shards_->looked_up_.make_room(1); });
    shards_->exchange_.one([&] { return shards_->own(i_, x); });
    const double p = shards_->exchange_.sum(0);
    shards_->looked_up_.add(i_, x, p);
    return p;
  }
  double sum(Index start, Index count) const {
    shards_->exchange_.one([&] {
      return shards_->has_mass(i_) ? shards_->share(i_) * shards_->mine_.sum(i_, start, count) : 0.0;
    });
    return shards_->exchange_.sum(0);
  }
  detail::Segment<> segment(Index start, Index count) const {
    shards_->exchange_(static_cast<std::size_t>(count), [&](auto& out) {
      for (Index x = start; x < start + count; ++x) out.push_back(shards_->own(i_, static_cast<Token>(x)));
    });
    detail::Segment<> segment(count);
    for (Index k = 0; k < count; ++k) segment[k] = shards_->exchange_.sum(static_cast<std::size_t>(k));
    return segment;
  }
  /// Among equal maxima the lowest id wins: it is on the first rank that has one.
  Token argmax() const {
    if (is_dead_end()) detail::invalid_distribution("no token has positive probability");
    auto& exchange = shards_->exchange_;
    const auto& mine = shards_->mine_;
    exchange(2, [&](auto& out) {
      out.assign({0.0, -1.0});
      if (!shards_->has_mass(i_)) return;
      const Token x = mine.row(i_).argmax();
      out.assign({mine.height(i_, x), static_cast<double>(mine.first() + x)});
    });
    Index best = -1;
    for (Index r = 0; r < exchange.ranks(); ++r) {
      if (!(shards_->masses_.of(i_, r) > 0)) continue;
      if (!(exchange.from(r, 0) > mine.least_height))  // also true for NaN
        detail::invalid_distribution("rank ", r, " could not tell the likeliest token of its part of row ",
                                     i_);
      if (best < 0 || exchange.from(r, 0) > exchange.from(best, 0)) best = r;
    }
    return static_cast<Token>(exchange.from(best, 1));
  }
  /// Takes no exchange.
  bool is_dead_end() const { return shards_->is_dead_end(i_); }

  /// For rows that are made of this row: see detail::SpreadRow.
  RankSpread<M, C> spread() const { return RankSpread<M, C>(*shards_); }
  auto made_of(const detail::RankPart& part) const {
    if (part != shards_->part())
      detail::invalid_call("rows of which the ranks have different columns are not summed together");
    return detail::ColumnsOfRow(shards_->mine_.row(i_), detail::RankPart{0, part.count},
                                shards_->has_mass(i_) ? shards_->share(i_) : 0.0);
  }

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
      detail::at(out, i) = row(first + i).probability(static_cast<Token>(tokens[i]));
  }

 private:
  Shards<M, C>* shards_;
};

}  // namespace specdec
