// Checks a model before anything is built on it. One of the two models here has a KV cache whose rollback forgets the positions,
// a mistake that still writes plausible text.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <iostream>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for a transformer: every cached token has a key, which depends on the position that it was given.
class Attention {
 public:
  explicit Attention(bool forgets) : forgets_(forgets) {}

  Index vocab_size() const { return 8; }

  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    rows_.resize(rows, 8);
    for (Index i = 0; i < std::ssize(tokens); ++i) {
      keys_.push_back(
          std::sin(1 + tokens[static_cast<std::size_t>(i)] + 0.1 * static_cast<double>(position_++)));
      if (const Index row = i - (std::ssize(tokens) - rows); row >= 0) rows_.row(row) = attend();
    }
    return rows_;
  }

  void truncate(Index length) {
    if (length >= std::ssize(keys_)) return;
    keys_.resize(static_cast<std::size_t>(length));
    if (!forgets_ || length == 0) position_ = length;
  }

 private:
  Eigen::RowVectorXd attend() const {
    Eigen::RowVectorXd logits = Eigen::RowVectorXd::Zero(8);
    for (std::size_t k = 0; k < keys_.size(); ++k)
      for (Index x = 0; x < 8; ++x)
        logits[x] += std::cos(static_cast<double>(x + 1) * keys_[k] * static_cast<double>(k + 1));
    const Eigen::RowVectorXd p = logits.array().exp();
    return p / p.sum();
  }

  bool forgets_;
  Index position_ = 0;
  std::vector<double> keys_;
  Eigen::MatrixXd rows_;
};

int main() {
  Attention right{false}, wrong{true};
  std::cout << specdec::testing::check_model(right) << "\n";
  std::cout << specdec::testing::check_model(wrong) << "\n";
}
