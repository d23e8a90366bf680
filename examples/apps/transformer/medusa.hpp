// Medusa: heads on the target's last state, each of which drafts one place of a line or tree. Beside them stands a Markov
// term, so that a row also follows from the token before it.
// Source: Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads", arXiv:2401.10774,
// section 2.1.1; before it Stern et al., "Blockwise Parallel Decoding for Deep Autoregressive Models", arXiv:1811.03115. Here
// the matrix of a residual block has low rank, and the classifier of all heads is the target's own, which the paper copies
// for each head and trains. The Markov term: DSpark, arXiv:2607.05147.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/feed_forward.hpp"
#include "transformer/layers.hpp"
#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/transformer.hpp"
#include "transformer/weight_file.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// The weights of Medusa's heads. train/medusa.py describes the file.
template <class Scalar>
struct MedusaWeights {
  Index vocab_size = 0;
  Index dim = 0;     ///< numbers of the target's state
  Index heads = 0;   ///< K
  Index hidden = 0;  ///< numbers inside the block of a head
  Index rank = 0;    ///< of the Markov term; 0: there is none
  Eigen::ArrayXf norm;
  Panels<Scalar> down;             ///< of all heads, one after another; each begins at a whole panel
  std::vector<Panels<Scalar>> up;  ///< one for each head
  Panels<Scalar> before, after;    ///< the Markov term: U and V, a row for each token

  /// Throws: std::runtime_error if the file cannot be read, is of another kind or size, or holds a number that is not
  /// finite. The message names the file.
  static MedusaWeights read(const std::string& path) {
    WeightFile file(path, 0x7564656d, "Medusa");
    MedusaWeights weights;
    weights.read_header(file);
    weights.take(file);
    file.end();
    return weights;
  }

 private:
  void read_header(const WeightFile& file) {
    vocab_size = file.word(2, "vocab_size");
    dim = file.word(3, "dim");
    heads = file.word(4, "heads", 1, 64);
    hidden = file.word(5, "hidden");
    rank = file.word(6, "rank", 0);
  }

  // Takes the matrices in the order of the file.
  void take(WeightFile& file) {
    norm = file.vector(dim);
    file.check_room(heads * hidden * dim);
    down = Panels<Scalar>(heads * padded(hidden), dim);
    for (Index k = 0; k < heads; ++k) down.set_rows(k * padded(hidden), file.matrix(hidden, dim));
    for (Index k = 0; k < heads; ++k) up.push_back(file.panels<Scalar>(dim, hidden));
    if (rank == 0) return;
    before = file.panels<Scalar>(vocab_size, rank);
    after = file.panels<Scalar>(vocab_size, rank);
  }
};

/// The heads, for specdec::HeadModel. A state is the target's hidden state h and the depth k in the draft:
///
///   begin(h)            (h, 0)
///   forward((h, k), t)  logits C·norm(h + U_k·SiLU(D_k·norm(h))) + V·U[t], and the next state (h, k + 1)
///
/// C and the norm before it are the target's. After K tokens the last head goes on.
///
///   transformer::Transformer<float> target("target.bin");
///   transformer::Medusa<float> medusa("medusa.bin", target);
///   target.show_hidden(medusa.layers());
///   specdec::HeadModel head{target, medusa};
///
/// Which token a row is about: let Y be the last token of the text. The target has not taken Y in, so h is the state of the
/// token before Y. The target's own output of h is the row that Y was drawn from. The first head therefore predicts two
/// tokens after the token of h: the one after Y. It does not know Y. It predicts the mean over all that might have stood in
/// its place. The second head knows neither Y nor the first drafted token, and so on: without a Markov term rows are
/// marginals. The Markov term V·U[t] repairs this in part: t is the token before the place, which is Y for the first row.
///
/// Copies share the weights, also with the target.
/// Cost: a call whose rows follow from one hidden state computes the outputs of all heads, in one product that reads the
/// classifier once, and keeps them. Every later row from that state is a copy and, with a Markov term, a product of
/// vocab_size × rank. A call whose rows follow from several states (of several texts) computes each row's own head, in one
/// product, too. No allocation once a call with as many rows was made.
/// Numeric: arithmetic in float. A token's row does not depend on the other tokens of a call or on earlier calls, to the bit.
template <class Scalar>
class Medusa {
 public:
  using Logits = typename Layers<Scalar>::Logits;

  /// Throws: std::runtime_error on a bad file, std::invalid_argument if the heads were made for another target.
  Medusa(const std::string& path, const Transformer<Scalar>& target)
      : Medusa(std::make_shared<const MedusaWeights<Scalar>>(MedusaWeights<Scalar>::read(path)),
               target.weights()) {}
  Medusa(std::shared_ptr<const MedusaWeights<Scalar>> weights, std::shared_ptr<const Weights<Scalar>> target)
      : weights_(std::move(weights)), target_(std::move(target)), last_layer_(target_->shape.n_layers) {
    check();
    hidden_ = Columns::Zero(padded(weights_->dim), 1);
    marginals_ = Columns::Zero(padded(vocab_size()), heads());
    reserve(heads());
    compute_marginals();
  }

