// The kinds of rows that a verifier can take, all made from the same pool of logits.
//
// A kind has
//   name                      its name in the benches
//   rows(side, first, count)  `count` rows from `first` on, as a verifier takes them
//   read(side, i)             reads row i once, vectorised: a sum, or a log-sum-exp
//   write(side, i, out)       writes row i as float probabilities over the whole vocabulary
// and these traits
//   plain                     rows() is already a matrix of float probabilities
//   as_float                  floor and reference are not run, because those of FloatRows hold for it too
//   normalises                the first look at a row must read all of it
//   drawn_ahead               the verifier also gets a token drawn from every target row
//   entry_bytes               bytes of one number of a row
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "rows.hpp"
#include "specdec/rows/kinds/logits.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/sparse.hpp"
#include "specdec/rows/numbers.hpp"

namespace bench {

inline constexpr Side sides[] = {Side::target, Side::draft};

struct KindTraits {
  static constexpr bool plain = false, as_float = false, normalises = false, drawn_ahead = false;
  static constexpr std::size_t entry_bytes = sizeof(float);
};

/// One T for the target and one for the draft.
template <class T>
class PerSide {
 public:
  T& operator[](Side side) { return side == Side::target ? target_ : draft_; }
  const T& operator[](Side side) const { return side == Side::target ? target_ : draft_; }

 private:
  T target_, draft_;
};

/// The sum of a row. Eigen does not vectorise the sum of a cast, so numbers that are no floats are first stored as floats.
template <class R>
float vectorised_sum(const R& row) {
  if constexpr (std::is_same_v<typename R::Scalar, float>) {
    return row.sum();
  } else {
    constexpr Index most = 1024;
    Eigen::Array<float, 1, Eigen::Dynamic, Eigen::RowMajor, 1, most> piece;
    float sum = 0;
    for (Index x = 0; x < row.size(); x += most) {
      piece = row.segment(x, std::min(most, row.size() - x)).template cast<float>();
      sum += piece.sum();
    }
    return sum;
  }
}

/// Probabilities of type S.
template <class S>
class StoredRows : public KindTraits {
 public:
  static constexpr std::size_t entry_bytes = sizeof(S);

  explicit StoredRows(const Pool& pool) {
    Row p(pool.vocab_size());
    for (const Side side : sides) {
      rows_[side].resize(pool.rows(), pool.vocab_size());
      for (Index i = 0; i < pool.rows(); ++i) {
        softmax(pool.logits(side, i), p);
        rows_[side].row(i) = p.matrix().template cast<S>();
      }
    }
  }

  const S* row(Side side, Index i) const { return rows_[side].row(i).data(); }
  auto rows(Side side, Index first, Index count) const {
    return Eigen::Map<const MatrixOf<S>>(row(side, first), count, rows_[side].cols());
  }
  float read(Side side, Index i) const { return vectorised_sum(rows_[side].row(i).array()); }
  void write(Side side, Index i, Eigen::Ref<Row> out) const {
    out = rows_[side].row(i).array().template cast<float>();
  }

 private:
  PerSide<MatrixOf<S>> rows_;
};

struct FloatRows : StoredRows<float> {
  using StoredRows::StoredRows;
  static constexpr const char* name = "float";
  static constexpr bool plain = true;
};

struct HalfRows : StoredRows<Eigen::half> {
  using StoredRows::StoredRows;
  static constexpr const char* name = "half";
};

struct Bfloat16Rows : StoredRows<Eigen::bfloat16> {
  using StoredRows::StoredRows;
  static constexpr const char* name = "bfloat16";
};

/// Base of kinds that pass the rows of FloatRows in another way.
class SharedFloatRows : public KindTraits {
 public:
  static constexpr bool as_float = true;

  explicit SharedFloatRows(Pool& pool) : floats_(&pool.made<FloatRows>("")) {}

  float read(Side side, Index i) const { return floats_->read(side, i); }
  void write(Side side, Index i, Eigen::Ref<Row> out) const { floats_->write(side, i, out); }

 protected:
  const FloatRows* floats_;
};

/// Float probabilities, with a pointer to each row.
class PointerRows : public SharedFloatRows {
 public:
  static constexpr const char* name = "pointers";

  explicit PointerRows(Pool& pool) : SharedFloatRows(pool), vocab_size_(pool.vocab_size()) {
    for (const Side side : sides)
      for (Index i = 0; i < pool.rows(); ++i) pointers_[side].push_back(floats_->row(side, i));
  }

  auto rows(Side side, Index first, Index count) const {
    return specdec::RowPointers<float>(
        std::span(pointers_[side]).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        vocab_size_);
  }

 private:
  PerSide<std::vector<const float*>> pointers_;
  Index vocab_size_;
};

/// Float probabilities, and a token drawn from each row of the target.
struct SampledRows : SharedFloatRows {
  static constexpr const char* name = "sampled";
  static constexpr bool drawn_ahead = true;
  using SharedFloatRows::SharedFloatRows;

