// A part of a row as a distribution of its own: what the tokens outside it have is taken away.
#pragma once

#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// A part of a row (RowWithGaps, MaskedRow), normalised by its mass. Where that is 0, there is no distribution to draw from.
template <class Part>
class PartAlone {
 public:
  PartAlone(const Part& part, double mass) : part_(part), mass_(mass) {}

  /// What the row has on the tokens that are left.
  double mass() const { return mass_; }

  Index vocab_size() const { return part_.vocab_size(); }
  double probability(Token x) const { return normalised(part_.probability(x)); }
  bool possible(Token x) const { return part_.may_have(x) && specdec::possible(part_.row(), x); }
  void prefetch(Token x) const { specdec::prefetch(part_.row(), x); }
  double sum(Index start, Index count) const { return normalised(part_.sum(start, count)); }

  auto segment(Index start, Index count) const
    requires requires(const Part& part, Index i) { part.stretch(i, i); }
  {
    auto segment = part_.stretch(start, count);
    if (mass_ > 0) segment /= mass_;
    return segment;
  }

  Index support_size() const
    requires ListedRow<Part>
  {
    return part_.support_size();
  }
  Token support(Index k) const
    requires ListedRow<Part>
  {
    return part_.support(k);
  }
  double listed(Index k) const
    requires ListedRow<Part>
  {
    return normalised(part_.listed(k));
  }

  /// Draws from the row as it is, at u times the mass that is left of it.
  auto sampler() const {
    return [draw = part_.sampler(), mass = mass_](double u) mutable { return draw(u * mass); };
  }

 protected:
  const Part& part() const { return part_; }

 private:
  double normalised(double p) const { return mass_ > 0 ? p / mass_ : p; }

  Part part_;
  double mass_;
};

}  // namespace specdec::detail
