// must say: the verifier's judge(drafted, chance) returns no specdec::Verdict
// A rule that answers with a number instead of a verdict.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Rule {
#ifdef FIXED
  using Answer = specdec::Verdict;
#else
  using Answer = int;
#endif
  Answer judge(const auto&, auto&) const { return {}; }
};

void use(specdec::testing::TableModel<>& target) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}, Rule{}};
}
