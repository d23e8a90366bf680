# SPDX-License-Identifier: MIT
# Checks that the code and outputs on the pages equal those of the programs. A comment above a block says how it is checked:
#
#   <!-- cut from FILE -->            declarations from FILE; indentation may differ
#   <!-- inside FILE -->              statements from FILE
#   <!-- source FILE -->              any lines of FILE
#   <!-- printed by PROGRAM ARGS -->  output of the example PROGRAM; times may differ. Without arguments, the test
#                                     example/PROGRAM ran it before (prints.cmake)
#
# A page has no other comments, and no C++ without such a comment. Its declarations and statements also compile together, in
# their order on the page. Its links lead to files and headings that exist. A line "error: ..." is the first line of a case
# of tests/compile: the compiler says it.
#
#   cmake -DPAGE=README.md -DROOT=source_dir -DBIN=examples_binary_dir -P pages.cmake     checks one page
#   (LEFT_OUT: programs that are not built; their blocks are not checked)
#   cmake -DPAGE=README.md -DROOT=source_dir -DWRITE=program.cpp -P pages.cmake           writes its C++ as one program
#
# In that program the statements below each heading are in their own scope, inside the scope of the heading above it.
cmake_minimum_required(VERSION 3.25)
file(READ ${ROOT}/${PAGE} page)
set(rest "${page}")

# Text without indentation and without measured times.
function(normalise text result)
  string(REGEX REPLACE "\n +" "\n" text "\n${text}\n")
  string(REGEX REPLACE "time \\(ms\\)[^\n]*" "time" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Finds the next block: sets kind, source, block, and `above`, the text between the last block and this one. After the last
# block kind is empty.
macro(next_block)
  string(REGEX MATCH "<!-- (cut from|inside|source|printed by) ([^\n]*) -->\n```[a-z]*\n" head "${rest}")
  set(kind "${CMAKE_MATCH_1}")
  set(source "${CMAKE_MATCH_2}")
  set(above "${rest}")
  if(NOT head STREQUAL "")
    string(FIND "${rest}" "${head}" begin)
    string(LENGTH "${head}" length)
    string(SUBSTRING "${rest}" 0 ${begin} above)
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "\n```" length)
    string(SUBSTRING "${rest}" 0 ${length} block)
    math(EXPR length "${length} + 4")
    string(SUBSTRING "${rest}" ${length} -1 rest)
  endif()
endmacro()

# ---- The page as a program -----------------------------------------------------------------------------------

