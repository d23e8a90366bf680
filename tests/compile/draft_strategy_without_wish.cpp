// must say: the strategy is no specdec::DraftStrategy
// A strategy that does not say what the draft model is to take in.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Silent {
  static constexpr bool drafts_trees = false, branches = false;
  template <specdec::Distribution Q, bool>
  struct Growth {
    void begin(const Silent&, const specdec::DraftLimits&, specdec::Index) {}
    bool next() { return false; }
#ifdef FIXED
    specdec::DraftWish wish() const { return {}; }
#endif
    void take(const auto&, auto&, const auto&) {}
    void end() {}
    specdec::Draft<specdec::OneHotRows> draft(specdec::Index) const { return {{}, specdec::OneHotRows({})}; }
  };
};

void use(specdec::testing::TableModel<>& small) { specdec::ModelDrafter drafter{small, Silent{}}; }
