// must say: drafts in advance are lines
// A drafter of trees, to draft in advance.
// SPDX-License-Identifier: MIT
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

void use(specdec::testing::TableModel<> model) {
#ifdef FIXED
  specdec::AheadDrafter ahead{specdec::ModelDrafter{model}, 2};
#else
  specdec::AheadDrafter ahead{specdec::ModelDrafter{model, specdec::Spares{2, {1}}}, 2};
#endif
}
