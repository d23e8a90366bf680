// The weights of a Llama model as the transformer reads them: in panels, and matrices that multiply the same vector are
// joined.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "transformer/checkpoint.hpp"
#include "transformer/long_context.hpp"
#include "transformer/panels.hpp"
#include "transformer/shape.hpp"

namespace transformer {

template <class Scalar>
struct Weights {
  struct Layer {
    Eigen::ArrayXf attention_norm, ffn_norm;
    Panels<Scalar> query_key_value, output, gate_up, down;
  };

  Shape shape;
  Panels<Scalar> embedding, own_classifier;
  std::vector<Layer> layers;
  Eigen::ArrayXf final_norm;

  const Panels<Scalar>& classifier() const { return shape.shared_classifier ? embedding : own_classifier; }

  // The first rows of the parts of the joined matrices. All parts begin at whole panels.
  Index key_row() const { return padded(shape.dim); }
  Index value_row() const { return key_row() + padded(shape.kv_dim()); }
  Index up_row() const { return padded(shape.hidden_dim); }

  /// Reads a checkpoint, and changes it by an adapter, if there is one.
  /// Throws: std::runtime_error on a bad file (checkpoint.hpp), if the adapter is for models of another shape, and if a weight
  /// is too large for Scalar.
  static Weights read(const std::string& path, const LongContext* adapter = nullptr) {
    Checkpoint checkpoint(path);
    Weights weights(adapter ? adapter->stretched(checkpoint.shape()) : checkpoint.shape());
    checkpoint.read([&](Part part, Index layer, const Checkpoint::Matrix& of_file) {
      Checkpoint::Matrix changed;
      if (adapter) changed = adapter->changed(part, layer, of_file);
      const Checkpoint::Matrix& matrix = adapter ? changed : of_file;
      // The largest half is 65504; numbers from 65520 on would be rounded to infinity.
      if (std::is_same_v<Scalar, Eigen::half> && !(matrix.cwiseAbs().maxCoeff() < 65520))
        fail<std::runtime_error>(path, ": holds a weight that is too large for half precision");
      weights.set(part, layer, matrix);
    });
    return weights;
  }

  explicit Weights(const Shape& s) : shape(s), embedding(s.vocab_size, s.dim) {
    if (!s.shared_classifier) own_classifier = Panels<Scalar>(s.vocab_size, s.dim);
    for (Index i = 0; i < s.n_layers; ++i)
      layers.push_back({{},
                        {},
                        Panels<Scalar>(value_row() + s.kv_dim(), s.dim),
                        Panels<Scalar>(s.dim, s.dim),
                        Panels<Scalar>(up_row() + s.hidden_dim, s.dim),
                        Panels<Scalar>(s.dim, s.hidden_dim)});
  }

  /// Stores a matrix of a checkpoint.
  void set(Part part, Index index, const Checkpoint::Matrix& matrix) {
    Layer& layer = layers[static_cast<std::size_t>(index)];
    switch (part) {
      case Part::embedding:
        return embedding.set_rows(0, matrix);
      case Part::attention_norm:
        return set_vector(layer.attention_norm, matrix);
      case Part::query:
        return layer.query_key_value.set_rows(0, matrix);
      case Part::key:
        return layer.query_key_value.set_rows(key_row(), matrix);
      case Part::value:
        return layer.query_key_value.set_rows(value_row(), matrix);
      case Part::output:
        return layer.output.set_rows(0, matrix);
      case Part::ffn_norm:
        return set_vector(layer.ffn_norm, matrix);
      case Part::w1:
        return layer.gate_up.set_rows(0, matrix);
      case Part::w2:
        return layer.down.set_rows(0, matrix);
      case Part::w3:
        return layer.gate_up.set_rows(up_row(), matrix);
      case Part::final_norm:
        return set_vector(final_norm, matrix);
      case Part::classifier:
        return own_classifier.set_rows(0, matrix);
      case Part::rotations:
        return;  // rotations are not weights
    }
  }

 private:
  static void set_vector(Eigen::ArrayXf& vector, const Checkpoint::Matrix& matrix) {
    vector = Eigen::ArrayXf::Zero(padded(matrix.cols()));
    vector.head(matrix.cols()) = matrix.row(0).transpose().array();
  }
};

}  // namespace transformer
