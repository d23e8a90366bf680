# Checks the README against what is compiled and run, so that it cannot rot:
#
#   <!-- cut from FILE -->            the code block that follows stands in FILE (indentation aside)
#   <!-- printed by PROGRAM ARGS -->  the block that follows is what the example PROGRAM prints (times aside)
#
# The page has no other comments: one that is neither is taken for a marker with a mistake.
#
# cmake -DREADME=README.md -DROOT=source_dir -DBIN=examples_binary_dir -P readme.cmake
cmake_minimum_required(VERSION 3.25)

file(READ ${README} rest)
set(checked 0)
string(REGEX MATCHALL "<!--" comments "${rest}")
list(LENGTH comments expected)

# Text without indentation and without measured times.
function(normalise text result)
  string(REGEX REPLACE "\n +" "\n" text "\n${text}\n")
  string(REGEX REPLACE "time \\(ms\\)[^\n]*" "time" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

while(TRUE)
  string(REGEX MATCH "<!-- (cut from|printed by) ([^\n]*) -->\n```[a-z]*\n" head "${rest}")
  if(head STREQUAL "")
    break()
  endif()
  set(kind "${CMAKE_MATCH_1}")
  set(source "${CMAKE_MATCH_2}")
  string(FIND "${rest}" "${head}" begin)
  string(LENGTH "${head}" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${rest}" ${begin} -1 rest)
  string(FIND "${rest}" "\n```" length)
  string(SUBSTRING "${rest}" 0 ${length} block)
  string(SUBSTRING "${rest}" ${length} -1 rest)

  if(kind STREQUAL "cut from")
    file(READ ${ROOT}/${source} text)
  else()
    separate_arguments(command UNIX_COMMAND "${source}")
    list(POP_FRONT command program)
    execute_process(COMMAND ${BIN}/${program} ${command} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  endif()
  normalise("${block}" block)
  normalise("${text}" text)
  string(FIND "${text}" "${block}" found)
  if(found EQUAL -1)
    message(NOTICE "The block of README.md:\n${block}\nWhat there is:\n${text}")
    message(FATAL_ERROR "README.md has a block that is not ${kind} ${source}")
  endif()
  math(EXPR checked "${checked} + 1")
endwhile()

if(expected EQUAL 0 OR NOT checked EQUAL expected)
  message(FATAL_ERROR "README.md has ${expected} comments, but only ${checked} of them mark a block that follows")
endif()
message(STATUS "${checked} blocks of README.md checked")
