// must say: the draft length has draft_another(readings), but no reading(row, i) that returns a double
// A draft length that decides by readings, and takes none.
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Length {
  specdec::Index next(specdec::Index most) const { return most; }
  void observe(const specdec::StepRecord&) const {}
  bool draft_another(std::span<const double> readings) const { return readings.back() > 0.5; }
#ifdef FIXED
  double reading(const auto& row, specdec::Index) const { return row.probability(row.argmax()); }
#endif
};

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}, Length{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
