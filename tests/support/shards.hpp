// Matrices with columns spread over ranks, and the references for their laws.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <vector>

#include "support/layouts.hpp"
#include "support/lists.hpp"
#include "support/thread_ranks.hpp"

namespace support {

// Where each rank's columns begin. They are ragged, and rank 1 of three or more has none.
inline std::vector<Index> cuts(Index vocab_size, Index ranks) {
  std::vector<Index> cuts{0};
  for (Index r = 1; r < ranks; ++r)
    cuts.push_back(ranks > 2 && r == 2 ? cuts.back() : (vocab_size * r + 1) / (ranks + 1));
  cuts.push_back(vocab_size);
  return cuts;
}

struct Columns {
  Index first, count;
};
inline Columns columns_of(const ThreadRank& rank, Index vocab_size) {
  const auto c = cuts(vocab_size, rank.size());
  const auto r = static_cast<std::size_t>(rank.rank());
  return {c[r], c[r + 1] - c[r]};
}

inline RowMajor<double> part(const RowMajor<double>& whole, const Columns& columns) {
  return whole.middleCols(columns.first, columns.count);
}

// A quarter of the probabilities are 0.
inline RowMajor<double> random_rows(Index rows, Index columns, std::mt19937_64& rng) {
  RowMajor<double> matrix(rows, columns);
  for (Index i = 0; i < rows; ++i) {
    for (Index x = 0; x < columns; ++x)
      matrix(i, x) = specdec::uniform01(rng) < 0.25 ? 0 : specdec::uniform01(rng);
    matrix(i, i % columns) += 0.25;
    matrix.row(i) /= matrix.row(i).sum();
  }
  return matrix;
}

// Enumerated chance in which run_race settles a race after `ahead` rounds. Each row has that many tokens drawn ahead, so
// the rounds use these tokens. For other draws the sampler is checked: the middle of each token's interval of [0, 1) must
// give that token.
struct Settled {
  specdec::testing::Enumerator& inner;
  int ahead = 0;

  bool coin(double h) { return inner.coin(h); }
  template <specdec::Distribution P, specdec::Distribution Q>
  Token draw(const specdec::ResidualRow<P, Q>& row, specdec::Index /*place*/ = 0) {
    return draw_any(row);
  }
  template <specdec::Distribution R>
  Token draw(const R& row, specdec::Index /*place*/ = 0) {
    return ahead > 0 ? row.sampler()(0.5) : draw_any(row);
  }
  Token draw_again(auto& sampler, const auto&) { return sampler(0.5); }
  template <specdec::Distribution P, specdec::Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    if (w <= 0) return std::nullopt;
    return specdec::run_race(*this, w, p, q, ahead);
  }
  template <specdec::Distribution P>
  std::optional<Token> race(double w, const P& p) {
    if (ahead == 0) return inner.race(w, p);
    if (!coin(w)) return std::nullopt;
    return draw(p);
  }

 private:
  template <specdec::Distribution R>
  Token draw_any(const R& row) {
    double before = 0;
    for (Token x = 0; x < row.vocab_size(); ++x) {
      const double p = row.probability(x);
      auto sampler = row.sampler();
      if (p > 1e-9 && (sampler(before + 1e-10) != x || sampler(before + p - 1e-10) != x))
        throw std::logic_error("a sampler gives other tokens than its row says");
      before += p;
    }
    return inner.draw(row);
  }
};

}  // namespace support
