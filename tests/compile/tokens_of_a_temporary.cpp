// must say: tokens
// What a sequence shows is gone with it: a temporary one shows nothing.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Token use(std::mt19937_64& rng, const std::vector<specdec::Token>& prompt) {
  const auto model = specdec::NgramModel::train(prompt, {.order = 2, .vocab_size = 3});
  specdec::SpecDec decoder{specdec::NgramModel(model), specdec::ModelDrafter{specdec::NgramModel(model)}};
  auto sequence = decoder.start(prompt, {});
  sequence.generate(rng);
#ifdef FIXED
  const std::span<const specdec::Token> tokens = sequence.tokens();
#else
  const std::span<const specdec::Token> tokens = decoder.start(prompt, {}).tokens();
#endif
  return tokens.front();
}
