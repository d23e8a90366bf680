// must say: that is never called
// A drafter that would learn from the target's calls, by arguments that nobody passes.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Learning : specdec::PromptLookupDrafter {
#ifdef FIXED
  void observe(const auto& /*judged*/) {}
#else
  void observe(const auto&, std::span<const specdec::Token>, std::span<const specdec::Index>,
               const specdec::NodeVerdict&) {}
#endif
};

void use(specdec::testing::TableModel<>& target) {
  specdec::SpecDec decoder{target, Learning{}, specdec::BlockVerifier{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
