# SPDX-License-Identifier: MIT
# cmake -DPAGE=file "-DFILES=file;..." -P hashes.cmake
#
# PAGE says where the files come from. It must hold the name and the SHA-256 of each file.
if("${FILES}" STREQUAL "")
  message(FATAL_ERROR "there are no files to check")
endif()
file(READ ${PAGE} page)
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  cmake_path(GET file FILENAME name)
  foreach(word IN ITEMS "${name}" "`${hash}`")
    string(FIND "${page}" "${word}" found)
    if(found EQUAL -1)
      message(FATAL_ERROR "${PAGE} does not hold ${word}: it tells of another file than ${file}")
    endif()
  endforeach()
endforeach()
