// Processors of your own, on target and drafter alike: a penalty on what was said, and a grammar.
#include <algorithm>
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

int main() {
  // Called for every row before the chain: the tokens the row follows, and its logits to be changed. It depends on
  // these alone. What it is shown may be a draft that breaks the grammar: then nothing needs to be right, only defined.
  const auto hook = [](std::span<const Token> context,
                       Eigen::Ref<Eigen::Matrix<float, 1, Eigen::Dynamic>> logits) {
    for (const Token x : context.last(std::min<std::size_t>(context.size(), 5)))
      logits[x] -= 0.5f;            // said lately
    for (Token x = 0; x < 10; ++x)  // an even digit is followed by an odd one, and the other way round
      if ((x + context.back()) % 2 == 0) logits[x] = -std::numeric_limits<float>::infinity();
  };
  const specdec::Chain chain{specdec::Temperature{0.8}, specdec::TopP{0.95}};

  specdec::ModelDrafter drafter{specdec::ProcessedModel{Counter{0.7f}, chain, hook}};
  specdec::SpecDec decoder{specdec::ProcessedModel{Counter{1.0f}, chain, hook}, drafter};
  std::mt19937_64 rng{2};
  const auto result = decoder.generate(std::vector<Token>{0}, {.max_new_tokens = 60}, rng);
  for (const Token x : result.tokens) std::cout << x;
  std::cout << "\n" << result.stats.block_efficiency() << " tokens per target call\n";
}
