# SPDX-License-Identifier: MIT
# The target `doxygen` writes the reference of the headers, as HTML, into the build folder: doxygen/html/index.html.
# filter.py shows doxygen the comments in its own words, pages.dox is the front page. A warning is an error where warnings of
# our own programs are.

set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/doxygen)
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR}/include)
set(DOXYGEN_STRIP_FROM_INC_PATH ${PROJECT_SOURCE_DIR}/include)
set(DOXYGEN_EXAMPLE_PATH ${PROJECT_SOURCE_DIR}/examples)
set(DOXYGEN_HTML_EXTRA_STYLESHEET ${PROJECT_SOURCE_DIR}/.doxygen/style.css)
set(DOXYGEN_HTML_COLORSTYLE_SAT 60)

# Python itself, not a script of pyenv before it: it is called for each header.
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable, end='')" OUTPUT_VARIABLE python)
set(DOXYGEN_FILE_PATTERNS *.hpp *.dox)
set(DOXYGEN_INPUT_FILTER "\"\\\"${python}\\\" .doxygen/filter.py\"")
set(DOXYGEN_VERBATIM_VARS DOXYGEN_INPUT_FILTER)
set(DOXYGEN_ALIASES [["field{1}=\par \1^^"]])
set(DOXYGEN_MACRO_EXPANSION YES)  # attributes of kernels are no part of their type
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED SPECDEC_KERNEL= SPECDEC_AVX512= SPECDEC_RUNS_KERNEL= SPECDEC_UNFUSED=)

set(DOXYGEN_JAVADOC_AUTOBRIEF YES)  # lists show the first sentence of a comment
set(DOXYGEN_EXTRACT_STATIC YES)
set(DOXYGEN_SORT_MEMBER_DOCS NO)
set(DOXYGEN_BUILTIN_STL_SUPPORT YES)
set(DOXYGEN_HAVE_DOT NO)  # one result, whether Graphviz is installed or not
set(DOXYGEN_CLASS_GRAPH TEXT)

set(DOXYGEN_QUIET YES)
set(DOXYGEN_WARN_IF_UNDOCUMENTED NO)  # a function whose name says it all has no comment
if(SPECDEC_WARNINGS_AS_ERRORS)
  set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
endif()

doxygen_add_docs(doxygen include .doxygen/pages.dox COMMENT "Writes ${DOXYGEN_OUTPUT_DIRECTORY}/html/index.html")
