# SPDX-License-Identifier: MIT
# cmake -DENGINE=file "-DRUN=python, rustc or go" -DLIBRARY=libspecdec_c.so -DINCLUDE=folder -DBUILD=folder -P engine.cmake
#
# An engine's loop in another language, compiled where that is needed, writes this text. So all of them write one text.
cmake_minimum_required(VERSION 3.25)
set(text "0 1 2 0 3 5 0 6 4 5 7 6 3 4 7 3 5 1 7 0 6 2 1 3 6 2 0 2 0 3 1 4 1 0 1 7 5 3 1 7\n39 tokens in 9 calls\n")

cmake_path(GET LIBRARY PARENT_PATH folder)
cmake_path(GET ENGINE EXTENSION language)
file(MAKE_DIRECTORY ${BUILD})
set(program ${BUILD}/engine)
if(language STREQUAL ".rs")
  execute_process(COMMAND ${RUN} -L ${folder} -o ${program} ${ENGINE} COMMAND_ERROR_IS_FATAL ANY)
elseif(language STREQUAL ".go")
  set(ENV{GO111MODULE} off)
  set(ENV{GOCACHE} ${BUILD}/cache)
  set(ENV{CGO_ENABLED} 1)
  set(ENV{CGO_CFLAGS} -I${INCLUDE})
  set(ENV{CGO_LDFLAGS} -L${folder})
  execute_process(COMMAND ${RUN} build -o ${program} ${ENGINE} COMMAND_ERROR_IS_FATAL ANY)
else()
  set(program ${RUN} ${ENGINE} ${LIBRARY})
endif()
set(ENV{LD_LIBRARY_PATH} ${folder})
execute_process(COMMAND ${program} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed STREQUAL text)
  message(FATAL_ERROR "${ENGINE} printed\n${printed}, and not\n${text}")
endif()
