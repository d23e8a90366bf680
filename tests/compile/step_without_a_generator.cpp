// must say: the generator is missing: pass one after the other arguments, such as std::mt19937_64 rng{seed}
// All functions of a sequence that draw want the generator.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::testing::TableModel<>& target, const std::vector<specdec::Token>& prompt,
         [[maybe_unused]] std::mt19937_64& rng) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
  auto sequence = decoder.start(prompt, {});
#ifdef FIXED
  sequence.step(rng);
#else
  sequence.step();
#endif
}
