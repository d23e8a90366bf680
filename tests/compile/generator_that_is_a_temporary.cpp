// must say: the generator is a temporary or const
// A generator that begins anew at each step.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::testing::TableModel<>& target, const std::vector<specdec::Token>& prompt) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
  auto sequence = decoder.start(prompt, {});
#ifdef FIXED
  std::ranlux24 rng{1};
  sequence.step(rng);
#else
  sequence.step(std::ranlux24{1});
#endif
}
