# SPDX-License-Identifier: MIT
# The tests of the program generate.
add_test(NAME example/generate COMMAND generate "The white whale" --tokens 50 --table-tokens 5)
add_test(NAME example/generate/greedy COMMAND generate --half --temperature 0 --tokens 20 --table-tokens 5)
specdec_expects(example/generate/deepened generate OUTPUT "deepened to 9 layers.*token for token: yes"
  ARGUMENTS --target-layers 9 --temperature 0 --tokens 1 --table-tokens 10)
add_test(NAME example/generate/ngram COMMAND generate --ngram --tokens 50 --table-tokens 100)

# Without --gamma the text is drafted by what calls cost, and the table has a fixed length, and a row that is not.
specdec_expects(example/generate/by_cost generate
  OUTPUT "target calls; by what calls cost here, [0-9.]+ tokens drafted a call.*block +3 .*block, auto +[0-9]+\\.[0-9].* 'auto', [0-9.]+ tokens cost [0-9.]+\\..*token for token: yes"
  ARGUMENTS --temperature 0 --tokens 20 --table-tokens 5)

# On equal drafts block verification emits at least as much as token verification, and more of long drafts.
specdec_expects(example/generate/equal_drafts generate
  OUTPUT "Block over token verification, by prompt: [^\n]* on equal drafts, [1-9][0-9]*\\.[0-9] % \\+- "
  ARGUMENTS --ngram --temperature 1 --gamma 8 --tokens 1 --table-tokens 20)

# All drafters and all draft lengths write the target's text. Otherwise the program's exit status is 1.
string(CONCAT every_drafter "draft model.*MLP speculator.*EAGLE layer.*Medusa heads.*learning draft model.*early exit.*skipped layers.*prompt lookup.*"
  "suffix.*lookahead.*then model.*for the model.* after 40 prompts.*token for token: yes")
specdec_expects(example/generate/drafters generate OUTPUT "${every_drafter}"
  ARGUMENTS --temperature 0 --tokens 1 --table-tokens 10 --compare drafters --gamma auto --rounds 2)
specdec_expects(example/generate/lengths generate
  OUTPUT "fixed +0 .*fixed +5 [^\n]*\nauto +[0-4]\\.[0-9].*\nearly +[0-4]\\.[0-9].*token for token: yes"
  ARGUMENTS --ngram --drafter chain --verifier token --temperature 0 --tokens 1 --table-tokens 20 --compare lengths
    --most-gamma 5)
specdec_expects(example/generate/drafters_of_ngrams generate
  OUTPUT "prompt lookup.*token for token: yes" NEVER "early exit|skipped layers"
  ARGUMENTS --ngram --temperature 0 --tokens 1 --table-tokens 20 --compare drafters --gamma 2)
specdec_expects(example/generate/vocabularies generate
  OUTPUT "draft model .*other model, common .*other model, as text .*bytes, as text .*token for token: yes"
  ARGUMENTS --temperature 0 --tokens 1 --table-tokens 10 --compare vocabularies --gamma 2)
# From here to the picture, the beginning of the text and the numbers of calls are recordings: the program printed them when
# the weights were committed. With new weights or drafters, take the new ones from the output of the failing tests, if
# example/generate/drafters passes: it says that the text is the target's own. The example over PyTorch writes this text
# with these weights, too, in as many calls.
foreach(drafter_and_calls model:${recorded_calls} speculator:16 eagle:19 medusa:20 early-exit:21 skip-layers:15 prompt-lookup:26 suffix:25 lookahead:25 retrieval:21 chain:17 cascade:18 none:40)
  string(REPLACE ":" ";" drafter_and_calls ${drafter_and_calls})
  list(POP_FRONT drafter_and_calls drafter calls)
  specdec_expects(example/generate/${drafter} generate
    OUTPUT "${recorded_text}.*40 tokens in ${calls} target calls"
    ARGUMENTS --drafter ${drafter} --gamma 3 --tokens 40 --temperature 0 --table-tokens 0 --prompt "The white whale")
