// What several calls of a model return, as if one had.
#pragma once

#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Refuses rows of another shape than asked for: they would be copied out of bounds.
inline void check_gathered(Index rows, Index size, Index asked, Index vocab_size) {
  if (rows != asked || size != vocab_size)
    invalid_argument("the model returned ", rows, " rows over ", size, " tokens, expected ", asked,
                     " over its vocabulary of ", vocab_size);
}

/// Copies of the rows of several calls, each of which returns an Output. No allocation in steady state.
template <class Output>
class GatheredRows {
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;

 public:
  /// Forgets what there was; room for so many rows.
  void begin(Index, Index vocab_size) {
    vocab_size_ = vocab_size;
    rows_.clear();
  }

  /// Throws: std::invalid_argument where the call returned something else than so many rows over the vocabulary.
  void add(const Output& output, Index count) {
    const auto rows = distributions(output);
    check_gathered(rows.rows(), rows.rows() > 0 ? Index{rows.row(0).vocab_size()} : Index{0}, count,
                   vocab_size_);
    for (Index i = 0; i < count; ++i) rows_.add(rows.row(i));
  }

  auto all() const& { return rows_.first(rows_.size(), vocab_size_); }

 private:
  StoredRows<Row, false> rows_;
  Index vocab_size_ = 0;
};

/// Numbers stay numbers, be they probabilities or logits, as they are stored.
template <NumberMatrix Output>
class GatheredRows<Output> {
  using Stored = typename std::remove_cvref_t<decltype(std::declval<NumbersOf<Output>&>().row(0))>::Stored;

 public:
  void begin(Index count, Index vocab_size) {
    used_ = 0;
    if (rows_.rows() < count || rows_.cols() != vocab_size) rows_.resize(count, vocab_size);
  }

  void add(const Output& output, Index count) {
    const auto rows = numbers(output);
    check_gathered(rows.rows(), rows.rows() > 0 ? rows.cols() : 0, count, rows_.cols());
    for (Index i = 0; i < count; ++i) rows.row(i).copy_to(rows_.row(used_++).data());
  }

  auto all() const& { return rows_.topRows(used_); }

 private:
  Eigen::Matrix<Stored, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows_;
  Index used_ = 0;
};

}  // namespace specdec::detail
