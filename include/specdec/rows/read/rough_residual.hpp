// The residual (p − Σ b_k·q_k)+ of a row and several others, with a mass that may be off by rounding: of rejected siblings.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/read/little_left.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/rows/read/segments.hpp"

namespace specdec::inline v0_2_0::detail {

/// The rows of `taken`, each replaced by part(row).
template <class Taken, class Part>
struct PartsOf {
  Taken taken;
  Part part;

  template <class Visit>
  void each(const Visit& visit) const {
    taken.each([&](double b, const auto& row) { visit(b, part(row)); });
  }
};

/// Σ b·q as a row. taken.each(visit) calls visit(b, q) for each row q with its coefficient b; the rows may be of several types.
/// Its numbers are what residuals take away from a row. They are no probabilities, and nothing is drawn from them.
template <class Taken>
class SumOfRows {
 public:
  explicit SumOfRows(const Taken& taken) : taken_(taken) {}

  static constexpr bool answers_any_id = true;

  Index vocab_size() const { return std::numeric_limits<Index>::max(); }
  double probability(Token x) const {
    double sum = 0;
    taken_.each([&](double b, const auto& q) { sum += b * specdec::probability(q, x); });
    return std::min(sum, all_of_it);  // several coefficients may each take all of one token; NaN stays NaN
  }
  auto segment(Index start, Index count) const {
    GatheredSegment<SumOfRows> sum = GatheredSegment<SumOfRows>::Zero(count);
    taken_.each([&](double b, const auto& q) { add_stretch(q, b, start, sum); });
    return sum;
  }
  template <class Part>
  auto made_of(const Part& part) const {
    return SumOfRows<PartsOf<Taken, Part>>({taken_, part});
  }
  auto sampler() const { return ComputedSampler<SumOfRows>(*this); }

 private:
  Taken taken_;
};

/// A ResidualRow with a mass that may be off by rounding.
/// Random: a draw is made by rejection, with 1/mass draws from p in expectation. If the mass is small, or if the caller has
/// only one random number, the draw makes a pass that sums the row again. If no token has any mass left, the draw is from p.
template <Distribution P, Distribution Q>
class RoughResidualRow : public ResidualRow<P, Q> {
  using Row = ResidualRow<P, Q>;

 public:
  using Row::Row;

  /// Draws with one random number, or with as many as it needs: see RandomChance::draw_again.
  class Sampler {
   public:
    explicit Sampler(const RoughResidualRow& row) : row_(row), plain_(row_.p_.sampler()) {}

    Token operator()(double u) { return exact(u); }

    template <class Uniform>
    Token draw(const Uniform& uniform) {
      for (int tries = 0; tries < most_tries && row_.mass() > little_left; ++tries) {
        const Token y = plain_(uniform());
        const double p = row_.p_.probability(y);
        if (uniform() * (row_.a_ * p) < row_.left(y, p)) return y;
      }
      return exact(uniform());
    }

   private:
    static constexpr int most_tries = 64;

    Token exact(double u) {
      if (!exact_ && !nothing_left_) {
        row_.mass_ = residual_mass(row_.a_, row_.p_, row_.b_, row_.q_);
        nothing_left_ = row_.mass() == 0;
        if (!nothing_left_) exact_.emplace(row_);
      }
      return nothing_left_ ? plain_(u) : (*exact_)(u);
    }

    RoughResidualRow row_;
    decltype(std::declval<const P&>().sampler()) plain_;
    std::optional<ComputedSampler<Row>> exact_;
    bool nothing_left_ = false;
  };

  Sampler sampler() const { return Sampler(*this); }
};
template <Distribution P, Distribution Q, class... Mass>
RoughResidualRow(double, const P&, double, const Q&, Mass...) -> RoughResidualRow<P, Q>;

}  // namespace specdec::detail
