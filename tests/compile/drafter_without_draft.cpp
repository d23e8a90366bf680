// must say: the drafter has no draft(std::span<const specdec::Token> context, const specdec::DraftLimits& limits, auto& chance)
// A drafter that does not draft.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Guesser {
#ifdef FIXED
  specdec::Draft<specdec::OneHotRows> draft(std::span<const specdec::Token>, specdec::Index, auto&) {
    return {{}, specdec::OneHotRows({})};
  }
#endif
  void truncate(specdec::Index) {}
};

void use(specdec::testing::TableModel<>& target, Guesser& drafter) {
  specdec::SpecDec decoder{target, drafter};
}