  Index vocab_size() const { return weights_->vocab_size; }
  Index state_size() const { return weights_->dim + 1; }
  /// K.
  Index heads() const { return weights_->heads; }
  /// The layer of the target whose states are read, the last one: for Transformer::show_hidden.
  std::span<const Index> layers() const { return {&last_layer_, 1}; }

  /// Throws: std::invalid_argument if the hidden state is of another size.
  void begin(const Eigen::Ref<const Eigen::VectorXf>& hidden, Eigen::Ref<Eigen::VectorXf> state) {
    if (hidden.size() != weights_->dim)
      fail<std::invalid_argument>("Medusa: the hidden state has ", hidden.size(), " numbers, expected ",
                                  weights_->dim);
    state << hidden, 0;
  }

  Logits forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
                 Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    reserve(rows);
    put_marginals(states.rightCols(rows));
    if (weights_->rank > 0) add_markov_term(tokens.last(static_cast<std::size_t>(rows)));
    next = states;
    next.row(weights_->dim).array() += 1;
    return Logits(logits_.data(), rows, vocab_size(), Eigen::OuterStride<>(logits_.rows()));
  }

 private:
  using Columns = Eigen::ArrayXXf;  // padded with zeros

  void check() const {
    const Index vocab = target_->classifier().rows(), dim = target_->shape.dim;
    if (vocab_size() != vocab || weights_->dim != dim)
      fail<std::invalid_argument>("Medusa: the heads are for a target of ", vocab_size(),
                                  " tokens and states of ", weights_->dim, " numbers, found one of ", vocab,
                                  " and ", dim);
  }

  void reserve(Index rows) {
    if (logits_.cols() >= rows) return;
    const Index dim = padded(weights_->dim);
    given_ = states_ = normed_ = Columns::Zero(dim, rows);
    inner_ = Columns::Zero(weights_->down.rows(), rows);
    logits_ = Columns::Zero(padded(vocab_size()), rows);
    before_ = Columns::Zero(padded(weights_->rank), rows);
  }

  // Puts the outputs of the states' heads into the logits.
  template <class States>
  void put_marginals(const States& states) {
    const Index dim = weights_->dim, rows = states.cols();
    if (rows == 0) return;
    const auto head_of = [&](Index i) { return std::min(static_cast<Index>(states(dim, i)), heads() - 1); };
    if (!of_one_state(states)) {
      given_.topLeftCorner(dim, rows) = states.topRows(dim).array();
      return compute(given_, rows, rows, head_of, logits_);
    }
    if (states.col(0).head(dim) != hidden_.col(0).head(dim).matrix()) {
      hidden_.col(0).head(dim) = states.col(0).head(dim).array();
      compute_marginals();
    }
    for (Index i = 0; i < rows; ++i) logits_.col(i) = marginals_.col(head_of(i));
  }

  template <class States>
  bool of_one_state(const States& states) const {
    const Index dim = weights_->dim;
    for (Index i = 1; i < states.cols(); ++i)
      if (states.col(i).head(dim) != states.col(0).head(dim)) return false;
    return true;
  }

  void add_markov_term(std::span<const Token> tokens) {
    Index i = 0;
    for (const Token token : tokens)
      before_.col(i++).head(weights_->rank) = weights_->before.row(token).template cast<float>().transpose();
    add_product(weights_->after.view(), {before_.data(), i, before_.rows()}, logits_.data(), logits_.rows());
  }

  // The outputs of all heads from hidden_. The rows of a draft follow from one hidden state, so they are kept.
  void compute_marginals() {
    compute(
        hidden_, 1, heads(), [](Index k) { return k; }, marginals_);
  }

  // Column i of `out` is the output of head head_of(i), from column i of `hidden`, or from the only column.
  template <class HeadOf>
  void compute(const Columns& hidden, Index columns, Index count, const HeadOf& head_of, Columns& out) {
    for (Index c = 0; c < columns; ++c)
      rms_norm(hidden.col(c).data(), weights_->norm, weights_->dim, normed_.col(c).data());
    product(weights_->down.view(), {normed_.data(), columns, normed_.rows()}, inner_.data(), inner_.rows());
    for (Index c = 0; c < columns; ++c) silu(inner_.col(c).data(), inner_.rows());
    for (Index i = 0; i < count; ++i) {
      const Index c = columns == 1 ? 0 : i, k = head_of(i);
      states_.col(i) = hidden.col(c);
      add_product(weights_->up[static_cast<std::size_t>(k)].view(),
                  {&inner_(k * padded(weights_->hidden), c), 1, inner_.rows()}, states_.col(i).data(),
                  states_.rows());
      rms_norm(states_.col(i).data(), target_->final_norm, weights_->dim, normed_.col(i).data());
    }
    product(target_->classifier().view(), {normed_.data(), count, normed_.rows()}, out.data(), out.rows());
  }

  std::shared_ptr<const MedusaWeights<Scalar>> weights_;
  std::shared_ptr<const Weights<Scalar>> target_;
  Index last_layer_;
  Columns hidden_;     // the state that the marginals follow from
  Columns marginals_;  // the outputs, one column for each head
  Columns given_;      // the states of a call, if they are not one
  Columns inner_;      // inside the blocks, head after head
  Columns states_;     // after the blocks
  Columns normed_;     // before and after the blocks
  Columns before_, logits_;
};

}  // namespace transformer
