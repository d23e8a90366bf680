// The logits that a model returns: how they are kept and changed.
// SPDX-License-Identifier: MIT
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "specdec/eigen.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Whether a model returns rows that are spread over ranks.
template <class Output>
consteval bool returns_spread_rows() {
  if constexpr (DistributionMatrix<std::remove_cvref_t<Output>>)
    return detail::SpreadRow<RowOf<std::remove_cvref_t<Output>>>;
  else return false;
}

/// Some columns of a matrix of logits; other ranks have the others: specdec::LogitColumns, of specdec/more/ranks.
template <class Logits>
concept ColumnsOfLogits = requires { typename Logits::RowToChange; };

/// The numbers that a model returned, with rows(), cols() and row(i): all columns, or some.
template <class Logits>
auto numbers_of(const Logits& logits) {
  if constexpr (ColumnsOfLogits<Logits>) return logits;
  else return numbers(logits);
}

/// Copies `count` rows from number `first` on, to the first rows of a matrix that grows as needed.
template <class Out>
void copy_rows(const auto& from, Index first, Index count, Out& out) {
  if (out.rows() < count || out.cols() != from.cols()) out.resize(count, from.cols());
  for (Index i = 0; i < count; ++i) from.row(first + i).read(0, from.cols(), out.row(i).data());
}

/// The type of a row of logits that is changed in place, in the arithmetic of the model's logits.
template <class Logits>
struct RowToChange {
  using Scalar = typename decltype(numbers(std::declval<const Logits&>()).row(0))::Scalar;
  using Type = Eigen::Ref<Eigen::Matrix<Scalar, 1, Eigen::Dynamic>>;
};
template <ColumnsOfLogits Logits>
struct RowToChange<Logits> {
  using Type = typename Logits::RowToChange;
};
template <class Logits>
using LogitsRef = typename RowToChange<std::remove_cvref_t<Logits>>::Type;

/// The type in which logits that a model returns by value are kept. Empty for other logits: the model keeps them.
template <class Logits>
auto kept_as() {
  using Value = std::remove_cvref_t<Logits>;
  if constexpr (!OwningTemporary<Logits>) return std::type_identity<std::tuple<>>{};
  else if constexpr (requires { typename Value::PlainObject; })
    return std::type_identity<typename Value::PlainObject>{};
  else return std::type_identity<Value>{};
}

}  // namespace specdec::detail
