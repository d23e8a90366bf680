// must say: the draft length is no specdec::DraftLength
// A draft length that rates the tokens of trees, and does not say how many of them to propose.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Length {
  static constexpr bool counts_nodes = true;
  specdec::Index next(specdec::Index most) const { return most; }
  void observe(const specdec::StepRecord&) const {}
  double acceptance(const specdec::CandidateToken& candidate) const { return candidate.reading; }
#ifdef FIXED
  specdec::More more(const specdec::GrowingDraft&) const { return {}; }
#endif
};

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small, specdec::ConfidentTree{}},
                           specdec::TrunkAndSpares<specdec::SampleMatchVerifier>{}, Length{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
