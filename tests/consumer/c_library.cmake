# SPDX-License-Identifier: MIT
# A program in C uses the library of the C interface, shared and static: as a subdirectory, installed by CMake, and by
# pkg-config. The shared library exports the interface and nothing else.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${BUILD})
set(program ${SOURCE}/examples/engine/verify_from_c.c)
list(POP_FRONT COMPILER cxx)
list(JOIN COMPILER " " cxx_flags)

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
function(check_program)
  run(${ARGN})
  if(NOT output MATCHES "2 of 3 accepted, then token 3")
    message(FATAL_ERROR "${ARGN} prints\n${output}")
  endif()
endfunction()
function(configure source build)  # not optimised: that would take twice as long
  run(${CMAKE_COMMAND} -S ${source} -B ${build} -G ${GENERATOR} -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${cxx}
    -DCMAKE_CXX_FLAGS=${cxx_flags} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DCMAKE_INSTALL_LIBDIR=lib
    -DPROGRAM=${program} ${ARGN})
endfunction()
# The installed library serves from any place.
function(install build prefix)
  run(${CMAKE_COMMAND} --install ${build} --prefix ${prefix}_before)
  file(RENAME ${prefix}_before ${prefix})
endfunction()
function(check_installed how prefix)
  set(build ${BUILD}/installed_${how})
  configure(${SOURCE}/tests/consumer/project_c ${build} -DHOW=${how} -DCMAKE_PREFIX_PATH=${prefix})
  run(${CMAKE_COMMAND} --build ${build})
  check_program(${build}/consumer_in_c)
  if(NOT PKG_CONFIG)
    return()
  endif()
  set(ENV{PKG_CONFIG_PATH} ${prefix}/lib/pkgconfig)
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs specdec_c OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${C_COMPILER} -std=c99 ${program} ${flags} -o ${BUILD}/by_pkg_config_${how})
  check_program(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/lib ${BUILD}/by_pkg_config_${how})
endfunction()

# Shared, as a subdirectory of a project in C; what that has built is then installed.
set(shared ${BUILD}/shared)
configure(${SOURCE}/tests/consumer/project_c ${shared} -DHOW=subdirectory -DSPECDEC_SOURCE=${SOURCE} -DEigen3_DIR=${EIGEN3_DIR}
  -DBUILD_SHARED_LIBS=ON -DSPECDEC_INSTALL=ON)
run(${CMAKE_COMMAND} --build ${shared})
check_program(${shared}/consumer_in_c)
install(${shared} ${BUILD}/prefix_shared)
check_installed(shared ${BUILD}/prefix_shared)

# Static, from a build of its own.
set(static ${BUILD}/static)
configure(${SOURCE} ${static} -DEigen3_DIR=${EIGEN3_DIR} -DSPECDEC_BUILD_C=ON -DSPECDEC_BUILD_TESTS=OFF
  -DSPECDEC_BUILD_EXAMPLES=OFF -DSPECDEC_BUILD_BENCH=OFF)
run(${CMAKE_COMMAND} --build ${static})
install(${static} ${BUILD}/prefix_static)
check_installed(static ${BUILD}/prefix_static)

# What the shared library is called, and what it exports: each function of the header, and nothing else.
file(STRINGS ${SOURCE}/include/specdec/more/c/specdec.h declarations REGEX "^SPECDEC_C_API ")
string(REGEX MATCHALL "specdec_[a-z_]+\\(" functions "${declarations}")
string(REGEX REPLACE "\\(" "" functions "${functions}")
list(SORT functions)
file(GLOB library ${BUILD}/prefix_shared/lib/libspecdec_c.so.*.*.*)
if(NOT library)
  message(FATAL_ERROR "no library is installed")
endif()
run(${NM} -D --defined-only ${library})
string(REGEX MATCHALL "[^ \n]+\n" exported "${output}")
string(REPLACE "\n" "" exported "${exported}")
list(SORT exported)
if(NOT exported STREQUAL functions)
  message(FATAL_ERROR "exported:\n${exported}\nthe functions of the header:\n${functions}")
endif()
