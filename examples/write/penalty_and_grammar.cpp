// Uses a penalty of the library and a logits processor of your own, on target and draft model alike.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <iostream>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/samplers.hpp>
#include <specdec/specdec.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for a model that returns logits: x + 1 is the likeliest token after x.
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

// A grammar: an even digit is followed by an odd one, and an odd digit by an even one.
class Alternating {
 public:
  // Changes the logits of the next token. A logit of -inf forbids a token.
  void apply(Eigen::Ref<Eigen::RowVectorXf> logits) const {
    if (text_.empty()) return;
    for (Token x = 0; x < logits.size(); ++x)
      if ((x + text_.back()) % 2 == 0) logits[x] = -std::numeric_limits<float>::infinity();
  }
  // Appends x to the text. If x is forbidden, changes nothing and returns false. May be void if nothing is ever forbidden.
  bool push(Token x) {
    if (!text_.empty() && (x + text_.back()) % 2 == 0) return false;
    text_.push_back(x);
    return true;
  }
  // Takes the last n pushed tokens back.
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
