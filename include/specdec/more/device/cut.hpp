// How a request samples, and where top-k, top-p and min-p cut a row of logits: the least logit that stays. Tokens of equal logit
// stay or go together.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <numeric>

#include "specdec/more/device/numbers.hpp"
#include "specdec/more/device/segments.hpp"
#include "specdec/more/device/team.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

/// How a request samples: Chain{Temperature, TopK, TopP, MinP} of the host, in this order.
struct Settings {
  float temperature = 1;   ///< 0: the largest logit has probability 1; among equals the lowest id
  float min_p = 0;         ///< tokens with less than this share of the largest probability are left out
  std::int32_t top_k = 0;  ///< only the largest logits are kept, and those equal to the last of them; 0: all
  float top_p = 1;         ///< only the likeliest tokens that together have this probability are kept
};

/// The factor of the logits: log2(e)/temperature. At temperature 0 the sums are not used, and any factor will do.
SPECDEC_TEAM float scale_of(Settings settings) {
  return settings.temperature > 0 ? log2_of_e / settings.temperature : log2_of_e;
}
SPECDEC_TEAM bool are_valid(Settings settings) {
  return settings.temperature >= 0 && settings.temperature < infinity && scale_of(settings) < infinity &&
         settings.min_p >= 0 && settings.min_p <= 1 && settings.top_k >= 0 && settings.top_p > 0 &&
         settings.top_p <= 1;
}
namespace detail {

/// The largest number from `low` to `high` for which holds(number), which is so up to some number. `low` if it never is.
template <class Holds>
SPECDEC_TEAM float last_number(float low, float high, const Holds& holds) {
  std::int32_t first = specdec::detail::ordered_key(low), last = specdec::detail::ordered_key(high);
  while (first < last) {
    const std::int32_t middle = std::midpoint(last, first);  // rounds up
    if (holds(specdec::detail::from_ordered_key<float>(middle))) first = middle;
    else last = middle - 1;
  }
  return specdec::detail::from_ordered_key<float>(first);
}

/// Top-p: a token weighs its number, in whole units. Sums of integers do not depend on their order, so a crew of any size finds
/// the same cut.
struct TokenMass {
  float scale, top;

  static constexpr float units = 0x1p44F;  // sums are exact up to 2^19 tokens
  SPECDEC_TEAM std::uint64_t operator()(float l) const {
    return static_cast<std::uint64_t>(power_of_two(l, scale, top) * units);
  }
};

// Calls add(team, s, sums of the lanes) for each segment that has a logit from `cut` on. Returns the sum of all lanes.
template <class Crew, class Scalar, class Add>
SPECDEC_TEAM std::uint64_t in_segments_from(Crew& crew, const SummedRow<Scalar>& row, float cut,
                                            const Add& add) {
  return crew.sum([&](auto team, int j) SPECDEC_TEAM_LAMBDA {
    typename decltype(team)::template PerLane<std::uint64_t> mine;
    team.run([&](int lane) SPECDEC_TEAM_LAMBDA { team.at(mine, lane) = 0; });
    for (Index s = j; s < row.segments(); s += Crew::size)
      if (row.sums[s].largest >= cut) add(team, s, mine);
    return team.sum(mine);
  });
}

/// What the logits from `cut` on weigh. Reads the columns of those lanes only that have such a logit.
template <class Crew, class Scalar, class Weight>
SPECDEC_TEAM std::uint64_t weight_from(Crew& crew, const SummedRow<Scalar>& row, float cut,
                                       const Weight& weight) {
  return in_segments_from(crew, row, cut, [&](auto team, Index s, auto& mine) SPECDEC_TEAM_LAMBDA {
    const Scalar* here = row.segment(s);
    const float* largest = row.largest + s * lanes;
    const int count = row.columns(s);
    for (int next = 0;;) {
      const int who =
          team.first([&](int lane) SPECDEC_TEAM_LAMBDA { return lane >= next && largest[lane] >= cut; });
      if (who < 0) break;
      team.run([&](int lane) SPECDEC_TEAM_LAMBDA {  // a column each of that lane's
        const int place = place_of(who, lane);
        if (place >= count) return;
        const float l = widen(here[place]);
        if (l >= cut) team.at(mine, lane) += weight(l);
      });
      next = who + 1;
    }
  });
}
/// What the largest logits of the lanes weigh, from `cut` on: a lower bound of weight_from().
template <class Crew, class Scalar, class Weight>
SPECDEC_TEAM std::uint64_t least_weight_from(Crew& crew, const SummedRow<Scalar>& row, float cut,
                                             const Weight& weight) {
  return in_segments_from(crew, row, cut, [&](auto team, Index s, auto& mine) SPECDEC_TEAM_LAMBDA {
    team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
      const float l = row.largest[s * lanes + lane];
      if (l >= cut) team.at(mine, lane) += weight(l);
    });
  });
}

