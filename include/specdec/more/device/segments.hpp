// Segments of a row of logits: the only pass over a row. A kernel that writes logits can write these sums, too.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstring>

#include "specdec/more/device/numbers.hpp"
#include "specdec/more/device/team.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

/// The columns of a segment. The last segment of a row may have fewer.
inline constexpr int segment_size = 1024;
/// The columns that one lane reads.
inline constexpr int lane_size = segment_size / lanes;

/// The largest logit of a segment, and Σ 2^(l·scale − top_of(largest·scale)). NaN as the largest: a logit is NaN.
struct SegmentSum {
  float largest;
  float sum;
};

/// How many segments a row has.
SPECDEC_TEAM Index segments_of(Index vocab_size) { return (vocab_size + segment_size - 1) / segment_size; }

/// A row of logits with its work space.
template <class Scalar>
struct SummedRow {
  const Scalar* logits;
  Index vocab_size;
  SegmentSum* sums;    ///< of each segment
  float* largest;      ///< of each lane in each segment; nullptr where no row has top-k or top-p
  double* cumulative;  ///< the sum up to each segment, in units of the row

  SPECDEC_TEAM Index segments() const { return segments_of(vocab_size); }
  /// The logits of segment s, and how many there are.
  SPECDEC_TEAM const Scalar* segment(Index s) const { return logits + s * segment_size; }
  SPECDEC_TEAM int columns(Index s) const {
    const Index left = vocab_size - s * segment_size;
    return static_cast<int>(left < segment_size ? left : segment_size);
  }
};

/// Logits times log2(e)/temperature are told apart up to this size. A larger one in a row is taken for +inf, a smaller one than
/// its negative for -inf.
inline constexpr float largest_scaled = 0x1p22F;

/// The power of two that a segment's sum is counted in: an integer, so that rescaling is exact.
SPECDEC_TEAM float top_of(float largest, float scale) {
  const float top = rounded_up(largest * scale);
  return top > -largest_scaled ? top : -largest_scaled;  // -inf is no number to subtract
}

namespace detail {

/// Where in the segment lane `lane` finds its column k: in chunks of 8 that lie side by side, so that a lane reads 16 bytes
/// or 32 at once.
SPECDEC_TEAM constexpr int place_of(int lane, int k) { return (k / 8) * (8 * lanes) + lane * 8 + k % 8; }

/// A lane's logits of a segment of `count` columns. Columns beyond the end are −inf.
template <class Scalar>
SPECDEC_TEAM void load(const Scalar* logits, int count, int lane, float* x) {
  struct alignas(16) Chunk {
    Scalar numbers[8];
  };
  const bool aligned = reinterpret_cast<std::uintptr_t>(logits) % 16 == 0;  // rows of an odd V are not
  if (count == segment_size && aligned) {
    SPECDEC_UNROLLED for (int c = 0; c < lane_size / 8; ++c) {
      Chunk chunk;
#if defined(__CUDA__) || defined(__CUDACC__)
      __builtin_memcpy(&chunk, __builtin_assume_aligned(logits + place_of(lane, 8 * c), 16), sizeof chunk);
#else
      std::memcpy(&chunk, logits + place_of(lane, 8 * c), sizeof chunk);
#endif
      SPECDEC_UNROLLED for (int k = 0; k < 8; ++k) x[8 * c + k] = widen(chunk.numbers[k]);
    }
  } else {
    SPECDEC_UNROLLED for (int k = 0; k < lane_size; ++k) {
      const int place = place_of(lane, k);
      x[k] = place < count ? widen(logits[place]) : -infinity;
    }
  }
}

struct LaneLogits {
  float x[lane_size];
};

/// Σ 2^(l·scale − top) over the logits of all lanes.
/// Numeric: sums in float, over 32 columns of a lane in four parts, then over the lanes.
template <class Team>
SPECDEC_TEAM float sum_logits(Team team, typename Team::template PerLane<LaneLogits>& mine, float scale,
                              float top) {
  typename Team::template PerLane<float> number;
  team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
    const float* x = team.at(mine, lane).x;
    float part[4] = {0, 0, 0, 0};
    SPECDEC_UNROLLED for (int k = 0; k < lane_size; ++k) part[k % 4] += power_of_two(x[k], scale, top);
    team.at(number, lane) = (part[0] + part[2]) + (part[1] + part[3]);
  });
  return team.sum(number);
}

}  // namespace detail

/// Sums segment s of a row, and finds its largest logit.
/// Cost: reads each logit once.
template <class Team, class Scalar>
SPECDEC_TEAM void sum_segment(Team team, const SummedRow<Scalar>& row, Index s, float scale) {
  typename Team::template PerLane<detail::LaneLogits> mine;
  typename Team::template PerLane<float> number;
  team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
    float* x = team.at(mine, lane).x;
    detail::load(row.segment(s), row.columns(s), lane, x);
    float largest = x[0];
    SPECDEC_UNROLLED for (int k = 1; k < lane_size; ++k) largest = team.larger(largest, x[k]);
    team.at(number, lane) = largest;
    if (row.largest) row.largest[s * lanes + lane] = largest;
  });
  const float largest = team.largest(number);
  const float sum = detail::sum_logits(team, mine, scale, top_of(largest, scale));
  team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
    if (lane == 0) row.sums[s] = {largest, sum};
  });
}

/// Sums segment s again, as if all logits below `cut` were −inf. Its largest logit stays.
template <class Team, class Scalar>
SPECDEC_TEAM void sum_kept(Team team, const SummedRow<Scalar>& row, Index s, float scale, float cut) {
  const float largest = row.sums[s].largest;
  float sum = 0;
  if (largest >= cut) {
    typename Team::template PerLane<detail::LaneLogits> mine;
    team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
      float* x = team.at(mine, lane).x;
      detail::load(row.segment(s), row.columns(s), lane, x);
      SPECDEC_UNROLLED for (int k = 0; k < lane_size; ++k) x[k] = x[k] >= cut ? x[k] : -infinity;
    });
    sum = detail::sum_logits(team, mine, scale, top_of(largest, scale));
  }
  team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
    if (lane == 0) row.sums[s].sum = sum;
  });
}

}  // namespace specdec::device
