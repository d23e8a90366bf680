# SPDX-License-Identifier: MIT
# cmake "-DCOMMAND=program;argument;..." "-DALONE=program;argument;..." "-DOUTPUT=regex" -P alike.cmake
#
# Both programs must end with status 0 and print equal texts, up to the empty line before the counts. The counts of COMMAND
# must match OUTPUT.
foreach(which IN ITEMS ALONE COMMAND)
  execute_process(COMMAND ${${which}} RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${which}: exit status ${status} instead of 0; stdout:\n${printed}\nstderr:\n${said}")
  endif()
  string(FIND "${printed}" "\n\n" end REVERSE)
  if(end LESS 100)
    message(FATAL_ERROR "${which}: no text before an empty line:\n${printed}")
  endif()
  string(SUBSTRING "${printed}" 0 ${end} ${which}_text)
  string(SUBSTRING "${printed}" ${end} -1 counts)
endforeach()
if(NOT COMMAND_text STREQUAL ALONE_text)
  message(FATAL_ERROR "another text than alone:\n${COMMAND_text}\nalone:\n${ALONE_text}")
endif()
if(NOT counts MATCHES "${OUTPUT}")
  message(FATAL_ERROR "the counts do not match ${OUTPUT}:${counts}")
endif()
