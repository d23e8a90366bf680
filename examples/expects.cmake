# cmake "-DCOMMAND=program;argument;..." "-DOUTPUT=regex" ["-DNEVER=regex"] -P expects.cmake
#
# The command must end with status 0, and its stdout match OUTPUT, what it prints anywhere not NEVER. (CTest's own
# PASS_REGULAR_EXPRESSION takes no notice of the status.)
if(OUTPUT STREQUAL "")
  message(FATAL_ERROR "no OUTPUT is expected: any would do")
endif()
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "exit status ${status} instead of 0; stdout:\n${printed}\nstderr:\n${said}")
endif()
if(NOT printed MATCHES "${OUTPUT}")
  message(FATAL_ERROR "stdout does not match ${OUTPUT}:\n${printed}\nstderr:\n${said}")
endif()
if(NOT NEVER STREQUAL "" AND "${printed}${said}" MATCHES "${NEVER}")
  message(FATAL_ERROR "it prints what matches ${NEVER}:\n${printed}\nstderr:\n${said}")
endif()
