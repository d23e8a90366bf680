// What a view refuses to look at, because it would be gone with the end of the line.
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <span>  // and std::ranges::range, which it needs itself: <ranges> takes a while to compile
#include <type_traits>

namespace specdec::detail {

/// A Ref<const M> holds a copy where it was made of what is no M: nobody can tell by its type.
template <class M>
inline constexpr bool may_hold_a_copy = false;
template <class M, int Options, class Stride>
inline constexpr bool may_hold_a_copy<Eigen::Ref<const M, Options, Stride>> = true;

/// Whether it has memory of its own: a matrix or an array of Eigen's, other than a Map, a Ref to be written to or a Block; a
/// vector, an array or another range that is not borrowed, as a span is.
template <class T>
inline constexpr bool owns_its_entries = [] {
  if constexpr (std::derived_from<T, Eigen::EigenBase<T>>)
    return std::derived_from<T, Eigen::PlainObjectBase<T>> || may_hold_a_copy<T>;
  else return std::ranges::range<T> && !std::ranges::borrowed_range<T>;
}();

/// A temporary that takes its entries with it when it dies. `T` is what a forwarding reference deduces.
template <class T>
concept OwningTemporary = !std::is_lvalue_reference_v<T> && owns_its_entries<std::remove_cvref_t<T>>;

/// A span that refuses to look at such a temporary.
template <class T>
struct Borrowed : std::span<T> {
  Borrowed() = default;
  template <class R>
    requires std::convertible_to<const R&, std::span<T>>
  Borrowed(const R& range) : std::span<T>(range) {}
  template <OwningTemporary Temporary>
  Borrowed(Temporary&&) = delete;
};

}  // namespace specdec::detail
