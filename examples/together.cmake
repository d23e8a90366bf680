# SPDX-License-Identifier: MIT
# Joins many programs into one. Each program becomes a function in its own namespace, and the first argument chooses one.
# So the compiler reads the library, and instantiates common templates, only once.
#
#   cmake -DPROGRAMS="one.cpp;other.cpp" -DWRITE=together.cpp -P together.cmake
#
# Each file must end with its main(), which gets what follows the first argument. All includes come first, so that they are
# outside the namespaces.
cmake_minimum_required(VERSION 3.25)

foreach(program IN LISTS PROGRAMS)
  cmake_path(GET program STEM name)
  file(STRINGS ${program} include_lines REGEX "^#include ")
  list(APPEND includes ${include_lines})
  file(READ ${program} text)
  if(NOT text MATCHES "\nint main\\((int [a-z]+, char\\*\\* [a-z]+)?\\) {\n")
    message(FATAL_ERROR "${program} has no line `int main() {` or `int main(int count, char** arguments) {`")
  endif()
  set(arguments "")
  if(CMAKE_MATCH_1)
    set(arguments "argc - 1, argv + 1")
  endif()
  string(REGEX REPLACE "#include [^\n]*" "" text "${text}")
  string(REPLACE "\nint main(" "\nint run(" text "${text}")
  string(REGEX REPLACE "\n}\n$" "\nreturn 0;\n}\n" text "${text}")
  string(APPEND namespaces "namespace ${name} {\n#line 1 \"${program}\"\n${text}}\n")
  string(APPEND choices "  if (name == \"${name}\") return ${name}::run(${arguments});\n")
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(CONFIGURE OUTPUT ${WRITE} @ONLY CONTENT [[@includes@
@namespaces@
int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
@choices@  return 2;
}
]])
