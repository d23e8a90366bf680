// Eigen, for all headers of the library that use it. Rules, verdicts and token ids do not: verify/rules/ compiles without Eigen.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <Eigen/Core>
#include <type_traits>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

static_assert(std::is_same_v<Index, Eigen::Index>,
              "specdec needs Eigen's default index type: do not define EIGEN_DEFAULT_DENSE_INDEX_TYPE");

}  // namespace specdec
