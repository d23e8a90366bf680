// must say: the draft length is no specdec::DraftLength
// A number of tokens is an integer: a floating-point number may be NaN, or more than any integer.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>

struct Root {
#ifdef FIXED
  specdec::Index next(specdec::Index most) const {
    return static_cast<specdec::Index>(std::sqrt(static_cast<double>(most)));
  }
#else
  double next(specdec::Index most) const { return std::sqrt(static_cast<double>(most)); }
#endif
  void observe(const specdec::StepRecord&) const {}
};

void use(specdec::NgramModel& target, specdec::NgramModel& small) {
  specdec::SpecDec decoder{target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}, Root{}};
}
