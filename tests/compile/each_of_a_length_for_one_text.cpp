// must say: each(length), which is for many texts
// A copy of a draft length for each text, where there is one text.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

void use(specdec::testing::TableModel<>& target) {
  specdec::FixedLength length;
#ifdef FIXED
  specdec::SpecDec decoder{target, specdec::NoDrafter{}, specdec::BlockVerifier{}, length};
#else
  specdec::SpecDec decoder{target, specdec::NoDrafter{}, specdec::BlockVerifier{}, specdec::each(length)};
#endif
}
