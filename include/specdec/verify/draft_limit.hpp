// How long a draft may be.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The most tokens that a draft may have. A larger number is an error that names the argument. No useful draft is this long,
/// and statistics for each position still fit in memory.
inline constexpr Index longest_draft = Index{1} << 20;

namespace detail {

/// Throws InvalidArgument if a draft cannot have this many tokens. `name` is the argument in the message.
inline void check_drafted(const char* name, Index tokens) {
  if (tokens < 0) invalid_argument(name, " = ", tokens, " is negative");
  if (tokens > longest_draft)
    invalid_argument(name, " = ", tokens, " is more than ", longest_draft, ", the longest draft");
}

/// Throws InvalidArgument if gamma is neither a draft length nor `unlimited`.
inline void check_gamma_option(Index gamma) {
  if (gamma > longest_draft && gamma < unlimited)
    invalid_argument("gamma = ", gamma, " is more than ", longest_draft,
                     ", the longest draft, and not specdec::unlimited");
  if (gamma < unlimited) check_drafted("gamma", gamma);
}

}  // namespace detail
}  // namespace specdec
