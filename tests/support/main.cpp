// main() for Catch2 version 2, which is compiled into one source file of the program. (Version 3 brings its
// own.)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
