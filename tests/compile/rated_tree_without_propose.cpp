// must say: the draft length rates the tokens of trees, and has not all of acceptance(double probability
// A draft length that rates the tokens of trees, and does not say how many of them to propose.
#include <iterator>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Length {
  static constexpr bool counts_nodes = true;
  specdec::Index next(specdec::Index most) const { return most; }
  void observe(const specdec::StepRecord&) const {}
  double acceptance(double probability, specdec::Index) const { return probability; }
  bool draft_level(const specdec::TreeCandidates&) const { return true; }
#ifdef FIXED
  specdec::Index propose(const specdec::TreeCandidates& found) const { return std::ssize(found.values); }
#endif
};

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small, specdec::ConfidentTree{}},
                           specdec::TrunkAndSpares<specdec::SampleMatchVerifier>{}, Length{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
