// The residual of a row against several other rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/little_left.hpp"
#include "specdec/rows/read/segments.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The rows of `taken` with their factors; each row is replaced by part(row).
template <class Taken, class Part>
struct PartsOf {
  Taken taken;
  Part part;

  template <class Visit>
  void each(const Visit& visit) const {
    taken.each([&](double factor, const auto& row) { visit(factor, part(row)); });
  }
};

/// The distribution ∝ (p − Σ b·q)+ as a row. It lists its tokens if p does. taken.each(visit) calls visit(b, q) for each row
/// q with its factor b. The rows q may be of several types.
template <Distribution P, class Taken>
class Remainder {
 public:
  /// With a known mass = Σ (p − Σ b·q)+.
  Remainder(const P& p, const Taken& taken, double mass) : p_(p), taken_(taken), mass_(mass) {}

  /// (p(x) − Σ b·q(x))+.
  double left(Token x) const { return left(x, p_.probability(x)); }
  /// left(x), if p(x) is known.
  double left(Token x, double p) const {
    taken_.each([&](double factor, const auto& q) { p -= factor * specdec::probability(q, x); });
    return std::max(p, 0.0);
  }

  /// Σ left(x). If it is positive, left(x) is positive for some token: see hardly_any_left.
  /// Throws: InvalidDistribution if the sum is not finite.
  double left() const {
    return named([&] {
      double sum = 0;
      if constexpr (ListedRow<P>) {
        each_token(p_, [&](Token x, double p) { sum += left(x, p); });
      } else {
        sum = left_of(0, vocab_size(), false);
        if (sum < hardly_any_left) sum = left_of(0, vocab_size(), true);
      }
      if (!(sum <= std::numeric_limits<double>::max()))
        invalid_distribution("what is left of the row sums to ", sum);
      return sum;
    });
  }

  /// Σ left(x) over `count` tokens from `start` on, token by token or by segments.
  double left_of(Index start, Index count, bool token_by_token) const {
    if constexpr (SpreadRow<P>) {
      return p_.spread().sum(start, start + count, [&](const auto& part, Index from, Index to) {
        return this->made_of(part).left_of(from, to - from, token_by_token);
      });
    } else {
      double sum = 0;
      if (token_by_token) {
        for (Index x = start; x < start + count; ++x) sum += left(static_cast<Token>(x));
        return sum;
      }
      for (const Index end = start + count; start < end; start += max_segment_size)
        sum += rest(start, std::min(max_segment_size, end - start)).sum();
      return sum;
    }
  }

  const P& whole() const { return p_; }
  double mass() const { return mass_; }
  void set_mass(double mass) { mass_ = mass; }

  Index vocab_size() const { return p_.vocab_size(); }
  double probability(Token x) const { return left(x) / mass_; }
  double sum(Index start, Index count) const {
    return left_of(start, count, mass_ < hardly_any_left) / mass_;
  }
  GatheredSegment<P> segment(Index start, Index count) const
    requires(!ListedRow<P>)
  {
    return rest(start, count) / mass_;
  }

  Index support_size() const
    requires ListedRow<P>
  {
    return p_.support_size();
  }
  Token support(Index k) const
    requires ListedRow<P>
  {
    return p_.support(k);
  }
  double listed(Index k) const
    requires ListedRow<P>
  {
    return left(p_.support(k), p_.listed(k)) / mass_;
  }

  template <class F>
  auto named(F&& f) const {
    return in_name_of(p_, std::forward<F>(f));
  }
  auto spread() const
    requires SpreadRow<P>
  {
    return p_.spread();
  }
  template <class Part>
  auto made_of(const Part& part) const {
    const auto p = part(p_);
    return Remainder<std::remove_cvref_t<decltype(p)>, PartsOf<Taken, Part>>(p, {taken_, part}, mass_);
  }

  auto sampler() const { return ComputedSampler<Remainder>(*this); }

 private:
  // left(x) of `count` <= max_segment_size tokens from `start` on. NaN stays NaN.
  GatheredSegment<P> rest(Index start, Index count) const {
    GatheredSegment<P> rest = GatheredSegment<P>::Zero(count);
    add_stretch(p_, 1.0, start, rest);
    taken_.each([&](double factor, const auto& q) { add_stretch(q, -factor, start, rest); });
    return (rest < 0).select(0.0, rest);
  }

  P p_;
  Taken taken_;
  double mass_;
};

/// A Remainder with a mass that may be off by rounding.
///
/// Random: a draw is made by rejection, with 1/mass draws from p in expectation. If the mass is small, or if the caller has
/// only one random number, the draw makes a pass that sums the row again. If no token has any mass left, the draw is from p.
template <Distribution P, class Taken>
class RoughRemainder : public Remainder<P, Taken> {
 public:
  using Remainder<P, Taken>::Remainder;

  /// Draws with one random number, or with as many as it needs: see RandomChance::draw_again.
  class Sampler {
   public:
    explicit Sampler(const Remainder<P, Taken>& row) : row_(row), plain_(row_.whole().sampler()) {}

    Token operator()(double u) { return exact(u); }

    template <class Uniform>
    Token draw(const Uniform& uniform) {
      for (int tries = 0; tries < most_tries && row_.mass() > little_left; ++tries) {
        const Token y = plain_(uniform());
        const double p = row_.whole().probability(y);
        if (uniform() * p < row_.left(y, p)) return y;
      }
      return exact(uniform());
    }

   private:
    static constexpr int most_tries = 64;

    Token exact(double u) {
      if (!exact_ && !nothing_left_) {
        row_.set_mass(row_.left());
        nothing_left_ = row_.mass() == 0;
        if (!nothing_left_) exact_.emplace(row_);
      }
      return nothing_left_ ? plain_(u) : (*exact_)(u);
    }

    Remainder<P, Taken> row_;
    decltype(std::declval<const P&>().sampler()) plain_;
    std::optional<ComputedSampler<Remainder<P, Taken>>> exact_;
    bool nothing_left_ = false;
  };

  Sampler sampler() const { return Sampler(*this); }
};
template <Distribution P, class Taken>
RoughRemainder(const P&, const Taken&, double) -> RoughRemainder<P, Taken>;

}  // namespace specdec::detail
