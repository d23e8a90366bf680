// must say: the verifier has no judge(const auto& drafted, auto& chance): see specdec::Verifier
// A rule that takes its randomness from elsewhere.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Rule {
#ifdef FIXED
  specdec::Verdict judge(const auto&, auto&) const { return {}; }
#else
  specdec::Verdict judge(const auto&) const { return {}; }
#endif
};

void use(specdec::testing::TableModel<>& target) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}, Rule{}};
}
