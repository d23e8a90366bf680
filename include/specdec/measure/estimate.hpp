// Numbers that are not known exactly.
// SPDX-License-Identifier: MIT
#pragma once

namespace specdec::inline v0_2_0 {

/// A number and its standard error.
struct Estimate {
  double value = 0;
  double standard_error = 0;
};

/// The numbers from low to high: a confidence interval, or all that a number can be by what is known.
struct Interval {
  double low = 0;
  double high = 1;
};

}  // namespace specdec
