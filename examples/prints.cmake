# SPDX-License-Identifier: MIT
# cmake "-DCOMMAND=program;argument;..." -DPRINTED=file -P prints.cmake
#
# The command must end with status 0. The file gets its stdout.
file(REMOVE ${PRINTED})
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE printed ECHO_OUTPUT_VARIABLE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${PRINTED} "${printed}")
