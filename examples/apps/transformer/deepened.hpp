// Makes a larger target with equal logits, for measurements.
//
// Speculative decoding saves target calls. How many it saves depends only on the probabilities of the two models. How much
// time it saves depends on the cost of a call, and so on whether the weights come from a cache or from memory. Layers that
// add nothing change only the cost. They do not make a better model: the same draft model would guess a model that was
// trained at this size less often.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <stdexcept>

#include "transformer/error.hpp"
#include "transformer/shape.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// The model with `layers` layers and unchanged logits, to the bit. Added layers are copies of the model's own layers, in
/// turn. But the two matrices that write to the stream between the layers are zero.
/// Throws: std::invalid_argument if the model has more layers.
/// Cost: calls, weights and caches cost as much as for any model of that shape, because zeros are stored, read and
/// multiplied like other numbers.
template <class Scalar>
Weights<Scalar> deepened(Weights<Scalar> weights, Index layers) {
  const Shape& shape = weights.shape;
  const Index own = shape.n_layers;
  if (layers < own)
    fail<std::invalid_argument>("transformer: expected at least ", own, " layers, the model's own, found ",
                                layers);
  weights.layers.reserve(static_cast<std::size_t>(layers));
  for (Index i = own; i < layers; ++i) {
    weights.layers.push_back(weights.layers[static_cast<std::size_t>(i % own)]);
    weights.layers.back().output.set_rows(0, Eigen::MatrixXf::Zero(shape.dim, shape.dim));
    weights.layers.back().down.set_rows(0, Eigen::MatrixXf::Zero(shape.dim, shape.hidden_dim));
  }
  weights.shape.n_layers = layers;
  return weights;
}

}  // namespace transformer
