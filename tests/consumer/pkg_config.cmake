# SPDX-License-Identifier: MIT
# A program finds the installed library by pkg-config.
cmake_minimum_required(VERSION 3.25)
set(ENV{PKG_CONFIG_PATH} ${PREFIX}/share/pkgconfig)
execute_process(COMMAND pkg-config --cflags specdec OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
file(MAKE_DIRECTORY ${BUILD})
execute_process(COMMAND ${COMPILER} -std=c++20 -O0 ${flags} ${SOURCE}/tests/consumer/project/small.cpp
  ${SOURCE}/tests/consumer/project/by_hand.cpp -o ${BUILD}/program COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${BUILD}/program COMMAND_ERROR_IS_FATAL ANY)
