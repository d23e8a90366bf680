// must say: a number is no source of random numbers (specdec::RandomSource)
// A seed in the place of the generator of a loop.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::testing::TableModel<>& target, const std::vector<specdec::Token>& prompt) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
  unsigned seed = 42;
#ifdef FIXED
  std::mt19937_64 rng{seed};
  decoder.generate(prompt, {}, rng);
#else
  decoder.generate(prompt, {}, seed);
#endif
}
