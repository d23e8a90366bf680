# SPDX-License-Identifier: MIT
# cmake "-DCOMMAND=program;argument;..." "-DOUTPUT=regex" "-DNEVER=regex" ["-DSTATUS=number"] -P expects.cmake
#
# The command must end with status 0, and its stdout must match OUTPUT. With another STATUS, its stderr must match OUTPUT
# instead. Neither stdout nor stderr may match NEVER; an empty NEVER is not checked. (CTest's own PASS_REGULAR_EXPRESSION
# ignores the exit status.)
if("${OUTPUT}" STREQUAL "")
  message(FATAL_ERROR "no OUTPUT is expected: any would do")
endif()
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE said)
if("${STATUS}" STREQUAL "")
  set(STATUS 0)
endif()
if(NOT status EQUAL STATUS)
  message(FATAL_ERROR "exit status ${status} instead of ${STATUS}; stdout:\n${printed}\nstderr:\n${said}")
endif()
if(STATUS EQUAL 0 AND NOT printed MATCHES "${OUTPUT}")
  message(FATAL_ERROR "stdout does not match ${OUTPUT}:\n${printed}\nstderr:\n${said}")
endif()
if(NOT STATUS EQUAL 0 AND NOT said MATCHES "${OUTPUT}")
  message(FATAL_ERROR "stderr does not match ${OUTPUT}:\n${said}\nstdout:\n${printed}")
endif()
if(NOT NEVER STREQUAL "" AND "${printed}${said}" MATCHES "${NEVER}")
  message(FATAL_ERROR "it prints what matches ${NEVER}:\n${printed}\nstderr:\n${said}")
endif()
