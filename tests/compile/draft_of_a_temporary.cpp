// must say: draft
// A proposal is a view of its drafter.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <random>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <vector>

std::size_t use(std::mt19937_64& rng, const std::vector<specdec::Token>& context) {
#ifdef FIXED
  specdec::PromptLookupDrafter drafter;
  const auto proposal = drafter.draft(context, 4, rng);
#else
  const auto proposal = specdec::PromptLookupDrafter{}.draft(context, 4, rng);
#endif
  return proposal.tokens.size();
}
