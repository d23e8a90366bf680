// Rows of one of several types, known only at run time. A chain of drafters proposes with such rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/row_adaptor.hpp"

namespace specdec::inline v0_2_0 {

/// A row of one of the types R.... It offers argmax, sums or a list if all types offer them. It offers segments if each type
/// has segments or a list, and not all have lists. So a residual against it is one fused pass, whichever row it holds.
///
/// Cost: one branch per call more than the held row.
/// Numeric: segments in double.
template <Distribution... R>
class VariantRow : public detail::RowAdaptor<VariantRow<R...>, detail::Keeps::all, R...> {
  static constexpr bool has_segments = ((SegmentedRow<R> || ListedRow<R>)&&...) && !(ListedRow<R> && ...);
  using Segment = detail::GatheredSegment<R...>;

 public:
  /// Holds a row of type number k.
  template <std::size_t k, class Row>
  VariantRow(std::in_place_index_t<k> kind, const Row& row) : row_(kind, row) {}

  /// The held row.
  const std::variant<R...>& held() const { return row_; }
  /// What f returns for the held row.
  template <class F>
  decltype(auto) ask(F&& f) const {
    return std::visit(std::forward<F>(f), row_);
  }

  /// The held row before temperature, cuts and hooks, where it knows that; else the held row.
  auto unprocessed() const
    requires(detail::KnowsUnprocessed<R> || ...)
  {
    return unprocessed_of<0>();
  }

  /// The probabilities of `count` <= max_segment_size tokens from `start` on.
  Segment segment(Index start, Index count) const
    requires has_segments
  {
    return ask([=](const auto& row) -> Segment {
      if constexpr (ListedRow<std::remove_cvref_t<decltype(row)>>) return spread(row, start, count);
      else return row.segment(start, count).template cast<double>();
    });
  }

  auto sampler() const {
    return [draw = sampler_of<0>()](double u) mutable {
      return std::visit([u](auto& sampler) { return sampler(u); }, draw);
    };
  }

 private:
  template <class Row>
  static auto before_processing(const Row& row) {
    if constexpr (detail::KnowsUnprocessed<Row>) return row.unprocessed();
    else return row;
  }
  template <std::size_t k>
  auto unprocessed_of() const {
    using Raw = VariantRow<decltype(before_processing(std::declval<const R&>()))...>;
    if constexpr (k + 1 < sizeof...(R))
      if (row_.index() != k) return unprocessed_of<k + 1>();
    return Raw(std::in_place_index<k>, before_processing(std::get<k>(row_)));
  }

  // Listed probabilities among zeros.
  template <ListedRow Row>
  static Segment spread(const Row& row, Index start, Index count) {
    Segment segment = Segment::Zero(count);
    for (Index k = detail::lower_bound(row, start); k < row.support_size() && row.support(k) < start + count;
         ++k) {
      detail::check_ascending(row, k, start);
      segment[row.support(k) - start] = row.listed(k);
    }
    return segment;
  }

  // Chosen by number, since several types of rows may have one type of sampler.
  template <std::size_t k>
  auto sampler_of() const {
    using Sampler = std::variant<decltype(std::declval<const R&>().sampler())...>;
    if constexpr (k + 1 < sizeof...(R))
      if (row_.index() != k) return sampler_of<k + 1>();
    return Sampler(std::in_place_index<k>, std::get<k>(row_).sampler());
  }

  std::variant<R...> row_;
};

/// A matrix of one of the types M.... All its rows are of the type VariantRow. A type may occur twice.
///
/// It has vocab_size() if any of the types has it. vocab_size() is 0 if the held matrix fits any vocabulary.
template <Probabilities... M>
class VariantRows {
  template <class Matrix>
  using DistributionsOf = decltype(distributions(std::declval<const Matrix&>()));

 public:
  using Row = VariantRow<RowOf<DistributionsOf<M>>...>;

  /// Holds a matrix of type number k.
  template <std::size_t k, class Matrix>
  VariantRows(std::in_place_index_t<k> kind, const Matrix& matrix) : matrix_(kind, matrix) {}

  Index rows() const {
    return std::visit([](const auto& matrix) -> Index { return distributions(matrix).rows(); }, matrix_);
  }
  Index vocab_size() const
    requires(has_vocab_size<DistributionsOf<M>> || ...)
  {
    return std::visit([](const auto& matrix) { return size(distributions(matrix)); }, matrix_);
  }
  Row row(Index i) const { return row_of<0>(i); }

 private:
  template <class Matrix>
  static Index size([[maybe_unused]] const Matrix& matrix) {
    if constexpr (has_vocab_size<Matrix>) return matrix.vocab_size();
    else return 0;
  }

  template <std::size_t k>
  Row row_of(Index i) const {
    if constexpr (k + 1 < sizeof...(M))
      if (matrix_.index() != k) return row_of<k + 1>(i);
    const auto rows = distributions(std::get<k>(matrix_));
    return Row(std::in_place_index<k>, rows.row(i));
  }

  std::variant<M...> matrix_;
};

}  // namespace specdec
