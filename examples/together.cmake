# Writes one program of many: each program a function in a namespace of its own, chosen by the first argument. A compiler
# reads the library, and instantiates what the programs share, once.
#
#   cmake -DPROGRAMS="one.cpp;other.cpp" -DWRITE=together.cpp -P together.cmake
#
# main() is the last of each file, and takes no arguments. What the files include is included before, so that it does not
# end up in a namespace.
cmake_minimum_required(VERSION 3.25)

foreach(program IN LISTS PROGRAMS)
  cmake_path(GET program STEM name)
  file(STRINGS ${program} include_lines REGEX "^#include <")
  list(APPEND includes ${include_lines})
  file(READ ${program} text)
  if(NOT text MATCHES "\nint main\\(\\) {\n")
    message(FATAL_ERROR "${program} has no main() without arguments")
  endif()
  string(REGEX REPLACE "#include [^\n]*" "" text "${text}")
  string(REPLACE "\nint main() {\n" "\nint run() {\n" text "${text}")
  string(REGEX REPLACE "\n}\n$" "\nreturn 0;\n}\n" text "${text}")
  string(APPEND namespaces "namespace ${name} {\n#line 1 \"${program}\"\n${text}}\n")
  string(APPEND choices "  if (name == \"${name}\") return ${name}::run();\n")
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(CONFIGURE OUTPUT ${WRITE} @ONLY CONTENT [[@includes@
@namespaces@
int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
@choices@  return 2;
}
]])
