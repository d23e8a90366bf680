# SPDX-License-Identifier: MIT
# Builds PROGRAM in LANGUAGE with TOOL, and checks what it prints.
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${BUILD})
cmake_path(GET LIBRARY PARENT_PATH folder)
if(LANGUAGE STREQUAL "python")
  set(program ${TOOL} ${SOURCE}/${PROGRAM}.py ${LIBRARY})
elseif(LANGUAGE STREQUAL "rust")
  set(program ${BUILD}/${PROGRAM})
  execute_process(COMMAND ${TOOL} -O -L ${folder} ${SOURCE}/${PROGRAM}.rs -o ${program} COMMAND_ERROR_IS_FATAL ANY)
else()
  set(program ${BUILD}/${PROGRAM})
  execute_process(COMMAND ${CMAKE_COMMAND} -E env GO111MODULE=off GOFLAGS= CGO_ENABLED=1 GOCACHE=${BUILD}/cache CC=${C_COMPILER}
      CGO_CFLAGS=-I${INCLUDE} CGO_LDFLAGS=-L${folder} ${TOOL} build -o ${program} ${SOURCE}/${PROGRAM}.go
    COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${folder} ${program} OUTPUT_VARIABLE output
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT output MATCHES "${OUTPUT}")
  message(FATAL_ERROR "${LANGUAGE}: ${PROGRAM} prints\n${output}")
endif()
