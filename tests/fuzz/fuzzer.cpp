// What libFuzzer calls, for the target SPECDEC_FUZZ.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>

#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::SPECDEC_FUZZ({data, size});
  return 0;
}
