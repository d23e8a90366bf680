// must say: the drafter cannot be copied, one for each text, and is no specdec::Drafter
// A drafter of one text that cannot be copied, for many texts.
// SPDX-License-Identifier: MIT
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Only : specdec::NoDrafter {
  Only() = default;
#ifndef FIXED
  Only(const Only&) = delete;
#endif
};

void use(specdec::testing::TableModel<>& target, Only& drafter) {
  specdec::Batch batch{specdec::ModelPerSequence{target},
                       specdec::FallbackDrafter{specdec::NoDrafter{}, drafter}};
}
