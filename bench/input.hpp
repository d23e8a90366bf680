// The input of one bench: target and draft rows, and drafts that are drawn from the draft rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "counted.hpp"
#include "kinds.hpp"
#include "rows.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/more/rows/sampled.hpp"
#include "specdec/rows/kinds/dense.hpp"

namespace bench {

/// The part of a pool that a bench uses.
struct Cut {
  Index gamma;
  bool warm;
  Index at_least;  // the least number of drafts

  std::string key() const { return std::to_string(gamma) + (warm ? "w" : "c") + std::to_string(at_least); }
};

/// The rows of a pool, cut into blocks of γ+1 target rows and γ draft rows, and drafts for these blocks. Draft k
/// is for block k modulo the number of blocks. Cold: a batch of drafts visits no row twice. Warm: a batch visits
/// only the few blocks that fit into the cache.
template <class Kind>
class Input {
 public:
  Input(Pool& pool, const Cut& cut)
      : pool_(&pool),
        kind_(&pool.made<Kind>("")),
        gamma_(cut.gamma),
        blocks_(pool.rows() / (cut.gamma + 1)),
        batch_(blocks_) {
    if (cut.warm) {
      constexpr Index few = 64, cached_bytes = 8'000'000;
      const Index bytes = (2 * gamma_ + 1) * vocab_size() * static_cast<Index>(Kind::entry_bytes);
      blocks_ = std::clamp<Index>(cached_bytes / bytes, 1, blocks_);
      batch_ = (few + blocks_ - 1) / blocks_ * blocks_;
    }
    drafts_ = (cut.at_least + batch_ - 1) / batch_ * batch_;
    std::mt19937_64 generator(static_cast<std::uint64_t>(gamma_));
    tokens_ = draw(Side::draft, gamma_, generator);
    if (Kind::drawn_ahead) drawn_ = draw(Side::target, gamma_ + 1, generator);
  }

  Index gamma() const { return gamma_; }
  Index vocab_size() const { return pool_->vocab_size(); }
  Index batch() const { return batch_; }
  Index drafts() const { return drafts_; }

  std::span<const Token> tokens(Index k) const { return nth(tokens_, k, gamma_); }
  auto draft(Index k) const { return kind_->rows(Side::draft, first(k), gamma_); }
  auto target(Index k) const { return with_drawn(kind_->rows(Side::target, first(k), gamma_ + 1), k); }

  auto counted_draft(Index k, std::vector<Reads>& reads) const { return counted(draft(k), reads); }
  auto counted_target(Index k, std::vector<Reads>& reads) const {
    return with_drawn(counted(kind_->rows(Side::target, first(k), gamma_ + 1), reads), k);
  }

  /// Reads row i of block k once.
  float read(Side side, Index k, Index i) const { return kind_->read(side, first(k) + i); }
  /// Writes row i of block k as float probabilities.
  void write(Side side, Index k, Index i, Eigen::Ref<Row> out) const {
    kind_->write(side, first(k) + i, out);
  }

  /// Brings all blocks into the cache.
  float read_all() const {
    float sum = 0;
    for (Index i = 0; i < blocks_ * (gamma_ + 1); ++i)
      for (const Side side : sides) sum += kind_->read(side, i);
    return sum;
  }

 private:
  Index first(Index k) const { return k % blocks_ * (gamma_ + 1); }

  static std::span<const Token> nth(const std::vector<Token>& all, Index k, Index count) {
    return std::span(all).subspan(static_cast<std::size_t>(k * count), static_cast<std::size_t>(count));
  }

  template <class M>
  auto with_drawn(const M& rows, Index k) const {
    if constexpr (Kind::drawn_ahead) return specdec::SampledRows(rows, nth(drawn_, k, gamma_ + 1));
    else return rows;
  }

  template <class M>
  static auto counted(const M& rows, std::vector<Reads>& reads) {
    auto matrix = specdec::distributions(rows);
    return CountedRows<decltype(matrix), Kind::normalises>(matrix, reads);
  }

  // Draws a token from each of the first `count` rows of every draft's block. All drafts of a block share the sampler of a
  // row, so that its sums are computed once.
  std::vector<Token> draw(Side side, Index count, std::mt19937_64& generator) const {
    std::vector<Token> tokens(static_cast<std::size_t>(drafts_ * count));
    for (Index block = 0; block < blocks_; ++block) {
      const auto rows = kind_->rows(side, first(block), count);
      const auto matrix = specdec::distributions(rows);
      for (Index i = 0; i < count; ++i) {
        const auto row = matrix.row(i);
        auto sampler = row.sampler();
        for (Index k = block; k < drafts_; k += blocks_)
          tokens[static_cast<std::size_t>(k * count + i)] = sampler(specdec::uniform01(generator));
      }
    }
    return tokens;
  }

  const Pool* pool_;
  const Kind* kind_;
  Index gamma_, blocks_, batch_, drafts_ = 0;
  std::vector<Token> tokens_, drawn_;
};

/// The rows of an input as matrices of float probabilities, which a plain implementation needs.
template <class Kind>
class WholeRows {
 public:
  explicit WholeRows(const Input<Kind>& input) : input_(&input) {
    if (Kind::plain) return;
    target_.resize(input.gamma() + 1, input.vocab_size());
    draft_.resize(input.gamma(), input.vocab_size());
  }

  Rows target(Index k) {
    if constexpr (Kind::plain) return input_->target(k);
    else return write(Side::target, k, target_);
  }
  Rows draft(Index k) {
    if constexpr (Kind::plain) return input_->draft(k);
    else return write(Side::draft, k, draft_);
  }

 private:
  Rows write(Side side, Index k, RowMajor& out) const {
    for (Index i = 0; i < out.rows(); ++i) input_->write(side, k, i, out.row(i).array());
    return {out.data(), out.rows(), out.cols()};
  }

  const Input<Kind>* input_;
  RowMajor target_, draft_;
};

}  // namespace bench
