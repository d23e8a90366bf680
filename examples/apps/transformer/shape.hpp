// The shape of a Llama model: its sizes, and whether it has its own classifier.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <ostream>

namespace transformer {

using Eigen::Index;

struct Shape {
  Index dim = 0;         ///< numbers of a token's state between the layers
  Index hidden_dim = 0;  ///< numbers of a token's state inside the feed-forward network
  Index n_layers = 0;
  Index n_heads = 0;
  Index n_kv_heads = 0;  ///< heads of keys and values; each serves n_heads / n_kv_heads query heads
  Index vocab_size = 0;
  Index context_size = 0;         ///< the most tokens of the context
  bool shared_classifier = true;  ///< whether the classifier uses the matrix of the embedding
  Index trained_context =
      0;  ///< the tokens for which the positions were made (rotation.hpp); 0: context_size

  Index head_size() const { return dim / n_heads; }
  Index kv_dim() const { return n_kv_heads * head_size(); }
  Index group() const { return n_heads / n_kv_heads; }

  /// The numbers of weights in the matrices of an attention, of a feed-forward network, and of the classifier.
  Index attention_parameters() const { return 2 * dim * dim + 2 * kv_dim() * dim; }
  Index feed_forward_parameters() const { return 3 * hidden_dim * dim; }
  Index classifier_parameters() const { return vocab_size * dim; }

  /// The number of weights.
  Index parameters() const {
    const Index layer = attention_parameters() + feed_forward_parameters() + 2 * dim;
    return n_layers * layer + dim + (shared_classifier ? 1 : 2) * classifier_parameters();
  }

  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    return out << "dim " << s.dim << ", hidden " << s.hidden_dim << ", " << s.n_layers << " layers, "
               << s.n_heads << " heads, " << s.n_kv_heads << " kv heads, vocabulary " << s.vocab_size
               << ", context " << s.context_size;
  }
};

}  // namespace transformer
