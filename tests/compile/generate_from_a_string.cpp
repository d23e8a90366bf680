// must say: RandomSource
// The loop, too, needs a random bit generator or a source of chance.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#ifdef FIXED
using Source = std::mt19937;
#else
using Source = std::wstring;
#endif

specdec::Result use(specdec::testing::TableModel<>& target, const std::vector<specdec::Token>& prompt,
                    Source& source) {
  specdec::SpecDec decoder{target, specdec::PromptLookupDrafter{}, specdec::BlockVerifier{}};
  return decoder.generate(prompt, {}, source);
}
