// All 16-bit numbers, against Eigen's conversion.
// SPDX-License-Identifier: MIT
#include <specdec/kernels/widen.hpp>

#include "kernels/widths.hpp"
#include "support/catch.hpp"

namespace test_kernels_widen {

using namespace test_kernels;

namespace {

template <class Narrow>
bool all_widened_at(VectorWidth width) {
  constexpr std::uint32_t count = 1u << 16;
  std::vector<Narrow> narrow;
  for (std::uint32_t bits = 0; bits < count; ++bits)
    narrow.push_back(Eigen::numext::bit_cast<Narrow>(static_cast<Eigen::numext::uint16_t>(bits)));
  std::vector<float> wide(count);
  run_at<Widen<Narrow>>(width, narrow.data(), Index{count}, wide.data());
  for (std::uint32_t bits = 0; bits < count; ++bits)
    if (!same(wide[bits], static_cast<float>(narrow[bits]))) return false;
  return true;
}

}  // namespace

TEST_CASE("half and bfloat16 numbers become the floats that they stand for") {
  for (const VectorWidth width : widths()) {
    CHECK(all_widened_at<Eigen::half>(width));
    CHECK(all_widened_at<Eigen::bfloat16>(width));
  }
}

}  // namespace test_kernels_widen
