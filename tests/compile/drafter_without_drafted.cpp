// must say: the drafter has no drafted(specdec::Index sequence) const that returns a specdec::Draft: see specdec::Drafter
// A drafter for all texts together that shows its drafts to nobody.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Together {
  template <class Request>
  void draft(std::span<Request>) {}
#ifdef FIXED
  specdec::Draft<specdec::OneHotRows> drafted(specdec::Index) const { return {{}, specdec::OneHotRows({})}; }
#endif
  static constexpr bool drafts_trees = false;
  void keep(specdec::Index, specdec::Index) {}
  void release(specdec::Index) {}
};

void use(specdec::testing::TableModel<>& target, Together& drafter) {
  specdec::Batch batch{specdec::ModelPerSequence{target}, drafter};
}
