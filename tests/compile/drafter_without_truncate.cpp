// must say: the drafter has no truncate(specdec::Index length), its rollback: see specdec::OneTextDrafter
// A drafter that cannot go back.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Guesser {
  specdec::Draft<specdec::OneHotRows> draft(std::span<const specdec::Token>, specdec::Index, auto&) {
    return {{}, specdec::OneHotRows({})};
  }
#ifdef FIXED
  void truncate(specdec::Index) {}
#endif
};

void use(specdec::testing::TableModel<>& target) {
  specdec::SpecDec decoder{target, specdec::FallbackDrafter{Guesser{}, specdec::NoDrafter{}}};
}