endforeach()

# Also recorded: with only the last 8 tokens, the draft model guesses worse.
specdec_expects(example/generate/window generate OUTPUT "block: 40 tokens in 27 target calls.*token for token: yes"
  ARGUMENTS --draft-window 8 --gamma 3 --half --tokens 40 --temperature 0 --table-tokens 10 --prompt "The white whale")

# Trees write that text, too, in fewer calls. Their numbers of calls are also recorded.
foreach(tree_and_calls spares:16 likeliest:15 confident:15 suffix:23)
  string(REPLACE ":" ";" tree_and_calls ${tree_and_calls})
  list(POP_FRONT tree_and_calls tree calls)
  specdec_expects(example/generate/tree_${tree} generate
    OUTPUT "${recorded_text}.*${tree}, block: 40 tokens in ${calls} target calls"
    ARGUMENTS --tree ${tree} --tokens 40 --temperature 0 --table-tokens 0 --prompt "The white whale")
endforeach()
foreach(head_and_calls speculator:14 eagle:14 medusa:18)
  string(REPLACE ":" ";" head_and_calls ${head_and_calls})
  list(POP_FRONT head_and_calls head calls)
  specdec_expects(example/generate/tree_of_${head} generate
    OUTPUT "${recorded_text}.*confident, block: 40 tokens in ${calls} target calls"
    ARGUMENTS --drafter ${head} --tree confident --tokens 40 --temperature 0 --table-tokens 0 --prompt "The white whale")
endforeach()
specdec_expects(example/generate/tree_greedily generate
  OUTPUT "${recorded_text}.*spares, argmax: 40 tokens in 16 target calls"
  ARGUMENTS --tree spares --tree-widths 2,1,1 --verifier argmax --tokens 40 --table-tokens 0)
specdec_expects(example/generate/tree_shown generate
  OUTPUT "corrected.*bonus.*rejected.\n.without-replacement, token: 40 tokens in [0-9]+ target"
  ARGUMENTS --tree without-replacement --verifier token --show-rejected --tokens 40 --table-tokens 0)
# Trees by the rows depend on measured times: each run makes another number of calls, but writes that text. Drawn ones write
# another text each time, which may end by itself.
specdec_expects(example/generate/tree_confident_early generate
  OUTPUT "${recorded_text}.*confident, block: 40 tokens in [0-9]+ target calls"
  ARGUMENTS --tree confident --gamma early --tokens 40 --temperature 0 --table-tokens 0 --prompt "The white whale")
specdec_expects(example/generate/tree_drawn_early generate
  OUTPUT "without-replacement, block: [1-9][0-9]? tokens in [0-9]+ target calls"
  ARGUMENTS --tree without-replacement --gamma early --most-gamma 6 --tokens 40 --table-tokens 0)
foreach(tree drawn-first drawn-confident)
  specdec_expects(example/generate/tree_${tree} generate OUTPUT "${tree}, block: 40 tokens in (1[2-9]|2[0-9]) target calls"
    ARGUMENTS --tree ${tree} --tokens 40 --table-tokens 0)
endforeach()
string(CONCAT every_tree "linear +1 .*linear +2 .*spares 8,4 +2 .*likeliest 2,2 +2 .*confident +2 .*sequoia +2 .*auto +"
  "[0-2]\\.[0-9].*early confident +[0-2]\\.[0-9].* after 20 prompts.*token for token: yes")
specdec_expects(example/generate/trees generate OUTPUT "${every_tree}"
  ARGUMENTS --temperature 0 --tokens 1 --table-tokens 5 --compare trees --most-gamma 2)

