// How far a test goes: the bounds of every run, and the larger ones of `tests/run --all`.
#pragma once

#include <cstdlib>

namespace support {

template <class Number>
Number bound(Number usual, Number exhaustive) {
  return std::getenv("SPECDEC_TEST_ALL") ? exhaustive : usual;
}

}  // namespace support
