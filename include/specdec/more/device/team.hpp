// A team is 32 lanes that work on one row. On a GPU it is a warp (warp.hpp); here it is a loop that adds in the same order.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "specdec/more/device/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

inline constexpr int lanes = 32;

/// A team on a CPU: a loop over its lanes. It has the functions of a team:
///
///   PerLane<T>          a variable of each lane; at(x, lane) is one of them
///   run(f)              calls f(lane) on each lane
///   larger(a, b)        the larger number; NaN if one is NaN
///   largest(x), sum(x)  over all lanes, known to all
///   add_up(x)           each lane's number becomes the sum of the numbers up to its own
///   get(x, lane)        a lane's number, known to all
///   first(f), last(f)   the first and the last lane with f(lane); −1 if there is none
///
/// Sums equal a warp's, to the bit: lane l adds the number of lane l + 16, then l + 8, and so on.
struct LoopTeam {
  template <class T>
  using PerLane = std::array<T, lanes>;

  template <class T>
  static T& at(PerLane<T>& x, int lane) {
    return x[static_cast<std::size_t>(lane)];
  }
  template <class F>
  static void run(F f) {
    for (int lane = 0; lane < lanes; ++lane) f(lane);
  }
  static float larger(float a, float b) { return a != a || a > b ? a : b; }
  static float largest(const PerLane<float>& x) {
    float found = x[0];
    for (const float other : x) found = larger(found, other);
    return found;
  }
  template <class T>
  static T sum(PerLane<T> x) {
    for (int step = lanes / 2; step > 0; step /= 2)
      for (int lane = 0; lane < step; ++lane) at(x, lane) += at(x, lane + step);
    return x[0];
  }
  static void add_up(PerLane<double>& x) {
    for (int step = 1; step < lanes; step *= 2)
      for (int lane = lanes - 1; lane >= step; --lane) at(x, lane) += at(x, lane - step);
  }
  template <class T>
  static T get(PerLane<T>& x, int lane) {
    return at(x, lane);
  }
  template <class F>
  static int first(F f) {
    for (int lane = 0; lane < lanes; ++lane)
      if (f(lane)) return lane;
    return -1;
  }
  template <class F>
  static int last(F f) {
    for (int lane = lanes - 1; lane >= 0; --lane)
      if (f(lane)) return lane;
    return -1;
  }
};

/// What one team found in a round of a race: a drawn token, with p and q. −1: it was not asked to draw.
struct Answer {
  Token token;
  double p, q;
};

/// The most tokens of a draft that is judged on a device.
inline constexpr Index most_drafted = 64;

/// A crew on a CPU: `size` teams that judge one request together. It has the functions of a crew:
///
///   each(f)             calls f(team, j) for j = 0, ..., size − 1, each on a team of its own; returns when all have ended, and
///                       what they wrote to memory is seen by all
///   ask(f)              the same; f returns an Answer, and answer(j) is known to all
///   sum(f)              the same; f returns an integer, and their sum is known to all
///   team()              this lane's own team
///   lead(f)             calls f() on one lane
///   scratch()           most_drafted + 1 numbers for the rule
template <int teams>
class LoopCrew {
 public:
  static constexpr int size = teams;

  static LoopTeam team() { return {}; }
  template <class F>
  static void lead(F f) {
    f();
  }
  template <class F>
  static void each(F f) {
    for (int j = 0; j < size; ++j) f(LoopTeam{}, j);
  }
  template <class F>
  void ask(F f) {
    for (int j = 0; j < size; ++j) answers_[static_cast<std::size_t>(j)] = f(LoopTeam{}, j);
  }
  template <class F>
  static std::uint64_t sum(F f) {
    std::uint64_t sum = 0;
    for (int j = 0; j < size; ++j) sum += f(LoopTeam{}, j);
    return sum;
  }
  const Answer& answer(int j) const { return answers_[static_cast<std::size_t>(j)]; }
  double* scratch() { return scratch_.data(); }

 private:
  std::array<Answer, static_cast<std::size_t>(size)> answers_;
  std::array<double, most_drafted + 1> scratch_;
};

}  // namespace specdec::device
