// must say: drafts trees
// A drafter that takes limits, and does not say that it drafts lines, under a rule for lines.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Guesser {
#ifdef FIXED
  static constexpr bool drafts_trees = false;
#endif
  specdec::Draft<specdec::OneHotRows> draft(std::span<const specdec::Token>, const specdec::DraftLimits&,
                                            auto&) {
    return {{}, specdec::OneHotRows({})};
  }
  void truncate(specdec::Index) {}
};

void use(specdec::testing::TableModel<>& target, Guesser& drafter) {
  specdec::SpecDec decoder{target, drafter, specdec::TokenVerifier{}};
}
