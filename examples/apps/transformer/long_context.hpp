// An adapter that lets a model read contexts that are longer than those of its training.
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", arXiv:2106.09685, section 4.1. How positions are
// stretched: rotation.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "transformer/checkpoint.hpp"
#include "transformer/error.hpp"
#include "transformer/shape.hpp"
#include "transformer/weight_file.hpp"

namespace transformer {

/// What is added to the query and key matrices of a model, as products of two thin matrices, and the norms before its
/// attentions, anew. train/long_context.py trains it, and describes the file.
///
///   transformer::Transformer<float> target("target.bin", transformer::LongContext::read("long_context.bin"));
class LongContext {
 public:
  using Matrix = Checkpoint::Matrix;

  /// The longest context that a file may ask for.
  static constexpr Index longest = Index{1} << 17;

  /// Throws: std::runtime_error if the file cannot be read, is of another kind or size, or holds a number that is not
  /// finite. The message names the file.
  static LongContext read(const std::string& path) {
    WeightFile file(path, 0x676e6f6c, "adapter for long contexts");
    LongContext adapter;
    adapter.path_ = path;
    adapter.dim_ = file.word(2, "dim");
    adapter.kv_dim_ = file.word(3, "kv_dim");
    const Index layers = file.word(4, "the number of layers"), rank = file.word(5, "rank");
    adapter.trained_context_ = file.word(6, "the trained context", 2, longest);
    adapter.context_size_ = file.word(7, "the context", adapter.trained_context_, longest);
    for (Index l = 0; l < layers; ++l) adapter.layers_.push_back(adapter.layer(file, rank));
    file.end();
    return adapter;
  }

  /// The model's shape, with the long context.
  /// Throws: std::runtime_error if the adapter is for models of another shape.
  Shape stretched(Shape shape) const {
    const auto expect = [this](const char* what, Index mine, Index models, const char* unit = "") {
      if (mine != models)
        fail<std::runtime_error>(path_, ": is for a model with ", what, mine, unit, ", this one has ",
                                 models);
    };
    expect("a dim of ", dim_, shape.dim);
    expect("a kv_dim of ", kv_dim_, shape.kv_dim());
    expect("", std::ssize(layers_), shape.n_layers, " layers");
    expect("a context of ", trained_context_, shape.context_size);
    shape.trained_context = trained_context_;
    shape.context_size = context_size_;
    return shape;
  }

  /// A matrix of the model's checkpoint, with what the adapter adds to it.
  /// Pre: stretched() has accepted the model's shape.
  Matrix changed(Part part, Index index, const Matrix& matrix) const {
    if (part == Part::attention_norm) return at(index).attention_norm;
    if (part == Part::query) return matrix + at(index).query.product();
    if (part == Part::key) return matrix + at(index).key.product();
    return matrix;
  }

 private:
  struct Addition {
    Matrix down, up;  // down multiplies first
    Matrix product() const { return up * down; }
  };
  struct Layer {
    Matrix attention_norm;
    Addition query, key;
  };

  // In the order of the file.
  Layer layer(WeightFile& file, Index rank) const {
    Layer layer;
    layer.attention_norm = file.row(dim_);
    layer.query.down = file.matrix(rank, dim_);
    layer.query.up = file.matrix(dim_, rank);
    layer.key.down = file.matrix(rank, dim_);
    layer.key.up = file.matrix(kv_dim_, rank);
    return layer;
  }

  const Layer& at(Index index) const { return layers_[static_cast<std::size_t>(index)]; }

  std::string path_;
  Index dim_ = 0, kv_dim_ = 0, trained_context_ = 0, context_size_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace transformer
