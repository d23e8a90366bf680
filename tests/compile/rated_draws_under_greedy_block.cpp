// must say: does not depend on what was drafted
// A tree whose drawn children a draft length counts by the rows, under a rule whose modifications know one trunk for all
// drafts.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Length = specdec::FixedLength;
#else
// Its own: the compiler complains once for each length.
struct Length : specdec::EarlyStoppingLength<> {
  Length() = default;
};
#endif

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::Tree tree{specdec::TreeShape::of_widths({2, 1}), specdec::WithoutReplacement{}};
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small, tree},
                           specdec::TrunkAndSpares<specdec::GreedyBlockVerifier>{}, Length{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
