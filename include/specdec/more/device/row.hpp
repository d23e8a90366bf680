// A row of logits after its segments were summed: probabilities, draws and residuals, asked by a team.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/device/cut.hpp"
#include "specdec/more/device/fault.hpp"
#include "specdec/more/device/numbers.hpp"
#include "specdec/more/device/segments.hpp"
#include "specdec/more/device/team.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

/// What finish_row() has found of a row.
struct RowSummary {
  double total;     ///< the sum of all numbers below, of kept tokens; infinity at a dead end: each p is 0
  float top;        ///< the numbers are 2^(l·scale − top)
  float cut;        ///< the least logit that is kept; −infinity if all are
  Token chosen;     ///< at temperature 0 the only token; else −1
  FaultKind fault;  ///< why nothing can be asked
};

namespace detail {

/// The sum of a segment in units of a row.
SPECDEC_TEAM double mass_of(const SegmentSum& segment, float scale, float row_top) {
  return static_cast<double>(segment.sum) *
         power_of_two(static_cast<double>(top_of(segment.largest, scale)) - static_cast<double>(row_top));
}

/// The largest logit of a row; NaN if a logit is NaN.
template <class Team>
SPECDEC_TEAM float largest_of(Team team, const SegmentSum* sums, Index count) {
  typename Team::template PerLane<float> largest;
  team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
    float found = -infinity;
    for (Index s = lane; s < count; s += lanes) found = team.larger(found, sums[s].largest);
    team.at(largest, lane) = found;
  });
  return team.largest(largest);
}

/// Writes the cumulative sums of a row's segments, in units of the row. Returns the whole sum.
template <class Crew, class Scalar>
SPECDEC_TEAM double add_segments(Crew& crew, const SummedRow<Scalar>& row, float scale, float top) {
  const Index count = row.segments();
  crew.each([&](auto team, int j) SPECDEC_TEAM_LAMBDA {
    if (j > 0) return;
    typename decltype(team)::template PerLane<double> mass;
    double before = 0;
    for (Index first = 0; first < count; first += lanes) {
      team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
        const Index s = first + lane;
        team.at(mass, lane) = s < count ? mass_of(row.sums[s], scale, top) : 0;
      });
      team.add_up(mass);
      team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
        if (first + lane < count) row.cumulative[first + lane] = before + team.at(mass, lane);
      });
      before += team.get(mass, lanes - 1);
    }
  });
  return row.cumulative[count - 1];
}

}  // namespace detail

/// A target row. Its numbers, from which probabilities, sums and draws are made alike, are floats for each segment.
/// Numeric: right to 1e-6 in total variation. A token's probability is 0 from 2^-127 of its segment's largest one on downward.
template <class Scalar>
class Row {
 public:
  SPECDEC_TEAM Row(const SummedRow<Scalar>& row, float scale, const RowSummary& summary)
      : row_(row), scale_(scale), of_(summary) {}

  SPECDEC_TEAM Index vocab_size() const { return row_.vocab_size; }
  SPECDEC_TEAM FaultKind fault() const { return of_.fault; }

  /// The probability of a token; 0 outside the vocabulary.
  SPECDEC_TEAM double probability(Token x) const {
    if (x < 0 || x >= row_.vocab_size) return 0;
    if (of_.chosen >= 0) return x == of_.chosen ? 1 : 0;
    const Index s = x / segment_size;
    const float top = segment_top(s);
    return static_cast<double>(number(widen(row_.logits[x]), top)) * unit(top) / of_.total;
  }

  /// The token that u of [0, 1) draws: segments in their order, lanes in theirs. Known to all lanes.
  template <class Team>
  SPECDEC_TEAM Token draw(Team team, double u) const {
    if (of_.chosen >= 0) return of_.chosen;
    u *= of_.total;
    const Index s = segment_of(team, u);
    const float top = segment_top(s);
    const double before = s > 0 ? row_.cumulative[s - 1] : 0;
    return draw_in(team, s, (u - before) / unit(top),
                   [&](int, float l) SPECDEC_TEAM_LAMBDA { return number(l, top); });
  }

  /// The residual mass Σ (w·p − q)+ of a segment.
  template <class Team, class Draft>
  SPECDEC_TEAM double residual_mass(Team team, double w, const Draft& q, Index s) const {
    auto mass = sum_lanes(team, s, [&](Token x, float) SPECDEC_TEAM_LAMBDA { return residual(w, q, x); });
    team.add_up(mass);
    return team.get(mass, lanes - 1);
  }
  /// The token of a segment that u, from 0 to the segment's residual mass, draws from the residual.
  template <class Team, class Draft>
  SPECDEC_TEAM Token draw_residual(Team team, double w, const Draft& q, Index s, double u) const {
    return draw_in(team, s, u, [&](Token x, float) SPECDEC_TEAM_LAMBDA { return residual(w, q, x); });
  }
  /// (w·p(x) − q(x))+; NaN if q(x) is.
  template <class Draft>
  SPECDEC_TEAM double residual(double w, const Draft& q, Token x) const {
    const double difference = product(w, probability(x)) - q.probability(x);
    return difference < 0 ? 0 : difference;
  }

  /// The token with the largest logit, the lowest id among equals.
  template <class Team>
  SPECDEC_TEAM Token argmax(Team team) const {
    const Index count = row_.segments();
    const float most = detail::largest_of(team, row_.sums, count);
    for (Index first = 0; first < count; first += lanes) {
      const int lane = team.first([&](int k) SPECDEC_TEAM_LAMBDA {
        return first + k < count && row_.sums[first + k].largest == most;
      });
      if (lane >= 0) return first_in(team, first + lane, most);
    }
    return -1;  // only where the row holds NaN
  }

