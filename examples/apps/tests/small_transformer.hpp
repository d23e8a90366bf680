// Shared by the tests of the transformer: models with random weights, their files, and the forward pass of the papers, in
// double and without a cache.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/message_of.hpp"
#include "support/temporary_file.hpp"
#include "transformer/checkpoint.hpp"
#include "transformer/shape.hpp"
#include "transformer/sparse_cache.hpp"
#include "transformer/sublayers.hpp"

namespace support {

using Eigen::Index;
using transformer::Part;
using transformer::Shape;

/// Any of the sublayers of `layers` layers.
inline transformer::Sublayers random_sublayers(std::mt19937& rng, Index layers) {
  auto some = transformer::Sublayers::first(layers);
  for (Index i = 0; i < some.size(); ++i)
    if (rng() % 3 == 0) some = some.without(i);
  return some;
}

/// A part of a context of some 50 tokens.
inline transformer::SparseCache random_sparse_cache(std::mt19937& rng) {
  return {static_cast<Index>(rng() % 20), static_cast<Index>(rng() % 20)};
}

/// A Llama model with random weights.
struct RandomModel {
  using Matrix = Eigen::MatrixXd;

  Shape shape;
  std::map<Part, std::vector<Matrix>> parts;

  /// If `halves`, the weights are rounded to halves, so that every format holds them exactly.
  RandomModel(const Shape& s, unsigned seed, bool halves = true) : shape(s) {
    std::mt19937 rng{seed};
    const auto add = [&](Part part, Index copies, Index rows, Index cols, double mean, double spread) {
      std::normal_distribution<double> normal{mean, spread};
      for (Index i = 0; i < copies; ++i) {
        Matrix m(rows, cols);
        for (double& x : m.reshaped()) {
          const float drawn = static_cast<float>(normal(rng));
          x = static_cast<double>(halves ? static_cast<float>(Eigen::half(drawn)) : drawn);
        }
        parts[part].push_back(m);
      }
    };
    const Index layers = s.n_layers, kv_dim = s.kv_dim();
    const double spread = 1.5 / std::sqrt(static_cast<double>(s.dim));
    add(Part::embedding, 1, s.vocab_size, s.dim, 0, 1);
    add(Part::attention_norm, layers, 1, s.dim, 1, 0.3);
    add(Part::query, layers, s.dim, s.dim, 0, spread);
    add(Part::key, layers, kv_dim, s.dim, 0, spread);
    add(Part::value, layers, kv_dim, s.dim, 0, spread);
    add(Part::output, layers, s.dim, s.dim, 0, spread);
    add(Part::ffn_norm, layers, 1, s.dim, 1, 0.3);
    add(Part::w1, layers, s.hidden_dim, s.dim, 0, spread);
    add(Part::w2, layers, s.dim, s.hidden_dim, 0, spread);
    add(Part::w3, layers, s.hidden_dim, s.dim, 0, spread);
    add(Part::final_norm, 1, 1, s.dim, 1, 0.3);
    if (!s.shared_classifier) add(Part::classifier, 1, s.vocab_size, s.dim, 0, 1);
  }

  const Matrix& part(Part p, Index i = 0) const { return parts.at(p)[static_cast<std::size_t>(i)]; }

  /// The logits after each token, one row for each.
  Matrix logits(const std::vector<std::int32_t>& tokens) const {
    return logits(tokens, static_cast<Index>(tokens.size()), {});
  }
  /// The logits, if the tokens after the first `taken` ones run only through these sublayers, which may not read all of the
  /// first `taken` tokens.
  Matrix logits(const std::vector<std::int32_t>& tokens, Index taken,
                const transformer::Sublayers& sublayers) const {
    const Index n = static_cast<Index>(tokens.size());
    Matrix x(n, shape.dim);
    for (Index t = 0; t < n; ++t) x.row(t) = part(Part::embedding).row(tokens[static_cast<std::size_t>(t)]);
    for (Index l = 0; l < shape.n_layers; ++l) {
      const Index attend = sublayers.attention(l) ? n : taken, feed = sublayers.feed_forward(l) ? n : taken;
      const Matrix added = attention(rms_norm(x, part(Part::attention_norm, l)), l, taken, sublayers.seen()) *
                           part(Part::output, l).transpose();
      x.topRows(attend) += added.topRows(attend);
      const Matrix h = rms_norm(x, part(Part::ffn_norm, l));
      const Matrix gate = h * part(Part::w1, l).transpose(), up = h * part(Part::w3, l).transpose();
      const Matrix silu = gate.unaryExpr([](double g) { return g / (1 + std::exp(-g)); });
      x.topRows(feed) += (silu.cwiseProduct(up) * part(Part::w2, l).transpose()).topRows(feed);
    }
    const Part classifier = shape.shared_classifier ? Part::embedding : Part::classifier;
    return rms_norm(x, part(Part::final_norm)) * part(classifier).transpose();
  }

