// The clock by which steps are timed.
#pragma once

// It needs the durations and the clocks of <chrono>, and brings them: <chrono> itself brings calendars and time zones, too,
// which take a compiler a while to read.
#include <mutex>

namespace specdec::detail {

using Clock = std::chrono::steady_clock;

inline double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

}  // namespace specdec::detail
