// A larger target of the same logits: an instrument for measuring.
//
// Speculative decoding saves calls of the target. How many depends on the probabilities of the two models alone;
// what that is worth, on the cost of a call, and hence on whether the weights come from a cache or from memory.
// Layers that add nothing change the latter and not the former. They make no better model: one that had been
// trained at that size would be guessed less often by the same draft.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <stdexcept>

#include "transformer/error.hpp"
#include "transformer/shape.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// The model with so many layers. Those that are added leave all logits as they are, to the bit: they are copies
/// of the model's own, in turn, but for the matrices that write to the stream between the layers, which are zero.
/// Cost: of calls, weights and caches as for any model of that shape, since zeros are kept, read and multiplied
/// like other numbers.
/// Throws: std::invalid_argument where the model has more layers.
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
