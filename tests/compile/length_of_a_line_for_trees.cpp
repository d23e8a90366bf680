// must say: the draft length counts the positions of a line
// A draft length that ends lines, with a drafter of trees.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Length = specdec::EarlyStoppingLength<>;
#else
using Length = specdec::ConfidentLength;
#endif

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small, specdec::Spares{2, {1}}},
                           specdec::TrunkAndSpares<specdec::BlockVerifier>{}, Length{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
