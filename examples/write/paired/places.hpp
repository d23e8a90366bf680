// Places of texts: what a model says there, and what the target says of a tree that was drafted there.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#include "generate/pair.hpp"

namespace paired {

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A model whose rows are probabilities at a temperature, in memory. An enumeration reads each row many times, and should not
/// have to normalise it each time.
class Softmax {
 public:
  Softmax(generate::Model& model, double temperature) : model_(model), temperature_(temperature) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return model_.context_size(); }
  const Rows& forward(std::span<const Token> tokens, Index rows) {
    return normalised(model_.forward(tokens, rows));
  }
  const Rows& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return normalised(model_.forward(tokens, parents, rows));
  }
  void truncate(Index length) { model_.truncate(length); }
  void keep(std::span<const Index> path) { model_.keep(path); }

 private:
  const Rows& normalised(const generate::Model::Logits& logits) {
    rows_ = Rows::Zero(logits.rows(), logits.cols());
    for (Index i = 0; i < rows_.rows(); ++i) {
      Index likeliest = 0;
      const double most = logits.row(i).maxCoeff(&likeliest);
      auto row = rows_.row(i);
      if (temperature_ > 0) {
        row = ((logits.row(i).cast<double>().array() - most) / temperature_).exp();
        row /= row.sum();
      } else {
        row[likeliest] = 1;
      }
    }
    return rows_;
  }

  generate::Model& model_;
  double temperature_;
  Rows rows_;
};

/// Places of a text are so many tokens apart: neighbours are much alike.
inline constexpr Index tokens_apart = 3;

/// A text that a model has written, and places in it.
struct Text {
  Tokens all;    ///< the prompt, and what was written
  Index prompt;  ///< how many tokens the prompt has

  Index places() const { return (std::ssize(all) - prompt) / tokens_apart; }
  /// The context at a place. The first place is after the prompt.
  std::span<const Token> before(Index place) const {
    return std::span(all).first(static_cast<std::size_t>(prompt + place * tokens_apart));
  }
};

/// Texts with so many places, which the model writes alone.
inline std::vector<Text> written(Softmax& model, std::span<const Tokens> prompts, Index places) {
  std::vector<Text> texts;
  specdec::SplitMix64 rng{1};
  const specdec::Options options{.max_new_tokens = places * tokens_apart};
  for (const Tokens& prompt : prompts) {
    const auto result = specdec::autoregressive<specdec::TokenVerifier>(model, prompt, options, rng);
    texts.push_back({prompt, std::ssize(prompt)});
    texts.back().all.insert(texts.back().all.end(), result.tokens.begin(), result.tokens.end());
  }
  return texts;
}

/// The target beside drafts, from place to place of a text.
class Judge {
 public:
  explicit Judge(Softmax& target) : target_(target) {}

  /// Call before the first place of a text.
  void begin_text() {
    target_.truncate(0);
    read_ = 0;
  }

  /// The target's rows after the context and after each token of the tree, from one call. They live until the next call.
  /// Pre: the context begins with the context of the call before.
  const Rows& rows(std::span<const Token> context, std::span<const Token> tokens,
                   std::span<const Index> parents) {
    tokens_.assign(context.begin() + read_, context.end());
    const Index last = std::ssize(tokens_) - 1;  // the tree follows this token
    parents_.resize(tokens_.size());
    std::iota(parents_.begin(), parents_.end(), Index{-1});
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    for (const Index parent : parents) parents_.push_back(last + 1 + parent);
    const Rows& rows = target_.forward(tokens_, parents_, std::ssize(tokens) + 1);
    // All but the last token of the context stay. The next call reads that token again, for the row after it.
    std::vector<Index> path(static_cast<std::size_t>(last));
    std::iota(path.begin(), path.end(), Index{0});
    target_.keep(path);
    read_ = std::ssize(context) - 1;
    return rows;
  }

 private:
  Softmax& target_;
  Index read_ = 0;
  Tokens tokens_;
  std::vector<Index> parents_;
};

}  // namespace paired
