// Shows the smallest backend: the three functions that a class needs to be a target, or a draft model in a ModelDrafter.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <iostream>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

// Stands for a language model over the digits. The likeliest token after x is x + 1, and more so with a larger `sharpness`.
class Counter {
 public:
  explicit Counter(double sharpness) : sharpness_(sharpness) {}

  specdec::Index vocab_size() const { return 10; }

  // Appends the tokens to the context. Row i is the distribution after the i-th of the last `rows` tokens. The rows live
  // until the next call. A transformer would run once over `tokens` here and fill its KV cache.
  const Eigen::MatrixXd& forward(std::span<const specdec::Token> tokens, specdec::Index rows);

  // Keeps the first `length` tokens of the context: the rollback of the KV cache after a rejection. Does nothing if the
  // context is not longer: a text begins with truncate(0), also on an empty context.
  void truncate(specdec::Index length);

 private:
  double sharpness_;
  std::vector<specdec::Token> context_;
  Eigen::MatrixXd rows_;
};

const Eigen::MatrixXd& Counter::forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
  context_.insert(context_.end(), tokens.begin(), tokens.end());
  rows_.resize(rows, vocab_size());
  for (specdec::Index i = 0; i < rows; ++i) {
    const specdec::Token last = context_[context_.size() - static_cast<std::size_t>(rows - i)];
    for (specdec::Token x = 0; x < vocab_size(); ++x)
      rows_(i, x) = std::exp(-sharpness_ * ((x - last + 9) % 10));
    rows_.row(i) /= rows_.row(i).sum();
  }
  return rows_;
}

void Counter::truncate(specdec::Index length) {
  if (length < static_cast<specdec::Index>(context_.size()))
    context_.resize(static_cast<std::size_t>(length));
}

int main() {
  Counter target{1.5}, small{1.0};
  specdec::ModelDrafter drafter{small};
  specdec::SpecDec decoder{target, drafter, specdec::BlockVerifier{}};

  std::mt19937_64 rng{42};
  const std::vector<specdec::Token> prompt{0};
  const specdec::Result result = decoder.generate(prompt, {.max_new_tokens = 60, .gamma = 4}, rng);
  for (const specdec::Token token : result.tokens) std::cout << token;
  std::cout << "\n" << result.stats;
}
