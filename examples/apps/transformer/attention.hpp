// Grouped-query causal attention over a KV cache.
// Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762, equation 1; Ainslie et al., "GQA:
// Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", arXiv:2305.13245, section
// 2.2.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/rotation.hpp"
#include "transformer/shape.hpp"
#include "transformer/sparse_cache.hpp"
#include "transformer/tree.hpp"

namespace transformer {

/// The keys and values of one layer: one slot for each token of the context and of a tree after it. They are stored in
/// panels, like the weights, because they are matrices that multiply a few vectors: K q are the scores of a query, Vᵀ p is
/// the output.
class KeyValueCache {
 public:
  explicit KeyValueCache(const Shape& shape)
      : keys_(static_cast<std::size_t>(shape.n_kv_heads),
              Panels<float>(shape.context_size, shape.head_size())),
        values_(static_cast<std::size_t>(shape.n_kv_heads),
                Panels<float>(shape.head_size(), shape.context_size)) {}

  Index heads() const { return static_cast<Index>(keys_.size()); }

  /// Sets the key and the value of one head in a slot.
  void set(Index head, Index slot, const float* key, const float* value) {
    Panels<float>& keys = keys_[static_cast<std::size_t>(head)];
    Panels<float>& values = values_[static_cast<std::size_t>(head)];
    for (Index i = 0; i < keys.cols(); ++i) {
      keys(slot, i) = key[i];
      values(i, slot) = value[i];
    }
  }

  /// Copies the keys and values of all heads from one slot to another.
  void copy(Index from, Index to) {
    for (Panels<float>& keys : keys_)
      for (Index i = 0; i < keys.cols(); ++i) keys(to, i) = keys(from, i);
    for (Panels<float>& values : values_)
      for (Index i = 0; i < values.rows(); ++i) values(i, to) = values(i, from);
  }

  /// The keys and the values of the slots from number `begin` on, up to `end`.
  /// Pre: `begin` is the first slot of a panel.
  PanelView<float> keys(Index head, Index begin, Index end) const {
    const Panels<float>& keys = keys_[static_cast<std::size_t>(head)];
    return keys.block(begin, end - begin, 0, keys.cols());
  }
  PanelView<float> values(Index head, Index begin, Index end) const {
    const Panels<float>& values = values_[static_cast<std::size_t>(head)];
    return values.block(0, values.rows(), begin, end - begin);
  }

 private:
  std::vector<Panels<float>> keys_, values_;  // one for each head
};

/// The number of tokens that attention takes at a time.
inline constexpr Index attended_at_once = 16;

/// The buffers of attention, shared by the layers.
///
/// Several tokens are taken at a time, each with all queries of a group, so that keys and values are read once for all of
/// them. A token's sums do not depend on the other tokens: a token that is not on its path has a weight of exactly 0.
///
/// The tokens are a tree after the context; a line is a tree, too. A token's number gives its slot, and its depth gives its
/// position. It is rotated and summed as if its path lay in the slots directly after the context.
class Attention {
 public:
  explicit Attention(const Shape& shape)
      : head_size_(shape.head_size()),
        group_(shape.group()),
        rotation_(shape),
        key_(Eigen::ArrayXf::Zero(head_size_)),
        slots_(static_cast<std::size_t>(shape.context_size)),
        queries_(Eigen::ArrayXXf::Zero(padded(head_size_), attended_at_once * group_)),
        weights_(Eigen::ArrayXXf::Zero(padded(shape.context_size), attended_at_once * group_)),
        read_(Eigen::ArrayXXf::Zero(padded(head_size_), attended_at_once * group_)) {}

  /// Puts the keys and values of a token of the tree into the cache. The tree stands after `context` tokens.
  void remember(Index context, const Tree& tree, Index token, const float* keys, const float* values,
                KeyValueCache& cache) {
    for (Index head = 0; head < cache.heads(); ++head) {
      rotation_(context + tree.depth(token), keys + head * head_size_, 1, key_.data());
      cache.set(head, context + token, key_.data(), values + head * head_size_);
    }
  }

  /// Writes the attention outputs of the tokens of the tree from number `token` on to `out`: one column a token, head after
  /// head. `queries` has one column a token, too. Of the context, only the tokens of `seen` are read.
  template <class Queries, class Out>
  void operator()(Index context, const SparseCache& seen, const Tree& tree, Index token,
                  const Queries& queries, const KeyValueCache& cache, Out&& out) {
    const SparseCache::Gap gap = seen.gap(context);
    for (Index first = 0; first < queries.cols(); first += attended_at_once) {
      const Index count = std::min(attended_at_once, queries.cols() - first);
      for (Index head = 0; head < cache.heads(); ++head)
        attend(context, gap, tree, token + first, queries.middleCols(first, count), cache, head,
               out.middleCols(first, count));
    }
  }

