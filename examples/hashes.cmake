# cmake -DPAGE=file "-DFILES=file;..." -P hashes.cmake
#
# The page tells where the files come from: it must name each of them, and hold its SHA-256.
if(FILES STREQUAL "")
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