 private:
  SPECDEC_TEAM float segment_top(Index s) const { return top_of(row_.sums[s].largest, scale_); }
  // A segment's unit in units of the row.
  SPECDEC_TEAM double unit(float top) const {
    return power_of_two(static_cast<double>(top) - static_cast<double>(of_.top));
  }

  // A logit's number in units of its segment; 0 below the cut.
  SPECDEC_TEAM float number(float l, float top) const {
    return l < of_.cut ? 0 : power_of_two(l, scale_, top);
  }

  // The first segment with mass at which the cumulative sum passes u; the last one with mass if none does. Cumulative sums are
  // rounded, each in an order of its own: a segment without mass may have a larger one than all segments with mass.
  template <class Team>
  SPECDEC_TEAM Index segment_of(Team team, double u) const {
    const Index count = row_.segments();
    const auto has_mass = [&](Index s) SPECDEC_TEAM_LAMBDA {
      return s < count && detail::mass_of(row_.sums[s], scale_, of_.top) > 0;
    };
    for (Index first = 0; first < count; first += lanes) {
      const int lane = team.first(
          [&](int k) SPECDEC_TEAM_LAMBDA { return has_mass(first + k) && u < row_.cumulative[first + k]; });
      if (lane >= 0) return first + lane;
    }
    for (Index first = (count - 1) / lanes * lanes; first >= 0; first -= lanes) {
      const int lane = team.last([&](int k) SPECDEC_TEAM_LAMBDA { return has_mass(first + k); });
      if (lane >= 0) return first + lane;
    }
    return 0;
  }

  // The sum of weight(token, logit) over the columns of each lane.
  template <class Team, class Weight>
  SPECDEC_TEAM auto sum_lanes(Team team, Index s, const Weight& weight) const {
    typename Team::template PerLane<double> mass;
    const int count = row_.columns(s);
    const Index start = s * segment_size;
    team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
      double sum = 0;
      for (int k = 0; k < lane_size; ++k) {
        const int place = detail::place_of(lane, k);
        if (place < count)
          sum += weight(static_cast<Token>(start + place), widen(row_.logits[start + place]));
      }
      team.at(mass, lane) = sum;
    });
    return mass;
  }

  // The token at which the sum of weights, lane by lane, passes u; the last one with weight if it stays below, by rounding. Of
  // lanes only those with weight count, as of segments.
  template <class Team, class Weight>
  SPECDEC_TEAM Token draw_in(Team team, Index s, double u, const Weight& weight) const {
    auto own = sum_lanes(team, s, weight), mass = own;
    team.add_up(mass);
    const int drawn = team.first(
        [&](int lane) SPECDEC_TEAM_LAMBDA { return team.at(own, lane) > 0 && u < team.at(mass, lane); });
    const int who =
        drawn >= 0 ? drawn : team.last([&](int lane) SPECDEC_TEAM_LAMBDA { return team.at(own, lane) > 0; });
    double left = u - (who > 0 ? team.get(mass, who - 1) : 0.0);
    const int count = row_.columns(s);
    const Index start = s * segment_size;
    Token found = -1;
    for (int k = 0; k < lane_size; ++k) {  // every lane reads the columns of that lane
      const int place = detail::place_of(who, k);
      if (place >= count) break;
      const double here = weight(static_cast<Token>(start + place), widen(row_.logits[start + place]));
      if (!(here > 0)) continue;
      found = static_cast<Token>(start + place);
      if (left < here) break;
      left -= here;
    }
    return found;
  }

  // The first token of a segment with this logit.
  template <class Team>
  SPECDEC_TEAM Token first_in(Team team, Index s, float logit) const {
    const int count = row_.columns(s);
    const Scalar* here = row_.segment(s);
    for (int first = 0; first < count; first += lanes) {
      const int lane = team.first(
          [&](int k) SPECDEC_TEAM_LAMBDA { return first + k < count && widen(here[first + k]) == logit; });
      if (lane >= 0) return static_cast<Token>(s * segment_size + first + lane);
    }
    return -1;
  }

  SummedRow<Scalar> row_;
  float scale_;
  RowSummary of_;
};

/// Finishes a row of which the segments were summed: finds what is wrong with it, cuts it, and writes the cumulative sums.
/// Cost: a few numbers a segment. A cut costs what cut_of() costs, and reads those segments again that keep a token; their sums
/// change.
template <class Crew, class Scalar>
SPECDEC_TEAM RowSummary finish_row(Crew& crew, const SummedRow<Scalar>& row, Settings settings) {
  RowSummary of{infinity, 0, -infinity, -1, FaultKind::bad_setting};
  if (!are_valid(settings)) return of;
  if (!row.largest && (settings.top_k > 0 || settings.top_p < 1)) return of;
  const float scale = scale_of(settings), most = detail::largest_of(crew.team(), row.sums, row.segments());
  of.fault = most != most                        ? FaultKind::target_is_nan
             : most * scale > largest_scaled     ? FaultKind::target_is_infinite
             : !(most * scale > -largest_scaled) ? FaultKind::target_has_no_mass
                                                 : FaultKind::none;
  if (of.fault != FaultKind::none) return of;
  if (settings.temperature == 0) {
    of.chosen = Row<Scalar>(row, scale, of).argmax(crew.team());
    return of;
  }
  of.top = top_of(most, scale);
  of.total = detail::add_segments(crew, row, scale, of.top);
  of.cut = cut_of(crew, row, settings, most, scale, of.top, of.total);
  if (of.cut > -infinity) {
    crew.each([&](auto team, int j) SPECDEC_TEAM_LAMBDA {
      for (Index s = j; s < row.segments(); s += Crew::size) sum_kept(team, row, s, scale, of.cut);
    });
    of.total = detail::add_segments(crew, row, scale, of.top);
  }
  return of;
}

}  // namespace specdec::device
