// A draft model whose output layer goes on learning from the target while texts are written.
// Source: Liu et al., "Online Speculative Decoding", arXiv:2310.07177. There the whole draft model learns, now and then, from
// rows that were collected. Here only the output layer learns, after each target call, and from the acceptance itself.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "transformer/error.hpp"
#include "transformer/feed_forward.hpp"
#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/transformer.hpp"

namespace transformer {

/// A draft model with the logits W·h + D·h. Here h is the transformer's last state, normalised, and W is its output layer.
/// D is zero at first, and learns. drafters::OnlineDrafter shows it the target's rows.
///
///   transformer::OnlineModel<float> online{transformer::Transformer<float>("draft.bin"), {.temperature = 0.8}};
///   specdec::ModelDrafter drafter{specdec::ProcessedModel{online, specdec::Temperature{0.8}}};
///   specdec::SpecDec decoder{target, drafters::OnlineDrafter{std::move(drafter), online}};
///
/// What it learns is to be accepted. At a temperature above 0 a step follows the gradient of the accepted share
/// Σ min(p, q): d/dz = q·([p > q] − Σ q·[p > q]), where q = softmax(z), and z is the logits over the temperature. At
/// temperature 0 only the likeliest tokens count. A step is then made only where they differ, and follows the gradient p − q
/// of the cross entropy: so a draft model that is right is left alone. Steps are divided by |h|² (normalised LMS). So a step
/// at rate 1 moves z at the very place where it learns by the gradient, whatever the scale of h is.
///
/// It takes lines only. truncate(0) begins another text. What was learnt stays, until forget().
/// Cost: a drafted token also costs a product with D, which is as large as the output layer. A step costs one pass that changes
/// D. No allocation. Memory: D, and for each place of the context h and a row of logits, in float.
/// Numeric: arithmetic in float. Before the first step the logits are the transformer's own, to the bit.
template <class Scalar>
class OnlineModel {
 public:
  using Logits = typename Transformer<Scalar>::Logits;

  /// The row after a token changes when the model learns: see specdec::Model.
  static constexpr bool steady_rows = false;

  struct Options {
    double temperature = 1;          ///< of the texts: of the rows that it is shown, and at which it drafts
    std::optional<float> rate = {};  ///< of a step; without it 1, or 0.1 at temperature 0
  };

  explicit OnlineModel(Transformer<Scalar> model) : OnlineModel(std::move(model), Options{}) {}
  /// Throws: std::invalid_argument unless 0 <= temperature < ∞ and 0 <= rate <= 100.
  OnlineModel(Transformer<Scalar> model, const Options& options)
      : model_(std::move(model)),
        greedy_(options.temperature == 0),
        temperature_(greedy_ ? 1 : static_cast<float>(options.temperature)),
        rate_(options.rate.value_or(greedy_ ? 0.1F : 1.0F)),
        learnt_(vocab_size(), dim()),
        states_(Columns::Zero(padded(dim()), context_size())),
        logits_(Columns::Zero(padded(vocab_size()), context_size())),
        step_(Eigen::ArrayXf::Zero(padded(vocab_size()))) {
    if (!(temperature_ > 0 && temperature_ < std::numeric_limits<float>::infinity()))
      fail<std::invalid_argument>("OnlineModel: temperature = ", options.temperature, " is no temperature");
    if (!(rate_ >= 0 && rate_ <= 100))
      fail<std::invalid_argument>("OnlineModel: rate = ", rate_, " is outside 0..100");
  }

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return model_.context_size(); }

  Logits forward(std::span<const Token> tokens, Index rows) {
    const auto own = model_.forward(tokens, rows);
    const auto states = model_.features();
    const Index first = model_.length() - rows;
    for (Index i = 0; i < rows; ++i) {
      rms_norm(states.col(i).data(), model_.weights()->final_norm, dim(), &states_(0, first + i));
      logits_.col(first + i).head(vocab_size()) = own.row(i).transpose().array();
    }
    float* const logits = &logits_(0, first);
    add_product(learnt_.view(), {&states_(0, first), rows, states_.rows()}, logits, logits_.rows());
    return Logits(logits, rows, vocab_size(), Eigen::OuterStride<>(logits_.rows()));
  }

  void truncate(Index length) noexcept { model_.truncate(length); }

  /// Learns from the target's row after the first `length` tokens of the text, and from the row that forward() returned
  /// there. The tokens may have been truncated since.
  /// Pre: forward() has returned a row there, for these tokens.
  /// Throws: std::invalid_argument if there is no such place, or if the row has another length.
  void learn(Index length, const Eigen::Ref<const Eigen::ArrayXf>& target) {
    if (length < 1 || length > context_size())
      fail<std::invalid_argument>("OnlineModel: length = ", length, " is outside 1..", context_size());
    if (target.size() != vocab_size())
      fail<std::invalid_argument>("OnlineModel: the target's row has ", target.size(),
                                  " probabilities, expected ", vocab_size());
    const auto state = states_.col(length - 1);
    const float size = state.square().sum();
    if (!(size > 0))
      fail<std::invalid_argument>("OnlineModel: no row was returned after ", length, " tokens");
    if (!find_step(logits_.col(length - 1).head(vocab_size()), target)) return;
    learnt_.add_outer(step_, rate_ * temperature_ / size, state.data());
  }

  /// Forgets what was learnt.
  void forget() { learnt_ = Panels<float>(vocab_size(), dim()); }

 private:
  using Columns = Eigen::ArrayXXf;  // padded with zeros

  Index dim() const { return model_.shape().dim; }

  // Puts the direction of a step into step_. Returns whether there is a step to make.
  template <class Row>
  bool find_step(const Row& logits, const Eigen::Ref<const Eigen::ArrayXf>& p) {
    Index wanted = 0, drafted = 0;
    p.maxCoeff(&wanted);
    const float largest = logits.maxCoeff(&drafted);
    if (greedy_ && drafted == wanted) return false;
    auto q = step_.head(vocab_size());
    q = ((logits - largest) / temperature_).exp();
    q /= q.sum();
    if (greedy_) {
      q = p - q;
    } else {
      const auto more = (p > q).template cast<float>();
      const float share = (q * more).sum();
      q *= more - share;
    }
    return true;
  }

  Transformer<Scalar> model_;
  bool greedy_;
  float temperature_, rate_;
  Panels<float> learnt_;  // D
  Columns states_;        // h, a column for each place of the context
  Columns logits_;        // the rows that were returned, likewise
  Eigen::ArrayXf step_;   // of one row of logits
};

}  // namespace transformer
