// Streams a text while it is written, and ends it by a stop token, a stop string, the caller or the clock.
// SPDX-License-Identifier: MIT
#include <chrono>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/text.hpp>
#include <specdec/specdec.hpp>
#include <string>
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
  const auto text = letters(rhyme);  // the models learn from this text; the topic is streaming
  specdec::NgramModel target = specdec::NgramModel::train(text, {.order = 8, .vocab_size = 128});
  specdec::ModelDrafter drafter{target.with_order(3)};
  specdec::SpecDec decoder{target, drafter};
  std::mt19937_64 rng{4};
  const auto prompt = letters("This is the");

  std::cout << "To a stop token, which is the last of the text:\n ";
  decoder.generate(prompt, {.max_new_tokens = 200, .gamma = 6, .stop_tokens = {'.'}}, rng, print);

  std::cout << "\nTo a stop string, of which nothing is shown:\n ";
  const auto bytes = [](Token x) { return std::string(1, static_cast<char>(x)); };  // the bytes of a token
  const specdec::Options until{
      .max_new_tokens = 200, .gamma = 6, .stop_strings = {{" killed", " lay"}, bytes}};
  specdec::TextStream stream{bytes, until};
  const specdec::Result result = decoder.generate(
      prompt, until, rng, [&](std::span<const Token> emitted) { std::cout << stream.push(emitted); });
  std::cout << stream.finish();
  if (const auto match = result.stop_match)
    std::cout << " [stopped at number " << match->string << ", after " << match->begin << " bytes]";

  std::cout << "\nUntil the caller has seen ten letters:\n ";
  std::size_t seen = 0;
  decoder.generate(prompt, {.max_new_tokens = 200, .gamma = 6}, rng, [&](std::span<const Token> emitted) {
    print(emitted);
    return (seen += emitted.size()) < 10;  // false ends the text
  });

  std::cout << "\nA step at a time, a bar for each target call, for a second at most:\n ";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  auto sequence = decoder.start(prompt, {.max_new_tokens = 40, .gamma = 6});
  while (!sequence.done()) {
    print(sequence.step(rng));
    std::cout << "|";
    if (std::chrono::steady_clock::now() > deadline) sequence.cancel();
  }
  std::cout << "\n" << sequence.stats().block_efficiency() << " tokens per target call\n";
}
