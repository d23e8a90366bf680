# SPDX-License-Identifier: MIT
# cmake -DHOW=fixed|broken -DCASES=<folder> -DSOURCE=<file to write> -DCOMPILER=<command;flags;...>
#   -DCOMPILER_ID=GNU|Clang -P check.cmake
# cmake -DHOW=refused -DSOURCE=<file> -DCOMPILER=<command;flags;...> -DWORDS=<regular expression> -P check.cmake
#
# (HOW=refused) The file must not compile: the first error must match the words, and the only other one is that a file is
# missing, which ends the compilation.
#
# cmake -DHOW=compiles -DSOURCE=<file> -DCOMPILER=<command;flags;...> -P check.cmake
#
# (HOW=compiles) The file must compile.
#
# No case <folder>/*.cpp may compile, and the compiler's message must hold the words after "must say:" in the first
# line of the case (HOW=broken); with FIXED defined each must compile, so that it fails for no other reason
# (HOW=fixed).
#
# All cases are compiled at once, each in a namespace of its own: reading the library takes a compiler longer than
# all of the cases together. Their includes are included first, so that they do not end up in a namespace. A compiler says
# once what is wrong with an instantiation. So a case that it says nothing about is compiled once more, alone.
cmake_minimum_required(VERSION 3.25)

if(HOW STREQUAL "compiles")
  execute_process(COMMAND ${COMPILER} ${SOURCE} COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()

if(HOW STREQUAL "refused")
  set(ENV{LC_ALL} C)  # compiler messages in English
  execute_process(COMMAND ${COMPILER} ${SOURCE} RESULT_VARIABLE failed ERROR_VARIABLE message)
  string(REGEX MATCHALL "error: [^\n]*" errors "${message}")
  list(LENGTH errors count)
  list(GET errors 0 first)
  if(NOT failed)
    message(FATAL_ERROR "${SOURCE} compiles, but must not")
  elseif(NOT first MATCHES "${WORDS}" OR NOT count EQUAL 2)
    message(FATAL_ERROR "${SOURCE} fails with ${count} errors, expected one that says ${WORDS}, and a missing file:\n${message}")
  endif()
  return()
endif()

file(GLOB cases ${CASES}/*.cpp)
if(NOT cases)
  message(FATAL_ERROR "no cases in ${CASES}")
endif()
foreach(case IN LISTS cases)
  cmake_path(GET case STEM name)
  file(STRINGS ${case} include_lines REGEX "^#include <")
  list(APPEND includes ${include_lines})
  string(APPEND namespaces "namespace ${name} {\n#include \"${case}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(WRITE ${SOURCE} "${includes}\n${namespaces}")

set(ENV{LC_ALL} C)  # compiler messages in English
if(HOW STREQUAL "fixed")
  list(APPEND COMPILER -DFIXED)
endif()
execute_process(COMMAND ${COMPILER} ${SOURCE} RESULT_VARIABLE failed ERROR_VARIABLE message)

if(HOW STREQUAL "fixed")
  if(failed)
    message(FATAL_ERROR "a case does not compile although FIXED is defined:\n${message}")
  endif()
  return()
endif()

if(failed AND NOT message MATCHES "/[a-z0-9_]+\\.cpp:")
  message(FATAL_ERROR "an error that lies in no case:\n${message}")
endif()

# said_<case>: the compiler's messages about a case. GCC names the case before an error, wherever the error is. Clang
# names it in the error or in the notes after it.
string(REGEX REPLACE "[][;]" "|" lines "${message}")
string(REPLACE "\n" ";" lines "${lines}")
set(case "")
set(unassigned "")
foreach(line IN LISTS lines)
  if(NOT COMPILER_ID STREQUAL "GNU" AND line MATCHES " error: ")
    set(case "")
    set(unassigned "")
  endif()
  if(line MATCHES "/([a-z0-9_]+)\\.cpp:" AND (case STREQUAL "" OR COMPILER_ID STREQUAL "GNU"))
    set(case ${CMAKE_MATCH_1})
  endif()
  if(case STREQUAL "")
    string(APPEND unassigned "${line}\n")
  else()
    string(APPEND said_${case} "${unassigned}${line}\n")
    set(unassigned "")
  endif()
endforeach()

foreach(case IN LISTS cases)
  cmake_path(GET case STEM name)
  file(STRINGS ${case} first_line LIMIT_COUNT 1)
  if(NOT first_line MATCHES "^// must say: (.+)$")
    message(SEND_ERROR "${name}: its first line does not tell what the compiler must say")
    continue()
  endif()
  set(word "${CMAKE_MATCH_1}")
  string(REGEX REPLACE "[][+.*()^$?|\\]" "\\\\\\0" pattern "${word}")  # a sentence may have parentheses
  if(NOT said_${name} MATCHES " error: ")
    execute_process(COMMAND ${COMPILER} -x c++ ${case} ERROR_VARIABLE said_${name})
  endif()
  if(NOT said_${name} MATCHES " error: ")
    message(SEND_ERROR "${name}: compiles, but must not")
  elseif(NOT said_${name} MATCHES "[^A-Za-z_]${pattern}[^A-Za-z_]")
    message(SEND_ERROR "${name}: fails, but without a word of ${word}:\n${said_${name}}")
  endif()
endforeach()
