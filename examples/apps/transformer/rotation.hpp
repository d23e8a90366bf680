// Rotary position embedding (RoPE), and how it is stretched to contexts that are longer than those of the training.
// Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv:2104.09864, equation 15;
// Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", arXiv:2309.00071, section 3.2;
// Chiang, Cholak, "Overcoming a Theoretical Limitation of Self-Attention", arXiv:2202.12172.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "transformer/panels.hpp"
#include "transformer/shape.hpp"

namespace transformer {

/// Rotates the pairs (x_2i, x_2i+1) of a head by the angles position · 10000^(−2i/head_size). So the product of a query and
/// a key depends only on their distance. Pairs are neighbours, as in the paper and in Llama (not halves of the head).
///
/// If the context is longer than the trained one: a pair that turns 4 times or more within the trained context has seen all
/// its angles, and keeps its frequency. A pair that makes a quarter turn or less has not, so it turns as much slower as the
/// context is longer. Between a quarter turn and 4 turns, the frequency is a mix of both. This is YaRN with other bounds. Its
/// own, 1 and 32 turns, cost the shipped target more: before training, 2.48 and not 2.25 nats for each of the first 256 tokens.
class Rotation {
 public:
  explicit Rotation(const Shape& shape)
      : trained_(shape.trained_context > 0 ? shape.trained_context : shape.context_size),
        cosines_(shape.head_size() / 2, shape.context_size),
        sines_(shape.head_size() / 2, shape.context_size) {
    for (Index i = 0; i < cosines_.rows(); ++i) {
      const double turned = frequency(i, shape);
      for (Index position = 0; position < shape.context_size; ++position) {
        const double angle = static_cast<double>(position) * turned;
        cosines_(i, position) = static_cast<float>(std::cos(angle));
        sines_(i, position) = static_cast<float>(std::sin(angle));
      }
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

  /// What the query at a position is multiplied with (log-n scaling): log(n) / log(trained context) for n = position + 1
  /// tokens, and 1 within the trained context. Otherwise attention would spread thinner over more tokens. A sparse cache
  /// changes nothing here: the tokens that it leaves out had little weight.
  float sharpness(Index position) const {
    if (position < trained_) return 1;
    return static_cast<float>(std::log(static_cast<double>(position + 1)) /
                              std::log(static_cast<double>(trained_)));
  }

 private:
  // The angle by which pair i turns from one position to the next.
  double frequency(Index i, const Shape& shape) const {
    const double plain =
        std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_size()));
    if (shape.context_size <= trained_) return plain;
    const double trained = static_cast<double>(trained_), turns = trained * plain / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - 0.25) / (4 - 0.25), 0.0, 1.0);
    return plain * (kept + (1 - kept) * trained / static_cast<double>(shape.context_size));
  }

  Index trained_;                    // the tokens of the trained context
  Eigen::ArrayXXf cosines_, sines_;  // one column for each position
};

}  // namespace transformer
