// must say: the callback is not called with (std::span<const specdec::Token> emitted): see specdec::SpecDec::generate
// A callback that would be shown the tokens one by one.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#ifdef FIXED
using Emitted = std::span<const specdec::Token>;
#else
using Emitted = specdec::Token;
#endif

void use(specdec::testing::TableModel<>& target, const std::vector<specdec::Token>& prompt,
         std::mt19937_64& rng) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
  decoder.generate(prompt, {}, rng, [](Emitted) {});
}