  /// The bytes of the legacy format.
  std::string legacy() const {
    std::string bytes;
    for (const Index n : {shape.dim, shape.hidden_dim, shape.n_layers, shape.n_heads, shape.n_kv_heads,
                          shape.shared_classifier ? shape.vocab_size : -shape.vocab_size, shape.context_size})
      append(bytes, static_cast<std::int32_t>(n));
    for (const Part p : {Part::embedding, Part::attention_norm, Part::query, Part::key, Part::value,
                         Part::output, Part::ffn_norm, Part::w1, Part::w2, Part::w3, Part::final_norm})
      append_part<float>(bytes, p);
    const float unread = std::numeric_limits<float>::max();
    for (Index i = 0; i < shape.context_size * shape.head_size(); ++i) append(bytes, unread);
    append_part<float>(bytes, Part::classifier);
    return bytes;
  }

  /// The bytes of version 1 (Scalar float) or 16 (half).
  template <class Scalar>
  std::string versioned() const {
    std::string bytes;
    append(bytes, std::uint32_t{0x616b3432});
    append(bytes, std::int32_t{sizeof(Scalar) == 2 ? 16 : 1});
    for (const Index n : {shape.dim, shape.hidden_dim, shape.n_layers, shape.n_heads, shape.n_kv_heads,
                          shape.vocab_size, shape.context_size})
      append(bytes, static_cast<std::int32_t>(n));
    append(bytes, std::uint8_t{shape.shared_classifier});
    bytes.resize(256);
    for (const Part p :
         {Part::attention_norm, Part::ffn_norm, Part::final_norm, Part::embedding, Part::query, Part::key,
          Part::value, Part::output, Part::w1, Part::w2, Part::w3, Part::classifier})
      append_part<Scalar>(bytes, p);
    return bytes;
  }

 private:
  template <class Scalar>
  void append_part(std::string& bytes, Part p) const {
    const auto found = parts.find(p);
    if (found == parts.end()) return;
    for (const Matrix& m : found->second)
      for (Index i = 0; i < m.rows(); ++i)
        for (Index j = 0; j < m.cols(); ++j) append(bytes, static_cast<Scalar>(static_cast<float>(m(i, j))));
  }

  static Matrix rms_norm(const Matrix& x, const Matrix& weights) {
    Matrix y = x;
    for (Index t = 0; t < x.rows(); ++t) {
      const double mean_square = x.row(t).squaredNorm() / static_cast<double>(x.cols());
      y.row(t) = x.row(t).cwiseProduct(weights) / std::sqrt(mean_square + 1e-5);
    }
    return y;
  }

  // The speed of the pair that begins with number i. If the context is longer than the trained one, pairs with fewer than 4
  // turns in the trained context are slower: by the ratio of the contexts from a quarter of a turn down.
  double speed(Index i) const {
    const double plain = std::pow(10000, -static_cast<double>(i) / static_cast<double>(shape.head_size()));
    const auto trained = static_cast<double>(shape.trained_context);
    const double turns = trained * plain / (2 * std::acos(-1.0));
    if (shape.trained_context == 0 || turns >= 4) return plain;
    const double slow = plain * trained / static_cast<double>(shape.context_size);
    return turns <= 0.25 ? slow : slow + (plain - slow) * (turns - 0.25) / 3.75;
  }

  // Whether token t sees token s <= t.
  static bool sees(Index t, Index s, Index taken, const transformer::SparseCache& seen) {
    if (t < taken || s >= taken || seen.first >= taken || seen.latest >= taken) return true;
    return s < (seen.first + 15) / 16 * 16 || s >= (taken - seen.latest) / 16 * 16;
  }

  // Head h of row t of m, with its pairs rotated.
  Eigen::VectorXd turned(const Matrix& m, Index t, Index h) const {
    const Index size = shape.head_size();
    Eigen::VectorXd head = m.row(t).segment(h * size, size);
    for (Index i = 0; i < size; i += 2) {
      const double angle = static_cast<double>(t) * speed(i);
      const double a = head(i), b = head(i + 1);
      head(i) = a * std::cos(angle) - b * std::sin(angle);
      head(i + 1) = b * std::cos(angle) + a * std::sin(angle);
    }
    return head;
  }

  Matrix attention(const Matrix& x, Index l, Index taken, const transformer::SparseCache& seen) const {
    const Matrix q = x * part(Part::query, l).transpose(), k = x * part(Part::key, l).transpose(),
                 v = x * part(Part::value, l).transpose();
    const Index size = shape.head_size();
    Matrix y = Matrix::Zero(x.rows(), shape.dim);
    for (Index t = 0; t < x.rows(); ++t)
      for (Index h = 0; h < shape.n_heads; ++h) {
        const Index shared = h * shape.n_kv_heads / shape.n_heads;  // the head of keys and values
        const Index trained = shape.trained_context > 0 ? shape.trained_context : shape.context_size;
        const double sharper =
            std::log(static_cast<double>(std::max(t + 1, trained))) / std::log(static_cast<double>(trained));
        Eigen::VectorXd weights(t + 1);
        for (Index s = 0; s <= t; ++s)
          weights(s) = sees(t, s, taken, seen)
                           ? std::exp(sharper * turned(q, t, h).dot(turned(k, s, shared)) /
                                      std::sqrt(static_cast<double>(size)))
                           : 0;
        weights /= weights.sum();
        for (Index s = 0; s <= t; ++s)
          y.row(t).segment(h * size, size) += weights(s) * v.row(s).segment(shared * size, size);
      }
    return y;
  }
};

}  // namespace support
