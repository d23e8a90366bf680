// The two vocabulary types of the library, and the word for "no limit".
#pragma once

#if defined(min) || defined(max)
#error "specdec: min or max is a macro here: define NOMINMAX before <windows.h>, or undefine it"
#endif

#include <Eigen/Core>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace specdec {

/// A token id: 0 <= id < vocabulary size.
using Token = std::int32_t;

/// Row numbers, lengths and vocabulary sizes: Eigen's signed index.
using Index = Eigen::Index;

/// "No limit", wherever a number of tokens may have none: Options::max_new_tokens, Options::gamma, the size of a
/// model's context. The largest Index.
inline constexpr Index unlimited = std::numeric_limits<Index>::max();

namespace detail {

/// How a number of tokens or rows may be told: not as a floating-point number, which could be NaN, or more than any
/// Index.
template <class N>
concept Count = std::convertible_to<N, Index> && !std::floating_point<std::remove_cvref_t<N>>;

}  // namespace detail

}  // namespace specdec
