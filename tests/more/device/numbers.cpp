// Numbers of logits on a device: every half, every bfloat16, and powers of two against <cmath>.
// SPDX-License-Identifier: MIT
#include "specdec/more/device/numbers.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/catch.hpp"

namespace test_more_device_numbers {

using namespace specdec;

TEST_CASE("every half and every bfloat16 has its number") {
  int wrong = 0;
  const auto differs = [](float a, float b) {
    return std::isnan(b) ? !std::isnan(a)
                         : std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b);
  };
  for (std::uint32_t n = 0; n <= 0xffff; ++n) {
    const auto bits = static_cast<std::uint16_t>(n);
    wrong += differs(device::widen(device::Half{bits}),
                     static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits)));
    wrong += differs(device::widen(device::Bfloat16{bits}),
                     static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("powers of two are right to 2e-7 in float and 1e-15 in double, and end at 0") {
  double worst = 0, worst_double = 0;
  for (int k = 0; k <= 125 * 256; ++k) {
    const float x = static_cast<float>(-k) / 256.0F - 0.0013F * static_cast<float>(k % 3);
    const double power = device::power_of_two(x, 1.0F, 0.0F);
    worst = std::max(worst, std::abs(power / std::exp2(static_cast<double>(x)) - 1));
    worst_double = std::max(worst_double, std::abs(device::power_of_two(7.9 * x) / std::exp2(7.9 * x) - 1));
  }
  CHECK(worst < 2e-7);
  CHECK(worst_double < 1e-15);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(device::power_of_two(3.0F, 2.0F, 6.0F) == 1.0F);
  CHECK(device::power_of_two(3.0F, 2.0F, 7.0F) == 0.5F);
  for (const float l : {-infinity, -1e30F, -127.0F}) CHECK(device::power_of_two(l, 1.0F, 0.0F) == 0.0F);
  CHECK(device::power_of_two(-infinity, 1.0F, -1e30F) == 0.0F);
  CHECK(device::power_of_two(-1001.0) == 0.0);
  CHECK(device::power_of_two(-std::numeric_limits<double>::infinity()) == 0.0);
  CHECK(device::power_of_two(5.0) == 32.0);
}

}  // namespace test_more_device_numbers
