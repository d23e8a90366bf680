// Causal attention over a cache of keys and values, queries in groups.
// Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762, equation 1; Ainslie et al., "GQA:
// Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", arXiv:2305.13245, section
// 2.2.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/rotation.hpp"
#include "transformer/shape.hpp"

namespace transformer {

/// The keys and values of one layer, of every token of the context. They lie in panels, as the weights do, since
/// they are matrices that are multiplied by a few vectors: K q are the scores of a query, Vᵀ p what is read.
class KeyValueCache {
 public:
  explicit KeyValueCache(const Shape& shape)
      : keys_(static_cast<std::size_t>(shape.n_kv_heads),
              Panels<float>(shape.context_size, shape.head_size())),
        values_(static_cast<std::size_t>(shape.n_kv_heads),
                Panels<float>(shape.head_size(), shape.context_size)) {}

  Index heads() const { return static_cast<Index>(keys_.size()); }

  /// Sets the key and the value of one head at `position`.
  void set(Index head, Index position, const float* key, const float* value) {
    Panels<float>& keys = keys_[static_cast<std::size_t>(head)];
    Panels<float>& values = values_[static_cast<std::size_t>(head)];
    for (Index i = 0; i < keys.cols(); ++i) {
      keys(position, i) = key[i];
      values(i, position) = value[i];
    }
  }

  PanelView<float> keys(Index head, Index length) const {
    const Panels<float>& keys = keys_[static_cast<std::size_t>(head)];
    return keys.corner(length, keys.cols());
  }

  PanelView<float> values(Index head, Index length) const {
    const Panels<float>& values = values_[static_cast<std::size_t>(head)];
    return values.corner(values.rows(), length);
  }

 private:
  std::vector<Panels<float>> keys_, values_;  // one a head
};

/// How many tokens attention takes at a time.
inline constexpr Index attended_at_once = 16;

/// What attention computes with, shared by the layers.
///
/// Tokens are taken some at a time, each with all queries of a group, so that keys and values are read once for
/// them. A token's sums do not depend on the others: what lies after it has weight 0 exactly.
class Attention {
 public:
  explicit Attention(const Shape& shape)
      : head_size_(shape.head_size()),
        group_(shape.group()),
        rotation_(shape.context_size, head_size_),
        key_(Eigen::ArrayXf::Zero(head_size_)),
        queries_(Eigen::ArrayXXf::Zero(padded(head_size_), attended_at_once * group_)),
        weights_(Eigen::ArrayXXf::Zero(padded(shape.context_size), attended_at_once * group_)),
        read_(Eigen::ArrayXXf::Zero(padded(head_size_), attended_at_once * group_)) {}

  /// Puts the keys and values of a token into the cache.
  void remember(Index position, const float* keys, const float* values, KeyValueCache& cache) {
    for (Index head = 0; head < cache.heads(); ++head) {
      rotation_(position, keys + head * head_size_, 1, key_.data());
      cache.set(head, position, key_.data(), values + head * head_size_);
    }
  }

  /// Writes what the tokens from `position` on read of the cache, all heads behind one another, to `out`, one
  /// column a token. `queries` has one column a token too.
  template <class Queries, class Out>
  void operator()(Index position, const Queries& queries, const KeyValueCache& cache, Out&& out) {
    for (Index first = 0; first < queries.cols(); first += attended_at_once) {
      const Index count = std::min(attended_at_once, queries.cols() - first);
      for (Index head = 0; head < cache.heads(); ++head)
        attend(position + first, queries.middleCols(first, count), cache, head, out.middleCols(first, count));
    }
  }

 private:
  template <class Queries, class Out>
  void attend(Index position, const Queries& queries, const KeyValueCache& cache, Index head, Out&& out) {
    const Index vectors = queries.cols() * group_, length = position + queries.cols();
    const float scale = 1 / std::sqrt(static_cast<float>(head_size_));
    for (Index v = 0; v < vectors; ++v)
      rotation_(position + v / group_,
                &queries.coeffRef((head * group_ + v % group_) * head_size_, v / group_), scale,
                queries_.col(v).data());
    product(cache.keys(head, length), {queries_.data(), vectors, queries_.rows()}, weights_.data(),
            weights_.rows());
    for (Index v = 0; v < vectors; ++v) softmax(weights_.col(v).data(), position + v / group_ + 1, length);
    product(cache.values(head, length), {weights_.data(), vectors, weights_.rows()}, read_.data(),
            read_.rows());
    for (Index v = 0; v < vectors; ++v)
      out.col(v / group_).segment((head * group_ + v % group_) * head_size_, head_size_) =
          read_.col(v).head(head_size_);
  }

  // Of the first `visible` of `length` scores; the rest becomes 0.
  static void softmax(float* scores, Index visible, Index length) {
    using Map = Eigen::Map<Eigen::ArrayXf, Eigen::AlignedMax>;
    std::fill(scores + visible, scores + padded(visible), -std::numeric_limits<float>::infinity());
    Map seen(scores, padded(visible));
    const float largest = seen.maxCoeff();
    // Not below exp(−80), since processors take their time for numbers that are smaller still.
    seen = (seen - largest).max(-80.0f).exp();
    std::fill(scores + visible, scores + padded(length), 0.0f);
    seen *= 1 / seen.sum();
  }

  Index head_size_, group_;
  Rotation rotation_;
  Eigen::ArrayXf key_;
  Eigen::ArrayXXf queries_, weights_, read_;  // one column a query
};

/// Numbers that a model keeps for each position of its context: keys and values of all layers, whose heads are padded
/// to panels in one of the two, the scores of a group's queries, rotations.
inline Index numbers_a_position(const Shape& s) {
  const Index heads = s.n_layers * s.n_kv_heads, scores = attended_at_once * s.group();
  return heads * (s.head_size() + padded(s.head_size())) + scores + s.head_size();
}

}  // namespace transformer