# The output of --show: marks and counts in plain text, escape sequences if colours are wanted, and a picture. The committed
# picture was made by this command:
#
#   generate --prompt "The Secretary of the Treasury" --seed 3 --tokens 73 --gamma 3 --table-tokens 0 --show-rejected
#     --svg examples/pictures/show.svg
#
# It is at the default temperature, where the rules differ. Its random numbers are those of the seed on every machine, and none is so
# close to a boundary that the last bits of a sum would matter.
string(ASCII 27 escape)
# The counts are recorded. In a right run the accepted, correction and bonus tokens sum up to the 75 tokens of the text. Each
# of the 26 calls has one correction or bonus token.
set(shown --gamma 3 --temperature 0 --tokens 75 --table-tokens 0 --prompt "The Secretary of the Treasury")
specdec_expects(example/generate/show generate NEVER "${escape}"
  OUTPUT "Treasury has, however, been received from.*49 accepted, 11 corrected, 15 bonus.\n.block: 75 tokens in 26"
  ARGUMENTS --show --gamma 3 "The Secretary of the Treasury" --temperature 0 --tokens 75 --table-tokens 0)
specdec_expects(example/generate/show_rejected generate NEVER "${escape}"
  OUTPUT "has .-been re-., .-in the T-. however.*15 bonus, 27 rejected.\n" ARGUMENTS ${shown} --show-rejected)
specdec_expects(example/generate/show_in_colours generate
  OUTPUT "Treasury ${escape}.38.5.33mhas${escape}.0m${escape}.4.38.5.166m,${escape}.0m"
  ARGUMENTS ${shown} --show --color always)
specdec_expects(example/generate/show_nothing_drafted generate
  OUTPUT "0 accepted, 0 corrected, 0 bonus, 75 undrafted" ARGUMENTS ${shown} --show --drafter none)
set(pictured --seed 3 --gamma 3 --tokens 73 --table-tokens 0 --prompt "The Secretary of the Treasury")
add_test(NAME example/generate/picture
  COMMAND ${CMAKE_COMMAND} "-DCOMMAND=$<TARGET_FILE:generate>;${pictured};--show-rejected;--svg;show.svg" -DMADE=show.svg
    -DKEPT=${CMAKE_CURRENT_SOURCE_DIR}/pictures/show.svg -P ${CMAKE_CURRENT_SOURCE_DIR}/remakes.cmake)

# On a terminal there are colours, unless NO_COLOR is set. script(1) of util-linux acts as the terminal.
set(no_terminal TRUE)
find_program(SPECDEC_SCRIPT script)
mark_as_advanced(SPECDEC_SCRIPT)
if(SPECDEC_SCRIPT)  # other systems' script has other options
  execute_process(COMMAND ${SPECDEC_SCRIPT} -qec true /dev/null RESULT_VARIABLE no_terminal OUTPUT_QUIET ERROR_QUIET)
endif()
if(no_terminal)
  specdec_skips(example/generate/terminal "a terminal, by script of Debian's bsdutils")
else()
  function(specdec_on_terminal name output never option)
    add_test(NAME example/generate/${name}
      COMMAND ${CMAKE_COMMAND} -E env TERM=xterm NO_COLOR= ${ARGN} ${CMAKE_COMMAND}
        "-DCOMMAND=${SPECDEC_SCRIPT};-qec;'$<TARGET_FILE:generate>' --tokens 5 --table-tokens 0 ${option};/dev/null"
        -DOUTPUT=${output} -DNEVER=${never} -P ${CMAKE_CURRENT_SOURCE_DIR}/expects.cmake)
  endfunction()
  specdec_on_terminal(terminal "${escape}.38.5.33m" "" --show)
  specdec_on_terminal(terminal_no_color "accepted" "${escape}" --show NO_COLOR=1)
  specdec_on_terminal(terminal_dumb "accepted" "${escape}" --show TERM=dumb)
  specdec_on_terminal(terminal_color_never "accepted" "${escape}" "--show --color never")
  specdec_on_terminal(terminal_color_always "${escape}.38.5.33m" "" "--show --color always" NO_COLOR=1)
  specdec_on_terminal(terminal_unasked "target calls" "${escape}" "")
endif()

