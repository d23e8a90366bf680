// A drafter that claims to be steady.
#pragma once

#include <utility>

namespace support {

// Has a drafter taken for steady (specdec::is_steady) by rules that are chosen when the program runs. The test sees to it
// that no rule needs that, or shows what becomes of the text where one does.
template <class D>
struct Trusted : D {
  static constexpr bool steady = true;
  explicit Trusted(D drafter) : D(std::move(drafter)) {}
};

}  // namespace support
