// Catch2, version 2 or 3, for tests that judge rows of any sum.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/rows/read/sum_check.hpp>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#include <string>
using Catch::Approx;  // global in version 2
namespace Catch {     // has this name in version 2
inline auto Contains(const std::string& part) { return Matchers::ContainsSubstring(part); }
}  // namespace Catch
#else
#include <catch2/catch.hpp>
#endif

namespace support {

// Many tests judge rows that sum to anything, and count what is read of them.
inline const specdec::Index sum_checks_before = specdec::check_every(0);

}  // namespace support
