// must say: it is observe(sequence, judged), see specdec::Drafter
// A drafter for requests that would learn from the target's calls, by the arguments of a drafter of one text.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

struct Learning : specdec::LiftedDrafter<specdec::NoDrafter> {
  using LiftedDrafter::LiftedDrafter;
#ifdef FIXED
  void observe(specdec::Index, const auto& /*judged*/) {}
#else
  void observe(const auto& /*judged*/) {}
#endif
};

void use(specdec::testing::TableModel<>& target, Learning& drafter) {
  specdec::SpecDec decoder{target, drafter};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
