# cmake -DSOURCE=<case>.cpp -DCOMPILER=<command;flags;...> -P check.cmake
#
# The case must not compile, with a message that holds the word behind "must say:" in its first line; and must
# compile with FIXED defined, so that it fails for no other reason.
file(STRINGS ${SOURCE} first_line LIMIT_COUNT 1)
string(REGEX REPLACE "^// must say: " "" word "${first_line}")

execute_process(COMMAND ${COMPILER} -DFIXED ${SOURCE} RESULT_VARIABLE failed ERROR_VARIABLE message)
if(failed)
  message(FATAL_ERROR "does not compile although FIXED is defined:\n${message}")
endif()

execute_process(COMMAND ${COMPILER} ${SOURCE} RESULT_VARIABLE failed ERROR_VARIABLE message)
if(NOT failed)
  message(FATAL_ERROR "compiles, but must not")
endif()
if(NOT message MATCHES "[^A-Za-z_]${word}[^A-Za-z_]")
  message(FATAL_ERROR "fails, but without a word of ${word}:\n${message}")
endif()