  auto rows(Side side, Index first, Index count) const { return floats_->rows(side, first, count); }
};

/// Base of both kinds of logits.
class PoolLogits : public KindTraits {
 public:
  explicit PoolLogits(const Pool& pool) : pool_(&pool) {}

  void write(Side side, Index i, Eigen::Ref<Row> out) const { softmax(pool_->logits(side, i), out); }

 protected:
  Rows numbers(Side side, Index first, Index count) const {
    return {pool_->logits(side).row(first).data(), count, pool_->vocab_size()};
  }

  const Pool* pool_;
};

/// log Σ exp of a row of logits, written with Eigen.
template <class L>
float log_sum_exp(const L& l) {
  const float largest = l.maxCoeff();
  return largest + std::log((l - largest).exp().sum());
}

/// Logits at temperature 1.
struct LogitsRows : PoolLogits {
  static constexpr const char* name = "logits";
  static constexpr bool normalises = true;
  using PoolLogits::PoolLogits;

  auto rows(Side side, Index first, Index count) const {
    return specdec::Logits(numbers(side, first, count));
  }
  float read(Side side, Index i) const { return log_sum_exp(pool_->logits(side, i)); }
};

/// Logits at temperature 1, with the log Σ exp of every row.
class LogitsLseRows : public PoolLogits {
 public:
  static constexpr const char* name = "logits_lse";

  explicit LogitsLseRows(const Pool& pool) : PoolLogits(pool) {
    for (const Side side : sides)
      for (Index i = 0; i < pool.rows(); ++i)
        log_sum_exp_[side].push_back(static_cast<double>(log_sum_exp(pool.logits(side, i))));
  }

  auto rows(Side side, Index first, Index count) const {
    const auto log_sum_exp = std::span(log_sum_exp_[side])
                                 .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    return specdec::Logits(numbers(side, first, count), {.log_sum_exp = log_sum_exp});
  }
  float read(Side side, Index i) const {
    const auto normaliser = static_cast<float>(log_sum_exp_[side][static_cast<std::size_t>(i)]);
    return (pool_->logits(side, i) - normaliser).exp().sum();
  }

 private:
  PerSide<std::vector<double>> log_sum_exp_;
};

/// The 50 most probable tokens of every row, normalised and sorted by id. (At most half of the vocabulary.)
class SparseRows : public KindTraits {
 public:
  static constexpr const char* name = "sparse";

  explicit SparseRows(const Pool& pool)
      : size_(std::min<Index>(50, (pool.vocab_size() + 1) / 2)), vocab_size_(pool.vocab_size()) {
    Row p(vocab_size_);
    std::vector<Token> ids(static_cast<std::size_t>(vocab_size_));
    for (const Side side : sides) {
      lists_[side].resize(static_cast<std::size_t>(pool.rows()));
      for (Index i = 0; i < pool.rows(); ++i) {
        softmax(pool.logits(side, i), p);
        std::iota(ids.begin(), ids.end(), Token{0});
        std::nth_element(ids.begin(), ids.begin() + size_, ids.end(),
                         [&](Token x, Token y) { return p[x] > p[y]; });
        std::sort(ids.begin(), ids.begin() + size_);
        lists_[side][static_cast<std::size_t>(i)] = list(ids, p);
      }
      for (const List& list : lists_[side])
        rows_[side].emplace_back(list.ids, list.probabilities, vocab_size_);
    }
  }

  auto rows(Side side, Index first, Index count) const {
    return specdec::RowSpan(std::span<const specdec::SparseRow<float>>(rows_[side])
                                .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                            vocab_size_);
  }
  float read(Side side, Index i) const {
    return Eigen::Map<const Row>(at(side, i).probabilities.data(), size_).sum();
  }
  void write(Side side, Index i, Eigen::Ref<Row> out) const {
    out.setZero();
    const List& list = at(side, i);
    for (std::size_t k = 0; k < list.ids.size(); ++k) out[list.ids[k]] = list.probabilities[k];
  }

 private:
  struct List {
    std::vector<Token> ids;
    std::vector<float> probabilities;
  };

  const List& at(Side side, Index i) const { return lists_[side][static_cast<std::size_t>(i)]; }

  List list(const std::vector<Token>& ids, const Row& p) const {
    List list{{ids.begin(), ids.begin() + size_}, {}};
    float sum = 0;
    for (const Token x : list.ids) sum += p[x];
    for (const Token x : list.ids) list.probabilities.push_back(p[x] / sum);
    return list;
  }

  Index size_, vocab_size_;
  PerSide<std::vector<List>> lists_;
  PerSide<std::vector<specdec::SparseRow<float>>> rows_;
};

}  // namespace bench
