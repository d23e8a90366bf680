// Rows of one of several types, known only at run time. A chain of drafters proposes with such rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>
#include <variant>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/read/segments.hpp"
#include "specdec/rows/row_adaptor.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// f(number of the held type, held value). Types may be equal, so what it returns may depend on the number.
template <std::size_t k = 0, class F, class... T>
auto visit_by_number(const std::variant<T...>& held, const F& f) {
  if constexpr (k + 1 < sizeof...(T))
    if (held.index() != k) return visit_by_number<k + 1>(held, f);
  return f(std::in_place_index<k>, std::get<k>(held));
}

}  // namespace detail

/// A row of one of the types R.... It offers argmax, sums or a list if all types offer them. It offers segments if each type
/// has segments or a list, and not all have lists. So a residual against it is one fused pass, whichever row it holds.
/// Cost: one branch per call more than the held row.
/// Numeric: segments in double.
template <Distribution... R>
class VariantRow : public detail::RowAdaptor<VariantRow<R...>, detail::Keeps::all, R...> {
  static constexpr bool has_segments = ((SegmentedRow<R> || ListedRow<R>)&&...) && !(ListedRow<R> && ...);
  using Segment = detail::GatheredSegment<R...>;

 public:
  /// Holds a row of the type that `kind`, a std::in_place_index or std::in_place_type, says.
  template <class Kind, class Row>
  VariantRow(Kind kind, const Row& row) : row_(kind, row) {}

  /// The held row.
  const std::variant<R...>& held() const { return row_; }
  /// What f returns for the held row.
  decltype(auto) ask(const auto& f) const { return std::visit(f, row_); }

  /// The held row before temperature, cuts and hooks, where it knows that; else the held row.
  auto unprocessed() const
    requires(detail::KnowsUnprocessed<R> || ...)
  {
    using Raw = VariantRow<decltype(before_processing(std::declval<const R&>()))...>;
    return detail::visit_by_number(
        row_, [](auto kind, const auto& row) { return Raw(kind, before_processing(row)); });
  }

  /// The probabilities of `count` <= max_segment_size tokens from `start` on.
  Segment segment(Index start, Index count) const
    requires has_segments
  {
    return ask([&]<class Row>(const Row& row) -> Segment {
      if constexpr (!ListedRow<Row>) return row.segment(start, count).template cast<double>();
      Segment segment = Segment::Zero(count);
      detail::add_stretch(row, 1.0, start, segment);
      return segment;
    });
  }

  auto sampler() const {
    using Sampler = std::variant<decltype(std::declval<const R&>().sampler())...>;
    return [draw = detail::visit_by_number(row_, [](auto kind, const auto& row) {
              return Sampler(kind, row.sampler());
            })](double u) mutable { return std::visit([u](auto& sampler) { return sampler(u); }, draw); };
  }

 private:
  template <class Row>
  static auto before_processing(const Row& row) {
    if constexpr (detail::KnowsUnprocessed<Row>) return row.unprocessed();
    else return row;
  }

  std::variant<R...> row_;
};

/// A matrix of one of the types M.... All its rows are of the type VariantRow. A type may occur twice.
///
/// It has vocab_size() if any of the types has it. vocab_size() is 0 if the held matrix fits any vocabulary.
template <Probabilities... M>
class VariantRows {
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
  Row row(Index i) const {
    return detail::visit_by_number(matrix_, [i](auto kind, const auto& matrix) {
      const auto rows = distributions(matrix);
      return Row(kind, rows.row(i));
    });
  }

 private:
  template <class Matrix>
  static Index size([[maybe_unused]] const Matrix& matrix) {
    if constexpr (has_vocab_size<Matrix>) return matrix.vocab_size();
    else return 0;
  }

  std::variant<M...> matrix_;
};

}  // namespace specdec
