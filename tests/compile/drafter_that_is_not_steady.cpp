// must say: needs drafts whose length is settled
// A draft that may end by a row after a drawn token, under a rule that remembers its sequence.
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Rule = specdec::BlockVerifier;
#else
using Rule = specdec::GreedyBlockVerifier;
#endif

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small,
         const specdec::TokenMap& map) {
  specdec::SpecDec decoder{target, specdec::IntersectionDrafter{small, map}, Rule{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
