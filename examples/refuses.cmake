# cmake "-DCOMMAND=program;argument;..." -DMESSAGE=text -P refuses.cmake
#
# The command must end with status 2 and say why in one line on stderr, which holds MESSAGE.
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
if(NOT status EQUAL 2)
  message(FATAL_ERROR "exit status ${status} instead of 2; stderr:\n${said}")
endif()
if(NOT said MATCHES "^[^\n]+\n$")
  message(FATAL_ERROR "not one line on stderr:\n${said}")
endif()
string(FIND "${said}" "${MESSAGE}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "stderr does not mention ${MESSAGE}:\n${said}")
endif()
