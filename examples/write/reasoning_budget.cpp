// Limits how long a model thinks before it answers. The tokens that the limit forces are drafted without a draft model.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/samplers/reasoning_budget.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view talk =
    "Q: who built the house? <think>the malt lay in the house, and the rat ate the malt, and the cat killed "
    "the rat that "
    "ate the malt that lay in the house that Jack built.</think> It was Jack. ";

// The tokens of this example are letters.
std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

// The logits of a model that has learnt from the talk.
struct Letters {
  specdec::NgramModel model;
  Eigen::MatrixXd logits = {};

  Index vocab_size() const { return model.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    return logits = model.forward(tokens, rows).array().log();
  }
  void truncate(Index length) { model.truncate(length); }
};

template <class Drafter>
void show(const specdec::ReasoningBudget& budget, const specdec::NgramModel& model, Drafter drafter) {
  specdec::SpecDec decoder{specdec::ProcessedModel{Letters{model}, budget}, drafter,
                           specdec::ArgmaxVerifier{}};
  std::mt19937_64 rng{1};
  const specdec::Options options{.max_new_tokens = 300, .gamma = 8, .stop_tokens = {'.'}};
  const auto result = decoder.generate(letters("Q: who built the house? <think>"), options, rng);
  for (const Token x : result.tokens) std::cout << static_cast<char>(x);
  std::cout << "\n" << result.stats.block_efficiency() << " tokens per target call\n";
}

int main() {
  const auto model = specdec::NgramModel::train(letters(talk), {.order = 12, .vocab_size = 128});
  const specdec::ReasoningBudget budget{{.start = letters("<think>"),
                                         .end = letters("</think>"),
                                         .tokens = 30,
                                         .message = letters(", enough")}};

  specdec::ForcedTokens forced{budget, model.vocab_size()};
  show(budget, model, forced);
  specdec::ModelDrafter small{specdec::ProcessedModel{Letters{model.with_order(3)}, budget}};
  show(budget, model, specdec::FallbackDrafter{forced, small});
}
