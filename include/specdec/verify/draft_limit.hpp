// How long a draft may be.
#pragma once

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The most tokens that a draft may have: far more than is ever worth drafting, and few enough that there is memory
/// for what is counted by position. More is an error that names the argument.
inline constexpr Index longest_draft = Index{1} << 20;

namespace detail {

/// Of a number of drafted tokens, which `name` tells.
inline void check_drafted(const char* name, Index tokens) {
  if (tokens < 0) invalid_argument(name, " = ", tokens, " is negative");
  if (tokens > longest_draft)
    invalid_argument(name, " = ", tokens, " is more than ", longest_draft, ", the longest draft");
}

/// Of a draft length that may be left open.
inline void check_gamma_option(Index gamma) {
  if (gamma > longest_draft && gamma < unlimited)
    invalid_argument("gamma = ", gamma, " is more than ", longest_draft,
                     ", the longest draft, and not specdec::unlimited");
  if (gamma < unlimited) check_drafted("gamma", gamma);
}

}  // namespace detail
}  // namespace specdec
