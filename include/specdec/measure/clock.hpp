// The clock by which steps are timed.
#pragma once

#include "specdec/platform.hpp"

// <mutex> brings the durations and clocks of <chrono>. <chrono> itself also brings calendars and time zones, which compile
// slowly.
#include <mutex>

namespace specdec::detail {

using Clock = std::chrono::steady_clock;

inline double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

}  // namespace specdec::detail