# A text that is read again by both models is the target's.
specdec_expects(example/generate/audit generate
  OUTPUT "audit: 120 tokens, evidence 10.[^\n]*: nothing speaks against the text" ARGUMENTS --audit --tokens 120 --table-tokens 0)
specdec_expects(example/generate/audit_ngrams generate
  OUTPUT "audit: 400 tokens, evidence 10.[^\n]*: nothing speaks against the text"
  ARGUMENTS --ngram --temperature 1 --audit --tokens 400 --table-tokens 0)

# Bad input.
specdec_refuses(generate audit_of_no_draw "--temperature above 0" --audit --temperature 0)
specdec_refuses(generate unknown_option "nonsense" --nonsense)
specdec_refuses(generate unknown_verifier "oracle" --verifier oracle)
specdec_refuses(generate bad_number "gamma" --gamma many)
specdec_refuses(generate temperature_is_nan "--temperature" --temperature nan)
specdec_refuses(generate temperature_is_minus_nan "--temperature" --temperature=-nan)
specdec_refuses(generate unknown_drafter "oracle" --drafter oracle)
specdec_refuses(generate unknown_topic "weather" --compare weather)
specdec_refuses(generate chain_of_many_q "greedy block" --drafter chain --verifier greedy-block)
specdec_refuses(generate exit_at_the_end "own 4 layers" --drafter early-exit --target-layers 8 --exit-layer 4)
specdec_refuses(generate exit_at_the_end_in_table "own 4 layers" --compare drafters --exit-layer 4)
specdec_refuses(generate exit_of_nothing "early-exit" --exit-layer 1)
specdec_refuses(generate exit_of_ngrams "transformers" --drafter early-exit --ngram)
specdec_refuses(generate skip_of_nothing "--skip is for" --skip a2)
specdec_refuses(generate skip_of_any_target "needs --skip" --drafter skip-layers
  --model ${specdec_apps}/transformer/weights/draft.bin)
specdec_refuses(generate skip_beyond_the_end "'f5' is none of a1, f1 to a4, f4" --drafter skip-layers --target-layers 8
  --skip a2,f5)
specdec_refuses(generate skip_in_table "'x' is none of" --compare drafters --skip x)
specdec_refuses(generate skip_of_ngrams "transformers" --drafter skip-layers --skip a2 --ngram)
specdec_refuses(generate skip_of_many_q "greedy block" --drafter skip-layers --verifier greedy-block)
specdec_refuses(generate retrieval_of_ngrams "transformers" --drafter retrieval --ngram)
specdec_refuses(generate head_of_ngrams "transformers" --drafter speculator --ngram)
specdec_refuses(generate medusa_of_ngrams "--drafter medusa needs transformers" --drafter medusa --ngram)
specdec_refuses(generate head_of_another_target "reads states of 768 numbers" --drafter speculator
  --model ${specdec_apps}/transformer/weights/draft.bin)
specdec_refuses(generate medusa_of_another_target "states of 256 numbers, found one of 1024 and 64" --drafter medusa
  --model ${specdec_apps}/transformer/weights/draft.bin)
specdec_refuses(generate medusa_of_many_q "greedy block" --drafter medusa --verifier greedy-block)
specdec_refuses(generate head_of_many_q "greedy block" --drafter speculator --verifier greedy-block)
specdec_refuses(generate limit_of_nothing "--gamma auto" --gamma 2 --most-gamma 3)
specdec_refuses(generate early_for_a_rule_that_remembers "does not depend on what was drafted" --gamma early
  --verifier greedy-block)
