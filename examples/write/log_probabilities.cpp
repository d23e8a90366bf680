// Prints the log-probability of each token twice: in the rows that are sampled, and in the raw rows before temperature and
// top-k.
// SPDX-License-Identifier: MIT
#include <iomanip>
#include <iostream>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for a model: x + 1 is the likeliest token after x.
class Counter {
 public:
  explicit Counter(float sharpness) : sharpness_(sharpness) {}
  Index vocab_size() const { return 10; }
  const Eigen::MatrixXf& forward(std::span<const Token> tokens, Index rows) {
    logits_.resize(rows, 10);
    for (Index i = 0; i < rows; ++i)
      for (Token x = 0; x < 10; ++x)
        logits_(i, x) = -sharpness_ *
                        static_cast<float>((x - tokens.last(static_cast<std::size_t>(rows - i))[0] + 9) % 10);
    return logits_;
  }
  void truncate(Index) {}  // a row depends on the last token only

 private:
  float sharpness_;
  Eigen::MatrixXf logits_;
};

int main() {
  const specdec::Chain chain{specdec::Temperature{0.8}, specdec::TopK{3}};
  specdec::ProcessedModel target{Counter{0.8f}, chain};
  specdec::SpecDec decoder{target, specdec::ModelDrafter{specdec::ProcessedModel{Counter{0.6f}, chain}}};
  std::mt19937_64 rng{7};

  const std::vector<Token> prompt{0};
  const specdec::Options options{
      .max_new_tokens = 6, .gamma = 4, .log_probabilities = {.processed = true, .raw = true, .top = 2}};
  const specdec::Result result = decoder.generate(prompt, options, rng);

  std::cout << std::fixed << std::setprecision(3) << "token   log p     raw   the likeliest two, raw\n";
  for (Index i = 0; i < result.log_probabilities.size(); ++i) {
    std::cout << std::setw(5) << result.tokens[static_cast<std::size_t>(i)] << std::setw(8)
              << result.log_probabilities[i] << std::setw(8) << result.raw_log_probabilities[i];
    for (const auto& [token, value] : result.raw_log_probabilities.top(i))
      std::cout << std::setw(5) << token << ":" << value;
    std::cout << "\n";
  }
  std::cout << "the text  " << result.log_probabilities.sum() << "\n";
}
