# SPDX-License-Identifier: MIT
# cmake "-DCOMMAND=program;argument;..." -DMESSAGE=text [-DSTATUS=number] -P refuses.cmake
#
# The command must end with status 2, or STATUS, and print one line on stderr that holds MESSAGE. It must print nothing on
# stdout: a program checks its input before it prints.
if(NOT DEFINED STATUS)
  set(STATUS 2)
endif()
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE said)
if(NOT status EQUAL STATUS)
  message(FATAL_ERROR "exit status ${status} instead of ${STATUS}; stderr:\n${said}")
endif()
if(NOT printed STREQUAL "")
  message(FATAL_ERROR "it prints before it fails:\n${printed}")
endif()
if(NOT said MATCHES "^[^\n]+\n$")
  message(FATAL_ERROR "not one line on stderr:\n${said}")
endif()
string(FIND "${said}" "${MESSAGE}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "stderr does not mention ${MESSAGE}:\n${said}")
endif()
