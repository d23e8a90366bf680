// main() for Catch2 version 2, compiled into one source file of the program. (Version 3 has its own.)
// SPDX-License-Identifier: MIT
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
