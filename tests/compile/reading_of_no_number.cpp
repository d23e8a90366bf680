// must say: the draft length's reading(row, i) returns no double
// A draft length that reads a text in a row.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>

struct Length {
  specdec::Index next(specdec::Index most) const { return most; }
  void observe(const specdec::StepRecord&) const {}
  specdec::More more(const specdec::GrowingDraft& draft) const {
    return {.level = draft.readings.back() > 0.5};
  }
#ifdef FIXED
  double reading(const auto& row, specdec::Index) const { return row.probability(row.argmax()); }
#else
  std::string reading(const auto&, specdec::Index) const { return "0.5"; }
#endif
};

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}, Length{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
