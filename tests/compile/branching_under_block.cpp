// must say: which this verifier does not judge: try
// A suffix drafter that branches, under a rule for lines.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

void use(specdec::testing::TableModel<>& target) {
#ifdef FIXED
  specdec::SuffixDrafter drafter{{.max_match = 8}};
#else
  specdec::SuffixDrafter drafter{{.max_match = 8}, specdec::Branching{}};
#endif
  specdec::SpecDec decoder{target, drafter, specdec::BlockVerifier{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
