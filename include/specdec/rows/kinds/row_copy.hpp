// Copies of rows, for models that overwrite their rows before the draft is verified.
// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/eigen.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/sparse.hpp"
#include "specdec/rows/read/each_segment.hpp"

namespace specdec::inline v0_2_0 {

/// Memory for a copy of a row, reused. assign(row) copies the row, and returns a View of the copy, up to the next assign().
template <class Row>
class RowCopy;

/// Copies probabilities, in the scalar of the row's segments.
template <Distribution Row>
class RowCopy<Row> {
  template <class R>
  struct ScalarOf {
    using Type = double;
  };
  template <SegmentedRow R>
  struct ScalarOf<R> {
    using Type = typename std::remove_cvref_t<decltype(std::declval<const R&>().segment(0, 0))>::Scalar;
  };
  using Scalar = typename ScalarOf<Row>::Type;

 public:
  using View = DenseRow<Scalar>;

  View assign(const Row& row) & {
    const Index size = row.vocab_size();
    detail::resize(copy_, size);
    detail::each_segment(row, [this](const auto& ids, const auto& p) {
      Eigen::Map<Eigen::Array<Scalar, Eigen::Dynamic, 1>>(copy_.data() + ids(0), p.size()) = p;
    });
    return {copy_.data(), size};
  }

  /// In place of a copy, a row of this size in which all tokens are equally likely.
  View uniform(const Row& like) & {
    const Index vocab_size = like.vocab_size();
    detail::assign(copy_, vocab_size, static_cast<Scalar>(1.0 / static_cast<double>(vocab_size)));
    return {copy_.data(), vocab_size};
  }

 private:
  std::vector<Scalar> copy_;
};

/// Copies a row of logits as logits, together with its normaliser if that is known.
template <Distribution Row>
  requires detail::MovesToCopy<Row>
class RowCopy<Row> {
  using Stored = typename std::remove_cvref_t<decltype(std::declval<const Row&>().logits())>::Stored;

 public:
  using View =
      std::remove_cvref_t<decltype(std::declval<const Row&>().over(static_cast<const Stored*>(nullptr)))>;

  View assign(const Row& row) & {
    detail::resize(copy_, row.vocab_size());
    row.logits().copy_to(copy_.data());
    return row.over(copy_.data());
  }

  View uniform(const Row& like) &
        requires detail::BeginsAnew<Row, View, Stored>
  {
    detail::assign(copy_, like.vocab_size(), Stored(0));
    return like.anew(copy_.data());
  }

 private:
  std::vector<Stored> copy_;
};

/// Copies numbers as they are stored.
template <Real S, int Stride>
class RowCopy<NumberRow<S, Stride>> {
 public:
  using View = NumberRow<S>;

  View assign(const NumberRow<S, Stride>& row) & {
    detail::resize(copy_, row.size());
    row.copy_to(copy_.data());
    return {copy_.data(), row.size()};
  }

 private:
  std::vector<S> copy_;
};

/// Copies a row that lists its tokens as a list.
template <Distribution Row>
  requires ListedRow<Row>
class RowCopy<Row> {
 public:
  using View = SparseRow<double>;

  View assign(const Row& row) & {
    ids_.clear();
    probabilities_.clear();
    detail::each_segment(row, [this](const auto& ids, const auto& p) {
      for (Index k = 0; k < p.size(); ++k) {
        ids_.push_back(ids(k));
        probabilities_.push_back(p[k]);
      }
    });
    return {ids_, probabilities_, row.vocab_size()};
  }

  View uniform(const Row& like) & {
    const Index vocab_size = like.vocab_size();
    ids_.clear();
    for (Index x = 0; x < vocab_size; ++x) ids_.push_back(static_cast<Token>(x));
    detail::assign(probabilities_, vocab_size, 1.0 / static_cast<double>(vocab_size));
    return {ids_, probabilities_, vocab_size};
  }

 private:
  std::vector<Token> ids_;
  std::vector<double> probabilities_;
};

}  // namespace specdec
