// The version of the library. CMakeLists.txt reads it from here.
// SPDX-License-Identifier: MIT
#pragma once

/// For `#if`: compare MAJOR, then MINOR, then PATCH. Before 1.0 a new MINOR may break programs that compiled before.
#define SPECDEC_VERSION_MAJOR 0
#define SPECDEC_VERSION_MINOR 1
#define SPECDEC_VERSION_PATCH 0
