// must say: the order of the arguments is (prompt, options, rng)
// The generator first, as in some other libraries.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::testing::TableModel<>& target, const std::vector<specdec::Token>& prompt,
         std::mt19937_64& rng) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
#ifdef FIXED
  decoder.generate(prompt, {.gamma = 2}, rng);
#else
  decoder.generate(rng, prompt, {.gamma = 2});
#endif
}
