// Rotary position embedding (RoPE).
// Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv:2104.09864,
// equation 15.
#pragma once

#include <Eigen/Core>
#include <cmath>

#include "transformer/panels.hpp"

namespace transformer {

/// Rotates the pairs (x_2i, x_2i+1) of a head by the angles position · 10000^(−2i/head_size). So the product of a query and
/// a key depends only on their distance. Pairs are neighbours, as in the paper and in Llama (not halves of the head).
class Rotation {
 public:
  Rotation(Index context_size, Index head_size)
      : cosines_(head_size / 2, context_size), sines_(head_size / 2, context_size) {
    for (Index position = 0; position < context_size; ++position)
      for (Index i = 0; i < head_size / 2; ++i) {
        const double speed =
            std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
        const double angle = static_cast<double>(position) * speed;
        cosines_(i, position) = static_cast<float>(std::cos(angle));
        sines_(i, position) = static_cast<float>(std::sin(angle));
      }
  }

  /// Writes the head x, rotated for `position` and multiplied by `scale`, to `turned`.
  void operator()(Index position, const float* x, float scale, float* turned) const {
    const float* cosines = cosines_.data() + position * cosines_.rows();
    const float* sines = sines_.data() + position * sines_.rows();
    for (Index i = 0; i < cosines_.rows(); ++i) {
      const float a = x[2 * i] * scale, b = x[2 * i + 1] * scale;
      turned[2 * i] = a * cosines[i] - b * sines[i];
      turned[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
  }

 private:
  Eigen::ArrayXXf cosines_, sines_;  // one column for each position
};

}  // namespace transformer
