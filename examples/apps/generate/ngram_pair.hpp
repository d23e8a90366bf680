// Two n-gram models of the bytes of a text file.
// SPDX-License-Identifier: MIT
#pragma once

#include <fstream>
#include <memory>
#include <specdec/more/models/ngram.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "generate/pair.hpp"

namespace generate {

/// An n-gram model that returns logits: the logarithms of its probabilities.
class NgramLogits {
 public:
  explicit NgramLogits(specdec::NgramModel model) : model_(std::move(model)) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Model::Logits forward(std::span<const Token> tokens, Index rows) {
    logits_ = model_.forward(tokens, rows).array().log().template cast<float>();
    return Model::Logits(logits_.data(), rows, vocab_size(), Eigen::OuterStride<>(vocab_size()));
  }
  void truncate(Index length) { model_.truncate(length); }

 private:
  specdec::NgramModel model_;
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> logits_;
};

/// Throws: std::runtime_error if no text can be read.
inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()))
    throw std::runtime_error("cannot read any text from '" + path + "'");
  return content.str();
}

/// Throws: std::runtime_error if no text can be read, std::invalid_argument on orders that do not fit.
inline Pair ngram_pair(const std::string& path, Index order, Index draft_order) {
  const std::string text = read_text(path);
  if (draft_order > order)
    throw std::invalid_argument("--draft-order " + std::to_string(draft_order) + " is above --order " +
                                std::to_string(order));

  const auto encode = [](std::string_view bytes) {
    Tokens tokens;
    for (const char c : bytes) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  };
  const auto target = specdec::NgramModel::train(encode(text), {.order = order, .vocab_size = 256});
  return {.target = erased(std::make_shared<NgramLogits>(target)),
          .draft = erased(std::make_shared<NgramLogits>(target.with_order(draft_order))),
          .early_exit = {},
          .skip_layers = {},
          .description = "n-grams of " + path + ": order " + std::to_string(order) +
                         ", the draft model order " + std::to_string(draft_order) + "; a token is a byte\n",
          .note = {},
          .encode = encode,
          .decode = [](Token, Token token) { return std::string(1, static_cast<char>(token)); },
          .stop_tokens = {}};
}

}  // namespace generate
