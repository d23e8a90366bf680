// Temporaries that a view refuses, because they die at the end of the line.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <span>  // and std::ranges::range, which it needs itself: <ranges> takes a while to compile
#include <type_traits>

#include "specdec/eigen.hpp"

namespace specdec::inline v0_2_0::detail {

/// A Ref<const M> that was made from another type than M holds a copy. Its type does not show whether it holds one.
template <class M>
inline constexpr bool may_hold_a_copy = false;
template <class M, int Options, class Stride>
inline constexpr bool may_hold_a_copy<Eigen::Ref<const M, Options, Stride>> = true;

/// Whether T owns its memory. Eigen's matrices and arrays own it; a Map, a writable Ref and a Block do not. Vectors, arrays
/// and other ranges own it, unless they are borrowed ranges like a span.
template <class T>
inline constexpr bool owns_its_entries = [] {
  if constexpr (std::derived_from<T, Eigen::EigenBase<T>>)
    return std::derived_from<T, Eigen::PlainObjectBase<T>> || may_hold_a_copy<T>;
  else return std::ranges::range<T> && !std::ranges::borrowed_range<T>;
}();

template <class T, std::size_t extent>
inline constexpr bool owns_its_entries<std::span<T, extent>> = false;

/// A temporary that owns its entries, so they die with it. `T` is the type that a forwarding reference deduces.
template <class T>
concept OwningTemporary = !std::is_lvalue_reference_v<T> && owns_its_entries<std::remove_cvref_t<T>>;

/// A span that refuses an owning temporary.
template <class T>
struct BorrowedSpan : std::span<T> {
  BorrowedSpan() = default;
  template <class R>
    requires(!std::same_as<R, BorrowedSpan> && std::convertible_to<const R&, std::span<T>>)
  BorrowedSpan(const R& range) : std::span<T>(range) {}
  template <OwningTemporary Temporary>
  BorrowedSpan(Temporary&&) = delete;
};

}  // namespace specdec::detail
