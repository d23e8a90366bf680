// Copies of rows, for models that overwrite theirs before a draft has been judged.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/rows/dense.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/sparse.hpp"

namespace specdec {

/// Memory for a copy of one row, reused from row to row: assign(row) copies it and returns a view of the copy
/// (type View) that lives until the next assign(). Here as probabilities, in the scalar of the row's blocks.
template <Distribution Row>
class RowCopy {
  template <class R>
  struct ScalarOf {
    using Type = double;
  };
  template <BlockRow R>
  struct ScalarOf<R> {
    using Type = typename std::remove_cvref_t<decltype(std::declval<const R&>().block(0, 0))>::Scalar;
  };
  using Scalar = typename ScalarOf<Row>::Type;

 public:
  using View = DenseRow<Scalar>;

  View assign(const Row& row) {
    const Index size = row.vocab_size();
    copy_.resize(static_cast<std::size_t>(size));
    if constexpr (BlockRow<Row>) {
      for (Index start = 0; start < size; start += max_block_size) {
        const Index count = std::min(max_block_size, size - start);
        Eigen::Map<Eigen::Array<Scalar, Eigen::Dynamic, 1>>(copy_.data() + start, count) =
            row.block(start, count);
      }
    } else {
      for (Index x = 0; x < size; ++x)
        copy_[static_cast<std::size_t>(x)] = row.probability(static_cast<Token>(x));
    }
    return {copy_.data(), size};
  }

 private:
  std::vector<Scalar> copy_;
};

/// A row of logits, as logits: with what it has learnt about itself.
template <Distribution Row>
  requires requires(const Row& row) { row.over(row.logits().data()); }
class RowCopy<Row> {
  using Stored = typename std::remove_cvref_t<decltype(std::declval<const Row&>().logits())>::Stored;

 public:
  using View =
      std::remove_cvref_t<decltype(std::declval<const Row&>().over(static_cast<const Stored*>(nullptr)))>;

  View assign(const Row& row) {
    copy_.resize(static_cast<std::size_t>(row.vocab_size()));
    row.logits().copy_to(copy_.data());
    return row.over(copy_.data());
  }

 private:
  std::vector<Stored> copy_;
};

/// A sparse row, as its list.
template <Distribution Row>
  requires SparseRowLike<Row>
class RowCopy<Row> {
 public:
  using View = SparseRow<double>;

  View assign(const Row& row) {
    const auto size = static_cast<std::size_t>(row.support_size());
    ids_.resize(size);
    weights_.resize(size);
    for (Index k = 0; k < row.support_size(); ++k) {
      ids_[static_cast<std::size_t>(k)] = row.support(k);
      weights_[static_cast<std::size_t>(k)] = row.weight(k);
    }
    return {ids_, weights_, row.vocab_size()};
  }

 private:
  std::vector<Token> ids_;
  std::vector<double> weights_;
};

}  // namespace specdec
