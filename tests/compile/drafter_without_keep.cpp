// must say: the drafter has no keep(specdec::Index sequence, specdec::Index length), its rollback: see specdec::Drafter
// A drafter for all texts together that cannot go back.
// SPDX-License-Identifier: MIT
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Together {
  static constexpr bool drafts_trees = false;
  template <class Request>
  void draft(std::span<Request>) {}
  specdec::Draft<specdec::OneHotRows> drafted(specdec::Index) const { return {{}, specdec::OneHotRows({})}; }
#ifdef FIXED
  void keep(specdec::Index, specdec::Index) {}
#endif
  void release(specdec::Index) {}
};

void use(specdec::testing::TableModel<>& target, Together& drafter) {
  specdec::SpecDec decoder{target, specdec::FallbackDrafter{specdec::NoDrafter{}, drafter}};
}
