// A draft model that reads only a window of the text.
// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <span>
#include <specdec/more/models.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>

#include "generate/pair.hpp"

namespace generate {

/// The number of first tokens in the window. A transformer pays attention to them everywhere in a text.
inline constexpr Index shown_first = 4;

/// A model that reads only the first and the latest tokens of the text, `tokens` in all.
class WindowedModel final : public Model {
 public:
  /// Throws: std::invalid_argument if the model's context holds fewer than `tokens` tokens.
  WindowedModel(std::shared_ptr<Model> model, Index tokens)
      : model_(std::move(model)), window_(*model_, shown_first, tokens - shown_first) {}

  Index vocab_size() const override { return window_.vocab_size(); }
  Index context_size() const override { return window_.context_size(); }
  Logits forward(std::span<const Token> tokens, Index rows) override {
    const auto logits = window_.forward(tokens, rows);  // each row at an address of its own
    logits_.resize(logits.rows(), logits.cols());
    for (Index i = 0; i < logits.rows(); ++i)
      logits_.row(i) = Eigen::Map<const Eigen::RowVectorXf>(logits.row(i).data(), logits.cols());
    return {logits_.data(), logits_.rows(), logits_.cols(), Eigen::OuterStride<>(logits_.cols())};
  }
  void truncate(Index length) override { window_.truncate(length); }

  bool takes_trees() const override { return false; }
  Logits forward(std::span<const Token>, std::span<const Index>, Index) override { refuse(); }
  void keep(std::span<const Index>) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("generate: a window takes no trees"); }

  std::shared_ptr<Model> model_;
  specdec::Windowed<Model&> window_;
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> logits_;
};

}  // namespace generate
