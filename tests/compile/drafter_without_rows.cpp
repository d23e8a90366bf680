// must say: the drafter's draft() returns no specdec::Draft
// A drafter that proposes tokens, but not the distributions it drew them from.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

struct Guesser {
#ifdef FIXED
  specdec::Draft<specdec::OneHotRows> draft(std::span<const specdec::Token>, specdec::Index, auto&) {
    return {{}, specdec::OneHotRows({})};
  }
#else
  std::vector<specdec::Token> draft(std::span<const specdec::Token>, specdec::Index, auto&) { return {}; }
#endif
  void truncate(specdec::Index) {}
};

void use(specdec::testing::TableModel<>& target, Guesser& drafter) {
  specdec::SpecDec decoder{target, drafter};
}
