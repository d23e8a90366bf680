# SPDX-License-Identifier: MIT
# cmake "-DCOMMAND=program;argument;..." -DMADE=file -DKEPT=file -P remakes.cmake
#
# The command must end with status 0, and the file MADE that it writes must equal the file KEPT, byte for byte.
file(REMOVE ${MADE})
execute_process(COMMAND ${COMMAND} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(READ ${MADE} made HEX)
file(READ ${KEPT} kept HEX)
if(NOT made STREQUAL kept)
  file(READ ${MADE} made)
  message(FATAL_ERROR "${KEPT} is not what is made now:\n${made}")
endif()
