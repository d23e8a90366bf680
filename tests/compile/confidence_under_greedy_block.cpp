// must say: does not depend on what was drafted
// A draft that ends where the draft model is unsure, under a rule whose modifications know one length for all drafts.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Length = specdec::FixedLength;
#else
using Length = specdec::ConfidentLength;
#endif

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small}, specdec::GreedyBlockVerifier{}, Length{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
