// The normalisation and the activations of feed-forward networks.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cmath>

#include "transformer/panels.hpp"

namespace transformer {

/// RMSNorm of a vector of `size` numbers (Zhang, Sennrich, arXiv:1910.07467, equation 4).
/// Shapes: `x` and `out` are padded with zeros to weights.size(), which is a multiple of 16.
/// Pre: x and out are aligned like Eigen arrays.
inline void rms_norm(const float* x, const Eigen::ArrayXf& weights, Index size, float* out) {
  using Eigen::AlignedMax, Eigen::ArrayXf, Eigen::Map;
  const Map<const ArrayXf, AlignedMax> from(x, weights.size());
  const float mean_square = from.square().sum() / static_cast<float>(size);
  Map<ArrayXf, AlignedMax>(out, weights.size()) = from * (1 / std::sqrt(mean_square + 1e-5f)) * weights;
}

/// SwiGLU (Shazeer, arXiv:2002.05202, equation 6): replaces the first half of a vector by SiLU(first half) · second half.
/// Shapes: `size` is a multiple of 32. Pre: the vector is aligned like an Eigen array.
inline void swiglu(float* vector, Index size) {
  using Map = Eigen::Map<Eigen::ArrayXf, Eigen::AlignedMax>;
  Map gate(vector, size / 2), up(vector + size / 2, size / 2);
  gate *= up / (1 + (-gate).exp());
}

/// SiLU: replaces each number x of a vector by x / (1 + exp(-x)).
/// Shapes: `size` is a multiple of 16. Pre: the vector is aligned like an Eigen array.
inline void silu(float* vector, Index size) {
  Eigen::Map<Eigen::ArrayXf, Eigen::AlignedMax> x(vector, size);
  x /= 1 + (-x).exp();
}

}  // namespace transformer
