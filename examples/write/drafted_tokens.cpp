// Tells of each token whether it was drafted, as servers report it.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <iostream>
#include <random>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <vector>

using specdec::Token;

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";

std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

int main() {
  const auto text = letters(rhyme);
  specdec::NgramModel target = specdec::NgramModel::train(text, {.order = 8, .vocab_size = 128});
  std::mt19937_64 rng{4};
  const auto prompt = letters("This is the ");

  specdec::SpecDec decoder{target, specdec::ModelDrafter{target.with_order(3)}, specdec::BlockVerifier{}};
  const specdec::Result result = decoder.generate(prompt, {.max_new_tokens = 60, .gamma = 4}, rng);
  std::string shown, marks;
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    shown += static_cast<char>(result.tokens[i]);
    marks += result.drafted[i] ? '.' : '^';  // ^: the target's own
  }
  std::cout << shown << "\n" << marks << "\n";
}
