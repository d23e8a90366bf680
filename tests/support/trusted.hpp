// A drafter that claims to be steady.
// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

namespace support {

// Declares a drafter steady (specdec::is_steady), for rules chosen at run time. The test makes sure that no rule needs
// a steady drafter, or shows what happens to the text if one does.
template <class D>
struct Trusted : D {
  static constexpr bool steady = true;
  explicit Trusted(D drafter) : D(std::move(drafter)) {}
};

}  // namespace support
