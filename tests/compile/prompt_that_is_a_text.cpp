// must say: a text is no list of token ids: pass the ids that your tokenizer returns for it
// A text that no tokenizer has read.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

void use(specdec::testing::TableModel<>& target, const std::string& text,
         std::vector<specdec::Token> (*tokenize)(const std::string&), std::mt19937_64& rng) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
#ifdef FIXED
  decoder.generate(tokenize(text), {.gamma = 2}, rng);
#else
  (void)tokenize;
  decoder.generate(text, {.gamma = 2}, rng);
#endif
}
