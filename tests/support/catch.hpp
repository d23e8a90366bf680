// Catch2, version 2 or 3.
// SPDX-License-Identifier: MIT
#pragma once

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