specdec_refuses(generate early_tree "for trees that grow by" --gamma early --tree spares)
specdec_refuses(generate lengths_of_nothing "--drafter none" --compare lengths --drafter none)
specdec_refuses(generate unknown_tree "oak" --tree oak)
specdec_refuses(generate tree_of_ngrams "take trees" --tree spares --ngram)
specdec_refuses(generate trees_of_ngrams "--compare trees" --compare trees --ngram)
specdec_refuses(generate tree_without_model "draft model" --tree confident --drafter suffix)
specdec_refuses(generate trees_without_model "--compare trees" --compare trees --drafter none)
specdec_refuses(generate tree_of_any_size "--gamma auto" --tree confident --gamma auto)
specdec_refuses(generate tree_drawn_greedily "--tree likeliest" --tree independent --temperature 0)
specdec_refuses(generate tree_drawn_to_match "--tree likeliest" --tree without-replacement --verifier sample-match)
specdec_refuses(generate tree_of_many_q "judges lines" --tree spares --verifier greedy-block)
specdec_refuses(generate trees_of_many_q "judges lines" --compare trees --verifier greedy-block)
specdec_refuses(generate tree_in_window "--draft-window" --tree spares --draft-window 64)
specdec_refuses(generate window_too_large "the model's context holds" --draft-window 513)
specdec_refuses(generate widths_of_nothing "--tree-widths" --tree-widths 2,1)
specdec_refuses(generate widths_by_confidence "--tree-widths" --tree confident --tree-widths 2,1)
specdec_refuses(generate widths_twice "--gamma" --tree spares --tree-widths 2,1 --gamma 2)
specdec_refuses(generate width_of_none "--tree-widths" --tree spares --tree-widths 2,0)
specdec_refuses(generate nodes_of_a_shape "--tree-nodes" --tree spares --tree-nodes 4)
specdec_refuses(generate missing_model "no_such_file" --model no_such_file.bin)
specdec_refuses(generate no_checkpoint "moby_dick.txt" --draft-model ${specdec_apps}/data/moby_dick.txt)
specdec_refuses(generate readme_as_model "is no checkpoint" --model ${PROJECT_SOURCE_DIR}/README.md)
specdec_refuses(generate no_tokenizer "moby_dick.txt" --tokenizer ${specdec_apps}/data/moby_dick.txt)
string(REPEAT "whale," 600 long_prompt)
specdec_refuses(generate long_prompt "context holds 512" --prompt ${long_prompt})
specdec_refuses(generate missing_prompts "no_such_file" --prompts no_such_file.txt --tokens 1)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/long_prompts.txt "short\n\n${long_prompt}\n")
specdec_refuses(generate long_prompt_of_table "line 3 of " --prompts long_prompts.txt)
specdec_refuses(generate color_of_nothing "--show" --color always)
specdec_refuses(generate unknown_color "sometimes" --show --color sometimes)
specdec_refuses(generate picture_nowhere "no/such/folder" --svg no/such/folder/show.svg)
specdec_refuses(generate fewer_layers "the model's own, found 1" --target-layers 1)
specdec_refuses(generate layers_of_ngrams "--ngram" --ngram --target-layers 9)
specdec_refuses(generate vocabularies_of_ngrams "--ngram" --drafter bytes --ngram)
specdec_refuses(generate missing_other_model "no_such_file" --drafter intersection --other-model no_such_file.bin)
specdec_refuses(generate missing_text "no_such_file" --ngram --text no_such_file.txt)
specdec_refuses(generate unreadable_text "${CMAKE_CURRENT_SOURCE_DIR}" --ngram --text ${CMAKE_CURRENT_SOURCE_DIR})

# Output that cannot be written: exit status 1 and one line on stderr.
if(EXISTS /dev/full)
  foreach(name_and_arguments lost_text:--tokens=1,--table-tokens=0 lost_table:--tokens=1,--table-tokens=1 lost_help:--help)
    string(REGEX MATCHALL "[^:,]+" arguments ${name_and_arguments})
    list(POP_FRONT arguments name)
    add_test(NAME example/generate/${name}
      COMMAND ${CMAKE_COMMAND} "-DCOMMAND=sh;-c;\"$0\" \"$@\" > /dev/full;$<TARGET_FILE:generate>;${arguments}"
        "-DMESSAGE=standard output" -DSTATUS=1 -P ${CMAKE_CURRENT_SOURCE_DIR}/refuses.cmake)
  endforeach()
endif()
