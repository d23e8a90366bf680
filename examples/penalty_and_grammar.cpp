// A penalty of the library and a processor of your own, on target and drafter alike.
#include <cstddef>
#include <iostream>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for a model whose logits like to count: after x most likely comes x + 1.
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
  void truncate(Index) {}  // it looks at the last token only

 private:
  float sharpness_;
  Eigen::MatrixXf logits_;
};

// An even digit is followed by an odd one, and the other way round.
class Alternating {
 public:
  // Changes the logits of the next token; -inf forbids one.
  void apply(Eigen::Ref<Eigen::RowVectorXf> logits) const {
    if (text_.empty()) return;
    for (Token x = 0; x < logits.size(); ++x)
      if ((x + text_.back()) % 2 == 0) logits[x] = -std::numeric_limits<float>::infinity();
  }
  // The text goes on with x; false, and nothing has happened, where it cannot. Without such tokens: void.
  bool push(Token x) {
    if (!text_.empty() && (x + text_.back()) % 2 == 0) return false;
    text_.push_back(x);
    return true;
  }
  // Takes the last n tokens back that were pushed.
  void pop(Index n) { text_.resize(text_.size() - static_cast<std::size_t>(n)); }

 private:
  std::vector<Token> text_;
};

int main() {
  const specdec::Chain chain{specdec::Temperature{0.8}, specdec::TopP{0.95}};
  const specdec::Processors processors{specdec::FrequencyPenalty{0.5, 5}, Alternating{}};

  specdec::ModelDrafter drafter{specdec::ProcessedModel{Counter{0.7f}, chain, processors}};
  specdec::SpecDec decoder{specdec::ProcessedModel{Counter{1.0f}, chain, processors}, drafter};
  std::mt19937_64 rng{2};
  const auto result = decoder.generate(std::vector<Token>{0}, {.max_new_tokens = 60}, rng);
  for (const Token x : result.tokens) std::cout << x;
  std::cout << "\n" << result.stats.block_efficiency() << " tokens per target call\n";
}
