// must say: would report rows that its drafts are not drawn from
// Likeliest tokens, reported with rows that they were not drawn from.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Rule = specdec::BlockVerifier;
#else
using Rule = specdec::ArgmaxVerifier;
#endif

void use(specdec::testing::TableModel<>& model, specdec::testing::TableModel<>& small) {
  specdec::CascadeDrafter drafter{model, specdec::ModelDrafter{small}, Rule{}};
  std::mt19937_64 rng;
  drafter.draft(std::vector<specdec::Token>{0}, {.nodes = 1}, rng);
}
