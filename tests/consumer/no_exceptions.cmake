# SPDX-License-Identifier: MIT
# A program without exceptions and RTTI compiles and runs. At an error it prints the text and aborts, or calls its handler.
cmake_minimum_required(VERSION 3.25)

file(MAKE_DIRECTORY ${BUILD})
list(TRANSFORM EIGEN PREPEND -isystem)
execute_process(COMMAND ${COMPILER} -std=c++20 -O0 -fno-exceptions -fno-rtti -Wall -Wextra -Werror ${EIGEN}
    -I${SOURCE}/include ${SOURCE}/tests/consumer/project/no_exceptions.cpp -o ${BUILD}/program
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${BUILD}/program COMMAND_ERROR_IS_FATAL ANY)

function(check mistake text)
  execute_process(COMMAND ${BUILD}/program ${mistake} RESULT_VARIABLE status ERROR_VARIABLE error)
  if(status MATCHES "^[0-9]$" OR NOT error MATCHES "^specdec: ${text}")
    message(FATAL_ERROR "${mistake}: status ${status}, with the text\n${error}")
  endif()
  execute_process(COMMAND ${BUILD}/program ${mistake} handled RESULT_VARIABLE status OUTPUT_VARIABLE output)
  if(NOT status EQUAL 3 OR NOT output MATCHES "^handled: specdec: ${text}")
    message(FATAL_ERROR "${mistake}, handled: status ${status}, with the output\n${output}")
  endif()
endfunction()
# The callers of what fails add the row, the loop and the tokens to the text.
check(argument "lenience = -1 is outside ")
check(target "target row 3: ")
check(cascade "cascade's target row 2: ")
check(rule "a coin has probability nan, where a rule judges ")
