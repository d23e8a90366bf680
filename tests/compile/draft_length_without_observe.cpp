// must say: the draft length is no specdec::DraftLength
// A draft length that cannot be told what became of the draft.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Length {
  specdec::Index next(specdec::Index most) const { return most; }
#ifdef FIXED
  void observe(const specdec::StepRecord&) const {}
#endif
};

void use(specdec::testing::TableModel<>& target) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}, specdec::BlockVerifier{}, Length{}};
}
