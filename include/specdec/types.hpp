// The two vocabulary types of the library.
#pragma once

#if defined(min) || defined(max)
#error "specdec: min or max is a macro here: define NOMINMAX before <windows.h>, or undefine it"
#endif

#include <Eigen/Core>
#include <cstdint>

namespace specdec {

/// A token id: 0 <= id < vocabulary size.
using Token = std::int32_t;

/// Row numbers, lengths and vocabulary sizes: Eigen's signed index.
using Index = Eigen::Index;

}  // namespace specdec
