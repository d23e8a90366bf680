// Explains why two greedy texts of one model differ: by a bug, or by rounding in the last bits of the logits.
// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for a model that computes in half precision. Its sums round differently when a call asks for several rows.
class Engine {
 public:
  Index vocab_size() const { return 50; }
  const Eigen::MatrixXf& forward(std::span<const Token> tokens, Index rows) {
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    logits_.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i) {
      const std::size_t place = context_.size() - static_cast<std::size_t>(rows - i);
      const double angle = 1.7 * context_[place] + static_cast<double>(place);
      for (Token x = 0; x < vocab_size(); ++x) {
        const double exact = 8 * std::sin(angle + 0.05 * x);
        const double added = rows == 1 ? exact : exact + 0.004 * std::sin(5.0 * x);
        logits_(i, x) = static_cast<float>(Eigen::half(static_cast<float>(added)));
      }
    }
    return logits_;
  }
  void truncate(Index length) {
    context_.resize(std::min(context_.size(), static_cast<std::size_t>(length)));
  }

 private:
  std::vector<Token> context_;
  Eigen::MatrixXf logits_;
};

int main() {
  Engine engine;
  const std::vector<Token> prompt{0};
  const specdec::Options options{.max_new_tokens = 40, .gamma = 4};
  std::mt19937_64 rng{1};
  const specdec::Chain cold{specdec::Temperature{0}};
  const auto greedy = [&](auto drafter) {
    specdec::ProcessedModel target{engine, cold};
    specdec::SpecDec decoder{target, drafter, specdec::ArgmaxVerifier{}};
    return decoder.generate(prompt, options, rng).tokens;
  };
  const std::vector<Token> alone = greedy(specdec::NoDrafter{}),
                           drafted = greedy(specdec::ModelDrafter{specdec::ProcessedModel{Engine{}, cold}});
  std::cout << specdec::testing::explain_divergence(engine, prompt, alone, drafted) << "\n";

  std::vector<Token> wrong = alone;
  wrong[2] = 7;  // what a KV cache that was not rolled back might write
  std::cout << specdec::testing::explain_divergence(engine, prompt, alone, wrong) << "\n";
}
