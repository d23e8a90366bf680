// Writes many texts at a time, with one target call a step. Texts may join and end at any step.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";

// The tokens of this example are letters.
std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

void print(std::span<const Token> tokens) {
  for (const Token x : tokens) std::cout << static_cast<char>(x);
}

int main() {
  const specdec::NgramModel target =
      specdec::NgramModel::train(letters(rhyme), {.order = 8, .vocab_size = 128});

  // Each text gets its own copy of a model for one text. An engine that takes many texts in one call is a BatchModel.
  specdec::ModelPerSequence large{target}, small{target.with_order(3)};
  specdec::Batch batch{large, specdec::ModelDrafter{small}};
  const specdec::Options until_a_dot{.max_new_tokens = 200, .gamma = 6, .stop_tokens = {'.'}};
  batch.add(letters("This is the"), until_a_dot, std::mt19937_64{4});
  batch.add(letters("the rat"), until_a_dot, std::mt19937_64{5});
  for (Index steps = 0; !batch.empty(); ++steps) {
    if (steps == 2) batch.add(letters("Jack"), until_a_dot, std::mt19937_64{6});  // a text may join here
    for (const specdec::Finished& finished : batch.step()) {
      std::cout << "text " << finished.sequence << ":";
      print(finished.result.tokens);
      std::cout << "\n";
    }
  }
  std::cout << batch.target_calls() << " calls of the target\n";
}
