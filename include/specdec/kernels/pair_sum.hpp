// Sums over two rows at once.
#pragma once

#include <concepts>

#include "specdec/kernels/machine_width.hpp"
#include "specdec/kernels/reductions.hpp"

namespace specdec::detail {

/// Σ f(p[i], q[i]) over `count` pairs, whole lots. Numeric: in double.
template <class F, std::floating_point P, std::floating_point Q>
struct PairSum {
  static SPECDEC_KERNEL double run(F f, const P* p, const Q* q, Index count) {
    LotSum sum;
    double values[lot];
    for (Index start = 0; start < count; start += lot) {
      for (Index i = 0; i < lot; ++i)
        values[i] = f(static_cast<double>(p[start + i]), static_cast<double>(q[start + i]));
      sum.add(values);
    }
    return sum.total();
  }
};

}  // namespace specdec::detail
