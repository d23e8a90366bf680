// The clock by which steps are timed.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

// <mutex> brings the durations and clocks of <chrono>, which itself also brings calendars and time zones: these compile slowly.
#include <mutex>

namespace specdec::inline v0_2_0::detail {

/// A program that simulates models may bring a clock of its own, with nanoseconds: define SPECDEC_CLOCK as its type, equally in
/// all files, before the first include. Then draft lengths that measure time see the simulated times, and every run is equal.
#ifdef SPECDEC_CLOCK
using Clock = SPECDEC_CLOCK;
#else
using Clock = std::chrono::steady_clock;
#endif

inline double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

}  // namespace specdec::detail
