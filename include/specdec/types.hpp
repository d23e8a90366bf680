// The basic types: token ids and indices. `unlimited` means "no limit".
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace specdec::inline v0_2_0 {

/// A token id: 0 <= id < vocabulary size.
using Token = std::int32_t;

/// Row numbers, lengths and vocabulary sizes: signed, and the type of Eigen::Index (eigen.hpp checks this).
using Index = std::ptrdiff_t;

/// The largest Index: "no limit" for Options::max_new_tokens, Options::gamma and the size of a model's context.
inline constexpr Index unlimited = std::numeric_limits<Index>::max();

namespace detail {

/// The most tokens that ids can tell apart, as far as an Index can count them.
inline constexpr Index most_tokens = static_cast<Index>(
    std::min<std::int64_t>(std::int64_t{std::numeric_limits<Token>::max()} + 1, unlimited));

/// A type for a number of tokens or rows. Floating-point numbers are refused: they may be NaN or larger than any Index.
template <class N>
concept Count = std::convertible_to<N, Index> && !std::floating_point<std::remove_cvref_t<N>>;

/// An integer as another type. On a platform where both types are one, there is no cast: a compiler can warn of it.
template <std::integral To, std::integral From>
constexpr To as_type(From n) {
  if constexpr (std::is_same_v<To, From>) return n;
  else return static_cast<To>(n);
}

}  // namespace detail
}  // namespace specdec
