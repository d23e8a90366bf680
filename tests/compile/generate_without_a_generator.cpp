// must say: the generator is missing: pass one after the other arguments, such as std::mt19937_64 rng{seed}
// A prompt and options only.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

specdec::Result use(specdec::testing::TableModel<>& target, const std::vector<specdec::Token>& prompt,
                    [[maybe_unused]] std::mt19937_64& rng) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
#ifdef FIXED
  return decoder.generate(prompt, {}, rng);
#else
  return decoder.generate(prompt, {});
#endif
}