 private:
  // The scores of the slots before the gap, and of those after it, stand together in weights_.
  template <class Queries, class Out>
  void attend(Index context, const SparseCache::Gap& gap, const Tree& tree, Index token,
              const Queries& queries, const KeyValueCache& cache, Index head, Out&& out) {
    const Index vectors = queries.cols() * group_, length = context + token + queries.cols();
    const float scale = 1 / std::sqrt(static_cast<float>(head_size_));
    for (Index v = 0; v < vectors; ++v) {
      const Index position = context + tree.depth(token + v / group_);
      rotation_(position, &queries.coeffRef((head * group_ + v % group_) * head_size_, v / group_),
                scale * rotation_.sharpness(position), queries_.col(v).data());
    }
    const Vectors turned{queries_.data(), vectors, queries_.rows()};
    if (gap.begin > 0) product(cache.keys(head, 0, gap.begin), turned, weights_.data(), weights_.rows());
    product(cache.keys(head, gap.end, length), turned, weights_.data() + gap.begin, weights_.rows());
    for (Index v = 0; v < vectors; ++v)
      weigh(context - gap.size(), tree, token + v / group_, length - gap.size(), weights_.col(v).data());
    product(cache.values(head, gap.end, length), {weights_.data() + gap.begin, vectors, weights_.rows()},
            read_.data(), read_.rows());
    if (gap.begin > 0)
      add_product(cache.values(head, 0, gap.begin), {weights_.data(), vectors, weights_.rows()}, read_.data(),
                  read_.rows());
    for (Index v = 0; v < vectors; ++v)
      out.col(v / group_).segment((head * group_ + v % group_) * head_size_, head_size_) =
          read_.col(v).head(head_size_);
  }

  // Turns the scores of all slots into weights. The scores on the token's path are moved together first, so that they are
  // added in the same order and registers as on a line. Then the weights move back to the slots of their values.
  void weigh(Index context, const Tree& tree, Index token, Index length, float* scores) {
    const Index depth = tree.depth(token), moved = find_moved(context, tree, token);
    const auto slot = [&](Index d) { return slots_[static_cast<std::size_t>(d)]; };
    for (Index d = moved; d <= depth; ++d) scores[context + d] = scores[slot(d)];
    softmax(scores, context + depth + 1, length);
    for (Index d = depth; d >= moved; --d) scores[slot(d)] = std::exchange(scores[context + d], 0.0f);
  }

  // Lists the slots of the path's tokens from the returned depth on. Before that depth every token's slot is its position: a
  // token whose number is its depth stands on a line that begins at number 0.
  Index find_moved(Index context, const Tree& tree, Index token) {
    Index moved = tree.depth(token) + 1;
    for (; token >= moved; token = tree.parent(token))
      slots_[static_cast<std::size_t>(--moved)] = context + token;
    return moved;
  }

  // The softmax of the first `visible` of `length` scores; the rest becomes 0.
  static void softmax(float* scores, Index visible, Index length) {
    using Map = Eigen::Map<Eigen::ArrayXf, Eigen::AlignedMax>;
    std::fill(scores + visible, scores + padded(visible), -std::numeric_limits<float>::infinity());
    Map seen(scores, padded(visible));
    const float largest = seen.maxCoeff();
    // Not below exp(−80), because processors are slow with even smaller numbers.
    seen = (seen - largest).max(-80.0f).exp();
    std::fill(scores + visible, scores + padded(length), 0.0f);
    seen *= 1 / seen.sum();
  }

  Index head_size_, group_;
  Rotation rotation_;
  Eigen::ArrayXf key_;
  std::vector<Index> slots_;                  // of the tokens on a path, by depth
  Eigen::ArrayXXf queries_, weights_, read_;  // one column for each query
};

/// How many numbers a model keeps for each position of its context: keys and values of all layers (the heads of one of the
/// two are padded to panels), the scores of a group's queries, and rotations.
inline Index numbers_a_position(const Shape& s) {
  const Index heads = s.n_layers * s.n_kv_heads, scores = attended_at_once * s.group();
  return heads * (s.head_size() + padded(s.head_size())) + scores + s.head_size();
}

}  // namespace transformer