if(WRITE)
  set(declarations "")
  set(statements "")
  set(open "")  # a brace for each heading above the block
  next_block()
  while(kind)
    if(above MATCHES "\n## ")
      string(APPEND statements "${open}{\n")
      set(open "}\n")
    endif()
    if(above MATCHES "\n### ")
      string(REGEX REPLACE "^}\n}" "}" below "${open}")
      if(NOT below STREQUAL open)
        string(APPEND statements "}\n")
      endif()
      string(APPEND statements "{\n")
      set(open "}\n${below}")
    endif()
    if(kind STREQUAL "cut from" AND NOT block MATCHES "int main")  # a whole program compiles as its own file
      string(APPEND declarations "${block}\n\n")
    elseif(kind STREQUAL "inside")
      string(APPEND statements "${block}\n\n")
    endif()
    next_block()
  endwhile()
  string(APPEND statements "${open}")
  file(CONFIGURE OUTPUT ${WRITE} @ONLY CONTENT "// The C++ of ${PAGE}.
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <limits>
#include <list>
#include <random>
#include <span>
#include <specdec/more/analysis.hpp>
#include <specdec/more/drafters.hpp>
#include <specdec/more/models.hpp>
#include <specdec/more/ranks.hpp>
#include <specdec/more/samplers.hpp>
#include <specdec/more/text.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <string_view>
#include <vector>

@declarations@
int main() {
@statements@}
")
  return()
endif()

# ---- Blocks --------------------------------------------------------------------------------------------------

set(checked 0)
string(REGEX MATCHALL "<!--" comments "${page}")
list(LENGTH comments expected)
string(REGEX MATCHALL "\n```cpp\n" cpp "${page}")
list(LENGTH cpp cpp)
set(cpp_checked 0)

next_block()
while(kind)
  if(kind STREQUAL "printed by")
    separate_arguments(command UNIX_COMMAND "${source}")
    list(GET command 0 program)
    if(program IN_LIST LEFT_OUT)
      math(EXPR checked "${checked} + 1")
      next_block()
      continue()
    endif()
    if(EXISTS ${BIN}/printed/${source}.txt)
      file(READ ${BIN}/printed/${source}.txt text)
    else()
      list(TRANSFORM command PREPEND ${BIN}/ AT 0)
      execute_process(COMMAND ${command} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    endif()
  else()
    file(READ ${ROOT}/${source} text)
  endif()
  if(head MATCHES "```cpp")
    math(EXPR cpp_checked "${cpp_checked} + 1")
  endif()
  normalise("${block}" block)
  normalise("${text}" text)
  string(FIND "${text}" "${block}" found)
  if(found EQUAL -1)
    message(NOTICE "The block of ${PAGE}:\n${block}\nWhat there is:\n${text}")
    message(FATAL_ERROR "${PAGE} has a block that is not ${kind} ${source}")
  endif()
  math(EXPR checked "${checked} + 1")
  next_block()
endwhile()
if(NOT checked EQUAL expected)
  message(FATAL_ERROR "${PAGE} has ${expected} comments, but only ${checked} of them mark a block that follows")
endif()
if(NOT cpp_checked EQUAL cpp)
  message(FATAL_ERROR "${PAGE} has ${cpp} blocks of C++, of which ${cpp_checked} are checked")
endif()

# ---- Links ---------------------------------------------------------------------------------------------------

# The anchors of a page's headings, by GitHub's rule: lower case, hyphens for blanks, no punctuation.
function(anchors file result)
  file(STRINGS ${file} headings REGEX "^#+ " ENCODING UTF-8)
  set(all "")
  foreach(heading IN LISTS headings)
    string(TOLOWER "${heading}" anchor)
    string(REGEX REPLACE "^#+ " "" anchor "${anchor}")
    string(REGEX REPLACE "[`,.?!:;'*()/]" "" anchor "${anchor}")
    string(REPLACE " " "-" anchor "${anchor}")
    list(APPEND all "${anchor}")
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

cmake_path(GET PAGE PARENT_PATH folder)
set(links 0)
set(rest "${page}")
while(rest MATCHES "\\]\\(([^) ]+)\\)")  # the parameters of a lambda have a blank
  set(link "${CMAKE_MATCH_1}")
  string(FIND "${rest}" "](${link})" begin)
  math(EXPR begin "${begin} + 2")
  string(SUBSTRING "${rest}" ${begin} -1 rest)
  if(NOT link MATCHES "^https?://")
    string(REGEX REPLACE "#.*" "" file "${link}")
    if(link MATCHES "#(.*)")
      set(anchor "${CMAKE_MATCH_1}")
    endif()
    if(file STREQUAL "")
      set(file ${ROOT}/${PAGE})
    else()
      set(file ${ROOT}/${folder}/${file})
    endif()
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "${PAGE} has a link to ${link}, which is not there")
    endif()
    if(link MATCHES "#")
      anchors(${file} known)
      if(NOT anchor IN_LIST known)
        message(FATAL_ERROR "${PAGE} has a link to ${link}, but there is no such heading: ${known}")
      endif()
    endif()
  endif()
  math(EXPR links "${links} + 1")
endwhile()

# ---- Errors --------------------------------------------------------------------------------------------------

file(GLOB cases ${ROOT}/tests/compile/*.cpp)
set(errors "")
foreach(case IN LISTS cases)
  file(STRINGS ${case} error LIMIT_COUNT 1)
  string(APPEND errors "${error}\n")
endforeach()
file(STRINGS ${ROOT}/${PAGE} shown REGEX "^(> )?error: " ENCODING UTF-8)
foreach(error IN LISTS shown)
  string(REGEX REPLACE "^(> )?error: " "" error "${error}")
  string(FIND "${errors}" "// must say: ${error}\n" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${PAGE} has an error that no case of tests/compile must say: ${error}")
  endif()
endforeach()
list(LENGTH shown shown)

message(STATUS "${checked} blocks, ${links} links and ${shown} errors of ${PAGE} checked")
