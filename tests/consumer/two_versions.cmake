# SPDX-License-Identifier: MIT
# Two libraries of one program were compiled with two versions of specdec. Each goes on with its own.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${BUILD})
# The other version has another namespace and another message, and is otherwise a copy of this one.
foreach(header IN ITEMS platform error)
  file(READ ${SOURCE}/include/specdec/${header}.hpp text)
  string(REGEX REPLACE "(namespace specdec)::inline [a-z0-9_]+" "\\1::inline v9_9_9" text "${text}")
  string(REPLACE "({\"specdec: \"" "({\"another specdec: \"" text "${text}")
  file(WRITE ${BUILD}/other/specdec/${header}.hpp "${text}")
endforeach()

set(program "
#include <specdec/error.hpp>
std::string NAME() {
  try {
    specdec::detail::invalid_argument(\"n = \", -1);
  } catch (const specdec::Error& error) {
    return error.what();
  }
}
")
file(WRITE ${BUILD}/ours.cpp "${program}")
file(WRITE ${BUILD}/main.cpp "${program}
std::string ours();
int main() { return ours() == \"specdec: n = -1\" && NAME() == \"another specdec: n = -1\" ? 0 : 1; }
")
set(flags -std=c++20 -O0 -Wall -Wextra -Werror)
execute_process(COMMAND ${COMPILER} ${flags} -DNAME=ours -I${SOURCE}/include -c ours.cpp -o ours.o
  WORKING_DIRECTORY ${BUILD} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${COMPILER} ${flags} -DNAME=other -Iother main.cpp ours.o -o program
  WORKING_DIRECTORY ${BUILD} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${BUILD}/program COMMAND_ERROR_IS_FATAL ANY)
