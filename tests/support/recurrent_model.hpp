// A model with a state that cannot be cut back. It records what it is fed, and fails on request.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <specdec/more/models/replayed.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/strict.hpp"

namespace support {

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("a call") {}
};

// h' = tanh(A h + B e_x), and the next token by softmax(C h').
class RecurrentModel {
 public:
  struct Snapshot {
    Eigen::VectorXd state;
    specdec::Index length = 0;
  };
  struct Row {
    Eigen::VectorXd p;
    specdec::Index vocab_size() const { return p.size(); }
    double probability(specdec::Token x) const { return p[x]; }
    specdec::Token argmax() const {
      Eigen::Index x = 0;
      p.maxCoeff(&x);
      return static_cast<specdec::Token>(x);
    }
  };

  RecurrentModel(specdec::Index vocab_size, std::uint64_t seed)
      : a_(numbers(3, 3, seed)),
        b_(numbers(3, vocab_size, seed + 1)),
        c_(2 * numbers(vocab_size, 3, seed + 2)) {}

  specdec::Index vocab_size() const { return c_.rows(); }
  specdec::Index length() const { return length_; }

  const Eigen::MatrixXd& forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    fail_in_turn();
    check_call(tokens, rows, vocab_size());
    output_.resize(rows, vocab_size());
    const specdec::Index first = static_cast<specdec::Index>(tokens.size()) - rows;
    for (specdec::Index i = 0; const specdec::Token x : tokens) {
      take_in(x, state_);
      if (fed) ++(*fed)[length_];
      ++length_;
      if (i >= first) output_.row(i - first) = probabilities(state_).transpose();
      ++i;
    }
    if (calls) ++*calls;
    fail_in_turn();
    return output_;
  }
  void save(Snapshot& snapshot) {
    snapshot.length = -1;
    if (fails_in-- == 0) throw Failure();
    snapshot.state = state_;
    snapshot.length = length_;
  }
  void restore(const Snapshot& snapshot) {
    fail_in_turn();
    state_ = snapshot.state;
    length_ = snapshot.length;
    fail_in_turn();
  }

  Row distribution(std::span<const specdec::Token> context) const {
    Eigen::Vector3d state = Eigen::Vector3d::Zero();
    for (const specdec::Token x : context) take_in(x, state);
    return {probabilities(state)};
  }

  std::map<specdec::Index, int>* fed = nullptr;  // counts how often each place of the context was fed
  specdec::Index* calls = nullptr;
  int fails_in = -1;  // how many chances to fail pass before it fails

 private:
  // Fails, and leaves a state that belongs to no text.
  void fail_in_turn() {
    if (fails_in-- != 0) return;
    state_.setConstant(0.25);
    length_ += 100;
    throw Failure();
  }

  static Eigen::MatrixXd numbers(specdec::Index rows, specdec::Index cols, std::uint64_t seed) {
    specdec::SplitMix64 generator(seed);
    return Eigen::MatrixXd::NullaryExpr(rows, cols, [&] { return 3 * specdec::uniform01(generator) - 1.5; });
  }
  void take_in(specdec::Token x, Eigen::Vector3d& state) const {
    state = (a_ * state + b_.col(x)).array().tanh().matrix().eval();
  }
  Eigen::VectorXd probabilities(const Eigen::Vector3d& state) const {
    const Eigen::VectorXd weights = (c_ * state).array().exp();
    return weights / weights.sum();
  }

  Eigen::Matrix3d a_;
  Eigen::MatrixXd b_, c_;
  Eigen::Vector3d state_ = Eigen::Vector3d::Zero();
  specdec::Index length_ = 0;
  Eigen::MatrixXd output_;
};

// Many texts, each with its own state. The logits of all rows are in one matrix.
class RecurrentModels {
 public:
  using Snapshot = RecurrentModel::Snapshot;
  using Index = specdec::Index;

  explicit RecurrentModels(const RecurrentModel& fresh) : fresh_(fresh) {}

  Index vocab_size() const { return fresh_.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const specdec::BatchFeed> feeds) {
    ++calls;
    Index rows = 0;
    for (const specdec::BatchFeed& feed : feeds) rows += feed.rows;
    output_.resize(rows, vocab_size());
    rows = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      RecurrentModel& model = of(feed.sequence);
      check_feed(feed, model.length(), 0, vocab_size());
      output_.middleRows(rows, feed.rows) =
          model.forward(feed.tokens, std::max<Index>(feed.rows, 1)).bottomRows(feed.rows);
      rows += feed.rows;
    }
    return output_;
  }
  void save(Index sequence, Snapshot& snapshot) { of(sequence).save(snapshot); }
  void restore(Index sequence, const Snapshot& snapshot) { of(sequence).restore(snapshot); }
  void release(Index sequence) { models_.erase(sequence); }

  RecurrentModel& of(Index sequence) { return models_.try_emplace(sequence, fresh_).first->second; }
  Index size() const { return static_cast<Index>(models_.size()); }

  Index calls = 0;

 private:
  RecurrentModel fresh_;
  std::map<Index, RecurrentModel> models_;
  Eigen::MatrixXd output_;
};

}  // namespace support
