// Logits of which each row has lost its tokens below some cut.
#pragma once

#include <cstddef>
#include <span>

#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/numbers.hpp"

namespace specdec {

/// A matrix of logits as a DistributionMatrix in which tokens of a logit below cuts[i] have probability 0 in row i. Logits
/// and cuts must outlive it. The cuts are numbers of the logits' own arithmetic.
template <class Numbers>
class CutLogits {
 public:
  CutLogits(const Numbers& logits, double temperature, std::span<const double> cuts)
      : logits_(logits), temperature_(temperature), cuts_(cuts) {}

  Index rows() const { return logits_.rows(); }
  Index vocab_size() const { return logits_.cols(); }
  auto row(Index i) const {
    using Row = decltype(LogitsRow(logits_.row(i)));
    const double cut = cuts_[static_cast<std::size_t>(i)];
    return LogitsRow(logits_.row(i), temperature_, static_cast<typename Row::Scalar>(cut));
  }

 private:
  Numbers logits_;
  double temperature_;
  std::span<const double> cuts_;
};

}  // namespace specdec
