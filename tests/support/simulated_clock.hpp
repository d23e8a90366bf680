// A clock that only simulated models advance, and models that do. Include this before any header of the library, in a program
// of one file.
// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace support {

struct SimulatedClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<SimulatedClock>;
  static constexpr bool is_steady = true;

  static inline time_point time = {};
  static time_point now() { return time; }
};

}  // namespace support

#define SPECDEC_CLOCK support::SimulatedClock
