// must say: its source of chance is a specdec::Keyed, not a generator
// A rule of numbers that are shared, with numbers that are not.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#ifdef FIXED
using Source = specdec::Keyed;
#else
using Source = std::mt19937_64;
#endif

void use(specdec::testing::TableModel<>& target) {
  specdec::SpecDec decoder{target, specdec::PromptLookupDrafter{}, specdec::KeyedVerifier{}};
  Source source{42};
  decoder.generate(std::vector<specdec::Token>{0}, {.max_new_tokens = 8}, source);
}
