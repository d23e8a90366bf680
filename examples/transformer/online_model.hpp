// A draft model whose output layer goes on learning from the target while texts are written.
// Source: Liu et al., "Online Speculative Decoding", arXiv:2310.07177. There the whole draft model learns, now and then, from
// rows that were collected. Here only the output layer learns, after each target call, and from the acceptance itself.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <iterator>
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
/// Cost: a drafted token also costs a product with D, which is as large as the output layer. learn() costs a product with W,
/// one with D, and one pass that changes D. No allocation once a call with as many rows was made. Memory: D, and h of each
/// place of the context, in float.
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
        error_(Eigen::ArrayXf::Zero(padded(vocab_size()))) {
    if (!(temperature_ > 0 && temperature_ < std::numeric_limits<float>::infinity()))
      fail<std::invalid_argument>("OnlineModel: temperature = ", options.temperature, " is no temperature");
    if (!(rate_ >= 0 && rate_ <= 100))
      fail<std::invalid_argument>("OnlineModel: rate = ", rate_, " is outside 0..100");
    reserve(1);
  }

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return model_.context_size(); }

  Logits forward(std::span<const Token> tokens, Index rows) {
    reserve(std::min(rows, std::ssize(tokens)));
    const auto own = model_.forward(tokens, rows);
    const auto states = model_.features();
    const Index first = model_.length() - rows;
    for (Index i = 0; i < rows; ++i) {
      logits_.col(i).head(vocab_size()) = own.row(i).transpose().array();
      rms_norm(states.col(i).data(), model_.weights()->final_norm, dim(), &states_(0, first + i));
    }
    add_product(learnt_.view(), {&states_(0, first), rows, states_.rows()}, logits_.data(), logits_.rows());
    return Logits(logits_.data(), rows, vocab_size(), Eigen::OuterStride<>(logits_.rows()));
  }

  void truncate(Index length) noexcept { model_.truncate(length); }

  /// Learns from the target's row after the first `length` tokens of the text.
  /// Pre: forward() has returned a row for this place, and the tokens before it are still those of that call. They may have
  /// been truncated since.
  /// Throws: std::invalid_argument if there is no such place, or if the row has another length.
  void learn(Index length, const Eigen::Ref<const Eigen::ArrayXf>& target) {
    if (length < 1 || length > context_size())
      fail<std::invalid_argument>("OnlineModel: length = ", length, " is outside 1..", context_size());
    if (target.size() != vocab_size())
      fail<std::invalid_argument>("OnlineModel: the target's row has ", target.size(),
                                  " probabilities, expected ", vocab_size());
    const float* const state = &states_(0, length - 1);
    put_row(state);
    if (greedy_ ? put_greedy_step(target) : put_step(target))
      learnt_.add_outer(error_, rate_ * temperature_ / states_.col(length - 1).square().sum(), state);
  }

  /// Forgets what was learnt.
  void forget() { learnt_ = Panels<float>(vocab_size(), dim()); }

 private:
  using Columns = Eigen::ArrayXXf;  // padded with zeros

  Index dim() const { return model_.shape().dim; }

  void reserve(Index rows) {
    if (logits_.cols() < rows) logits_ = Columns::Zero(padded(vocab_size()), rows);
  }

  // Puts the draft model's row q at a state into error_.
  void put_row(const float* state) {
    const Vectors one{state, 1, states_.rows()};
    product(model_.weights()->classifier().view(), one, error_.data(), error_.size());
    add_product(learnt_.view(), one, error_.data(), error_.size());
    auto row = error_.head(vocab_size());
    row = ((row - row.maxCoeff()) / temperature_).exp();
    row /= row.sum();
  }

  // Replaces q by the direction of a step. Returns whether there is a step to make.
  bool put_step(const Eigen::Ref<const Eigen::ArrayXf>& p) {
    auto q = error_.head(vocab_size());
    const auto more = (p > q).template cast<float>();
    const float share = (q * more).sum();
    q *= more - share;
    return true;
  }
  bool put_greedy_step(const Eigen::Ref<const Eigen::ArrayXf>& p) {
    auto q = error_.head(vocab_size());
    Index wanted = 0, drafted = 0;
    p.maxCoeff(&wanted);
    q.maxCoeff(&drafted);
    q = p - q;
    return wanted != drafted;
  }

  Transformer<Scalar> model_;
  bool greedy_;
  float temperature_, rate_;
  Panels<float> learnt_;  // D
  Columns states_;        // h, a column for each place of the context
  Columns logits_;        // of a call
  Eigen::ArrayXf error_;  // of a row: q, then the step of its logits
};

}  // namespace transformer
