// The version of the library. CMakeLists.txt reads it from here. Before 1.0 a new MINOR may break programs that compiled before.
//
// All names of the library are in an inline namespace, which has the version in its name. So libraries that were compiled with
// two versions can be parts of one program: neither calls the functions of the other, and where one would be given an object
// of the other, the program is not linked. A program writes `specdec::` as ever, and may specialise the library's templates in
// `namespace specdec`. It cannot declare a class of the library by itself: it includes the header.
// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#define SPECDEC_VERSION_MAJOR 0
#define SPECDEC_VERSION_MINOR 2
#define SPECDEC_VERSION_PATCH 0

/// The version as one number, to be compared in `#if`: 10000 * MAJOR + 100 * MINOR + PATCH. Version 0.2.0 is 200.
#define SPECDEC_VERSION (10000 * SPECDEC_VERSION_MAJOR + 100 * SPECDEC_VERSION_MINOR + SPECDEC_VERSION_PATCH)

namespace specdec::inline v0_2_0 {

/// The version as a text, to be printed.
inline constexpr std::string_view version = "0.2.0";

}  // namespace specdec