/// The largest cut from `low` to `most` that keeps at least this weight; `low` if none does.
template <class Crew, class Scalar, class Weight>
SPECDEC_TEAM float cut_that_keeps(Crew& crew, const SummedRow<Scalar>& row, std::uint64_t wanted, float low,
                                  float most, const Weight& weight) {
  static_assert(lane_size == lanes);
  low = last_number(low, most, [&](float cut) SPECDEC_TEAM_LAMBDA {
    return least_weight_from(crew, row, cut, weight) >= wanted;
  });
  return last_number(low, most, [&](float cut) SPECDEC_TEAM_LAMBDA {
    return weight_from(crew, row, cut, weight) >= wanted;
  });
}

/// The least logit with at least `share` of the number of the largest logit.
SPECDEC_TEAM float cut_of_share(float share, float most, float scale) {
  if (share == 1) return most;
  const float below = last_number(-infinity, most, [&](float l) SPECDEC_TEAM_LAMBDA {
    return power_of_two(product(static_cast<double>(l) - static_cast<double>(most), scale)) <
           static_cast<double>(share);
  });
  const float next = specdec::detail::from_ordered_key<float>(specdec::detail::ordered_key(below) + 1);
  return next < most ? next : most;
}

}  // namespace detail

/// The least logit that stays after top-k, then top-p, then min-p; −infinity if all stay. `most` is the largest logit of the row,
/// `top` is top_of(most, scale), `total` is the sum of all numbers 2^(l·scale − top).
///
/// Ties: as on the host, tokens equal to the last one that stays stay, too: see TopK and TopP.
/// Numeric: top-k keeps the tokens that the host keeps. Top-p and min-p do, unless a set of likeliest tokens has a mass within
/// 1e-6 of top-p, or a token a share within 1e-6·min_p of min-p.
/// Cost: top-k and top-p search in up to 32 steps over the largest logits of the lanes, and in up to 32 more over the columns of
/// those lanes only that have a logit from the bound found on. Min-p reads nothing.
template <class Crew, class Scalar>
SPECDEC_TEAM float cut_of(Crew& crew, const SummedRow<Scalar>& row, Settings settings, float most,
                          float scale, float top, double total) {
  float cut = -infinity;
  if (settings.top_k > 0 && settings.top_k < row.vocab_size)
    cut = detail::cut_that_keeps(crew, row, static_cast<std::uint64_t>(settings.top_k), cut, most,
                                 [](float) SPECDEC_TEAM_LAMBDA { return std::uint64_t{1}; });
  if (settings.top_p < 1) {
    const detail::TokenMass mass{scale, top};
    const double all = cut > -infinity ? static_cast<double>(detail::weight_from(crew, row, cut, mass))
                                       : total * static_cast<double>(mass.units);
    const double wanted = static_cast<double>(settings.top_p) * all;
    cut = detail::cut_that_keeps(crew, row, wanted > 1 ? static_cast<std::uint64_t>(wanted) : 1, cut, most,
                                 mass);
  }
  if (settings.min_p > 0) {
    const float least = detail::cut_of_share(settings.min_p, most, scale);
    if (least > cut) cut = least;
  }
  return cut;
}

}  // namespace specdec::device
