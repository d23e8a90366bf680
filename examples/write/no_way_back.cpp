// Uses a recurrent model as target and as draft model. Its state is one vector, so no token can be taken back: Replayed
// restores a snapshot and feeds the kept tokens again.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/models/replayed.hpp>
#include <specdec/specdec.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for a recurrent network over the digits: if it has read x lately, it is likely to write x + 1.
class Fading {
 public:
  explicit Fading(double sharpness) : sharpness_(sharpness) {}

  Index vocab_size() const { return 10; }

  // Feeds the tokens. Row i is the distribution after the i-th of the last `rows` tokens. The rows live until the next call.
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows);

  // In place of truncate(length): saves the state, and restores a saved state.
  using Snapshot = Eigen::VectorXd;
  void save(Snapshot& snapshot) { snapshot = state_; }
  void restore(const Snapshot& snapshot) { state_ = snapshot; }

  Index taken_in() const { return taken_in_; }

 private:
  double sharpness_;
  Eigen::VectorXd state_ = Eigen::VectorXd::Zero(10);
  Eigen::MatrixXd rows_;
  Index taken_in_ = 0;
};

const Eigen::MatrixXd& Fading::forward(std::span<const Token> tokens, Index rows) {
  rows_.resize(rows, vocab_size());
  const Index first = std::ssize(tokens) - rows;
  for (Index i = 0; i < std::ssize(tokens); ++i) {
    state_ *= 0.6;
    state_[tokens[static_cast<std::size_t>(i)]] += 1;
    if (i < first) continue;
    for (Token x = 0; x < 10; ++x) rows_(i - first, x) = std::exp(sharpness_ * state_[(x + 9) % 10]);
    rows_.row(i - first) /= rows_.row(i - first).sum();
  }
  taken_in_ += std::ssize(tokens);
  return rows_;
}

int main() {
  Fading large{5}, small{4};
  specdec::Replayed target{large};
  specdec::ModelDrafter drafter{specdec::Replayed{small}};
  specdec::SpecDec decoder{target, drafter};
  std::mt19937_64 rng{2};

  const std::vector<Token> prompt(1000, 3);
  const auto result = decoder.generate(prompt, {.max_new_tokens = 60, .gamma = 4}, rng);
  for (const Token x : result.tokens) std::cout << x;
  const specdec::Stats& stats = result.stats;
  std::cout << "\n"
            << stats.target_calls << " steps, " << stats.drafted << " tokens drafted, " << stats.accepted
            << " accepted; after the prompt the target took in " << large.taken_in() - 1000
            << ", the draft model " << small.taken_in() - 1000 << "\n";
}
