# SPDX-License-Identifier: MIT
# The runner in C, check_engine.c, with engines that it must acquit, convict or call broken.
set(specdec_vectors ${CMAKE_CURRENT_LIST_DIR})

# specdec_engine(name engine definition ...): a program that holds engines/<engine>.h to vectors.json.
function(specdec_engine name engine)
  specdec_program_in_c(${name} ${specdec_vectors}/check_engine.c)
  target_compile_definitions(${name} PRIVATE "ENGINE=\"engines/${engine}.h\"" ${ARGN})
endfunction()

if(NOT CMAKE_C_COMPILER)
  specdec_skips(example/vectors/c "a C compiler")
  return()
endif()
set(file --vectors ${specdec_vectors}/vectors.json)
set(at_least_40 "([4-9][0-9]|[1-9][0-9][0-9]) cases, ")  # an engine that does not take a case is not judged by it
set(at_least_180 "(1[89]|[2-9][0-9])[0-9] cases, ")
specdec_engine(engine_specdec specdec_c)
specdec_expects(example/vectors/c_interface engine_specdec OUTPUT "^acquitted: ${at_least_180}" ARGUMENTS ${file} --samples 4000)
specdec_expects(example/vectors/c_interface_batched engine_specdec OUTPUT "^acquitted: 2[5-9] cases, .*no such rule: 3\n"
  ARGUMENTS ${file} --mode batched)
specdec_engine(engine_token token_rule)
specdec_expects(example/vectors/c_token engine_token OUTPUT "^acquitted: ${at_least_40}" ARGUMENTS ${file} --samples 4000)
specdec_expects(example/vectors/c_token_exact engine_token OUTPUT "^acquitted: ${at_least_40}by their laws to 1e-6 .0 by samples alone. "
  ARGUMENTS ${file} --mode exact)

specdec_expects(example/vectors/c_token_batched engine_token OUTPUT "^acquitted: 16 cases, " ARGUMENTS ${file} --mode batched)

# Four mistakes. The last two are too small for some thousand samples, and plain where the law is computed.
specdec_engine(engine_next_row token_rule MISTAKE=NEXT_ROW)
specdec_expects(example/vectors/c_next_row engine_next_row OUTPUT "^convicted: " STATUS 1 ARGUMENTS ${file})
specdec_engine(engine_one_number token_rule MISTAKE=ONE_NUMBER)
specdec_expects(example/vectors/c_one_number engine_one_number OUTPUT "^convicted: " STATUS 1 ARGUMENTS ${file})
specdec_engine(engine_smoothed token_rule MISTAKE=SMOOTHED_RATIO)
specdec_expects(example/vectors/c_smoothed engine_smoothed OUTPUT "^convicted: " STATUS 1 ARGUMENTS ${file} --mode exact)
specdec_engine(engine_hole token_rule MISTAKE=HOLE)
specdec_expects(example/vectors/c_hole engine_hole OUTPUT "^convicted: [2-9][0-9] of " STATUS 1 ARGUMENTS ${file} --mode exact)

# A fifth shows in batches alone: it needs a draft that is longer than the first one of the call.
specdec_engine(engine_first_length token_rule MISTAKE=FIRST_LENGTH)
specdec_expects(example/vectors/c_first_length engine_first_length OUTPUT "^acquitted: ${at_least_40}" ARGUMENTS ${file})
specdec_expects(example/vectors/c_first_length_batched engine_first_length OUTPUT "^convicted: 4 of 16 cases, " STATUS 1
  ARGUMENTS ${file} --mode batched)

specdec_engine(engine_broken broken)
specdec_expects(example/vectors/c_no_batches engine_broken OUTPUT "define VECTOR_BATCHES and verify_batch" STATUS 2 ARGUMENTS ${file} --mode batched)
specdec_expects(example/vectors/c_broken engine_broken OUTPUT "broken: case .* token [0-9]+ of a vocabulary of.*\nbroken: 2[0-9][0-9] of 2[0-9][0-9] cases" STATUS 2
  ARGUMENTS ${file})
specdec_expects(example/vectors/c_no_file engine_broken OUTPUT "no_such_file: cannot be opened" STATUS 2
  ARGUMENTS --vectors no_such_file)
