// Continues a conversation turn by turn: the models keep their contexts and read only the new tokens.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view script =
    "Q: who built the house? A: Jack built it. Q: what lay in the house? A: the malt lay there. "
    "Q: what ate the malt? A: the rat ate it. Q: what killed the rat? A: the cat killed it. ";

std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

// The target. It counts the tokens that it is fed.
struct Counting {
  specdec::NgramModel model;
  Index fed = 0;

  Index vocab_size() const { return model.vocab_size(); }
  auto forward(std::span<const Token> tokens, Index rows) {
    fed += std::ssize(tokens);
    return model.forward(tokens, rows);
  }
  void truncate(Index length) { model.truncate(length); }
};

int main() {
  const auto text = letters(script);
  Counting target{specdec::NgramModel::train(text, {.order = 24, .vocab_size = 128})};
  specdec::ModelDrafter drafter{target.model.with_order(5)};
  specdec::SpecDec decoder{target, drafter, specdec::ArgmaxVerifier{}};
  std::mt19937_64 rng{1};

  const specdec::Options turn{.max_new_tokens = 60, .gamma = 6, .stop_tokens = {'.'}};
  auto sequence = decoder.start(letters("Q: what ate the malt? A:"), turn);
  sequence.generate(rng);
  for (const char* question : {" Q: what killed the rat? A:", " Q: who built the house? A:"}) {
    sequence.add_turn(letters(question), turn);  // the models keep what they have read
    sequence.generate(rng);
  }

  for (const Token x : sequence.context()) std::cout << static_cast<char>(x);
  std::cout << "\n"
            << sequence.context().size() << " tokens; the target read " << target.fed
            << ", drafts included\n";
}
