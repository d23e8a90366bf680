// A draft that ends where the draft model is not sure: by the largest probability of a row, or by its entropy.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/keep_drafting.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/rows/entropy.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Drafts while the draft model is confident: up to the first token whose row has no probability of `least` or more. Looks at
/// the row before temperature and cuts, if it knows that, so it works at temperature 0, too.
/// Source: the static confidence threshold that DISCO (Mamou et al., arXiv:2405.04304) starts from. The row decides, not the
/// token that was drawn from it, and that token stays: its row is paid for, and to drop it would bias the output.
/// Throws: InvalidArgument unless 0 <= least <= 1; InvalidDistribution on a row if its largest number is no probability.
/// Cost: an argmax of each row of the draft model; a pass over it if the row has no argmax.
class ConfidentLength {
 public:
  explicit ConfidentLength(double least = 0.4) : least_(least) {
    if (!(least >= 0 && least <= 1)) detail::invalid_argument("least = ", least, " is outside [0, 1]");
  }

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}

  More more(const GrowingDraft& draft) const { return {.level = draft.readings.back() >= least_}; }

 private:
  double least_;
};

/// Drafts while the draft model is confident: up to the first token whose row has an entropy above `most` nats. Looks at the row
/// before temperature and cuts, if it knows that.
/// Source: AdaEDL (Agrawal et al., arXiv:2410.18351). AdaEDL stops where its estimate of the acceptance, 1 − √(0.2 H), falls
/// below a threshold λ: this is most = (1 − λ)²/0.2. Deviation: here λ is fixed.
/// Throws: InvalidArgument unless most >= 0; InvalidDistribution on a row with a number that is NaN, infinite or negative.
/// Cost: a pass with logarithms over each row of the draft model.
class EntropyLength {
 public:
  explicit EntropyLength(double most = 2) : most_(most) {
    if (!(most >= 0)) detail::invalid_argument("most = ", most, " is negative");
  }

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}

  template <class Row>
  static double reading(const Row& row, Index i) {
    return detail::read_unprocessed(row, i, finite_entropy);
  }
  More more(const GrowingDraft& draft) const { return {.level = draft.readings.back() <= most_}; }

 private:
  // A NaN compares false with every bound. Without this check a NaN would end the draft, and hide the error.
  static constexpr auto finite_entropy = [](const auto& row) {
    const double nats = entropy(row);
    if (!std::isfinite(nats)) detail::invalid_distribution("its entropy is ", nats);
    return nats;
  };

  double most_;
};

}  // namespace specdec
