// A sequence in the caller's hands: streamed, stepped, stopped, and taken up again.
#include <iostream>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Token;

// The text is its own training set: what matters here is who is in charge.
constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";

std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

void print(std::span<const Token> tokens) {
  for (const Token x : tokens) std::cout << static_cast<char>(x);
}

int main() {
  const auto text = letters(rhyme);
  specdec::NgramModel target = specdec::NgramModel::train(text, {.order = 8, .vocab_size = 128});
  specdec::ModelDrafter drafter{target.with_order(3)};  // an order of 3 is a draft model for one of 8
  specdec::SpecDec decoder{target, drafter};
  std::mt19937_64 rng{4};

  std::cout << "Streamed, up to the first full stop:\n  ";
  decoder.generate(letters("This"), {.max_new_tokens = 200, .gamma = 6}, rng,
                   [](std::span<const Token> emitted) {
                     print(emitted);  // as it comes, a target call at a time
                     for (const Token x : emitted)
                       if (x == '.') return false;
                     return true;
                   });

  std::cout << "\nStepped, a bar for each target call:\n  ";
  auto sequence = decoder.start(letters("This is the"), {.max_new_tokens = 40, .gamma = 6});
  while (!sequence.done()) {
    print(sequence.step(rng));
    std::cout << "|";
  }

  std::cout << "\nTaken up again with another word, of which alone the models take notice:\n  ";
  std::vector<Token> context(sequence.context().begin(), sequence.context().end());
  for (const Token x : letters(" The cat")) context.push_back(x);
  sequence.resume(context, {.max_new_tokens = 30, .gamma = 6});
  while (!sequence.done()) print(sequence.step(rng));
  std::cout << "\n" << sequence.stats().block_efficiency() << " tokens per target call\n";
}
