mutant = promise("a drafted token with q = 0 is an error, also where only a pass over its row tells")
mutant("ratio-by-unchecked-q", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "token(i)) / drawn_probability(i));", "token(i)) / specdec::probability(q(i), token(i)));")
mutant("undrawn-token-unchecked-late", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "    if (q_x == 0) not_drawn(i);\n", "")

mutant = promise("rows kept for a verification are destroyed after it, those alone that were made")
mutant("kept-rows-not-destroyed", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "    for (; made_ != 0; made_ &= made_ - 1) std::destroy_at(&few_[std::countr_zero(made_)].row);\n", "")
mutant("kept-row-entered-before-made", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "      std::construct_at(&slot.row, matrix_.row(i));\n      made_ |= std::uint64_t{1} << i;\n",
       "      made_ |= std::uint64_t{1} << i;\n      std::construct_at(&slot.row, matrix_.row(i));\n")

mutant = promise("rules say of themselves what the loop and cascades go by")
mutant("lenient-says-lossless", "verify/lenient.hpp", "tests/verify/verdict",
       "static constexpr bool draws_from_target = false;", "static constexpr bool draws_from_target = true;")
mutant("argmax-says-lossless", "verify/argmax.hpp", "tests/verify/verdict",
       "static constexpr bool draws_from_target = false;", "static constexpr bool draws_from_target = true;")
mutant("silent-rules-read-all", "verify/verdict.hpp", "tests/verify/verdict",
       "return static_cast<bool>(V::reads_every_ratio);\n  else return false;",
       "return static_cast<bool>(V::reads_every_ratio);\n  else return true;")
mutant("silent-rules-lossy", "verify/verdict.hpp", "tests/verify/verdict",
       "return static_cast<bool>(V::draws_from_target);\n  else return true;",
       "return static_cast<bool>(V::draws_from_target);\n  else return false;")
mutant("draft-length-unasked", "verify/verdict.hpp", "tests/verify/verdict tests/spec_dec",
       "if constexpr (requires { verifier.min_draft_length(); }) return verifier.min_draft_length();",
       "if constexpr (false) return verifier.min_draft_length();")

mutant = promise("what drafters and verifiers of others return is checked before it is used")
mutant("accepted-ids-unchecked", "generation.hpp", "tests/generation",
       "    detail::check_tokens(\"accepted\", drafted.first(static_cast<std::size_t>(verdict.accepted)),\n"
       "                         target_->vocab_size());\n", "")
mutant("judged-verdict-unchecked", "generation.hpp", "tests/generation",
       "verifier_.judge(block, chance);\n      check_verdict(verdict, drafted);", "verifier_.judge(block, chance);")

mutant = promise("a throw leaves the step undone, also one of a drafter that is told of the verdict")
OBSERVE = ("    if constexpr (requires { drafter_->observe(rows, drafted, verdict); })\n"
           "      drafter_->observe(rows, drafted, verdict);\n")
COMMIT = ("    return commit(drafted, verdict,\n"
          "                  {.asked = gamma,\n"
          "                   .drafted = static_cast<Index>(drafted.size()),\n"
          "                   .accepted = verdict.accepted,\n"
          "                   .fed = static_cast<Index>(feed_.size()),\n"
          "                   .survival = survival_,\n"
          "                   .draft_time = drafting_done - start,\n"
          "                   .target_time = target_done - drafting_done});\n")
TIMED = "    stats_.verify_time += Clock::now() - target_done;\n"
mutant("observed-after-commit", "generation.hpp", "tests/generation", OBSERVE + TIMED + COMMIT,
       TIMED + COMMIT.replace("return commit", "const auto emitted = commit") + OBSERVE + "    return emitted;\n")
mutant("context-moves-under-drafter", "generation.hpp", "tests/generation",
       "    if (context_.capacity() < needed) context_.reserve(2 * needed);\n", "")

mutant = promise("each moment of a step is in one of the three times")
mutant("target-time-from-the-start", "generation.hpp", "tests/generation",
       ".target_time = target_done - drafting_done", ".target_time = target_done - start")
mutant("draft-time-to-the-verdict", "generation.hpp", "tests/generation",
       ".draft_time = drafting_done - start", ".draft_time = Clock::now() - start")
mutant("verify-time-of-last-step", "generation.hpp", "tests/generation",
       "stats_.verify_time += Clock::now()", "stats_.verify_time = Clock::now()")
mutant("verify-time-from-the-start", "generation.hpp", "tests/generation",
       "stats_.verify_time += Clock::now() - target_done", "stats_.verify_time += Clock::now() - start")

mutant = promise("the baseline asks nobody for a draft")
mutant("baseline-asks-for-drafts", "spec_dec.hpp", "tests/spec_dec", "  options.gamma = 0;\n", "")

mutant = promise("the harness checks what it is asked for, and no law of no numbers passes")
mutant("harness-passes-nan", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (found.size <= check.tolerance) continue;", "if (!(found.size > check.tolerance)) continue;")
mutant("harness-tolerates-more", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "double tolerance = 1e-12;", "double tolerance = 1e-7;")
mutant("harness-tolerance-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (found.size <= check.tolerance) continue;", "if (found.size <= 1e-12) continue;")
mutant("harness-seed-ignored", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "SplitMix64 generator(check.seed);", "SplitMix64 generator(1);")
mutant("harness-target-order-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "auto target = TableModel<Scalar>::random(vocab_size, check.order, generator);",
       "auto target = TableModel<Scalar>::random(vocab_size, 2, generator);")
mutant("harness-draft-order-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "ModelDrafter drafter{TableModel<Scalar>::random(vocab_size, check.order, generator)};",
       "ModelDrafter drafter{TableModel<Scalar>::random(vocab_size, 2, generator)};")
mutant("harness-length-fixed", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "{.max_new_tokens = check.max_new_tokens, .gamma = gamma}", "{.max_new_tokens = 5, .gamma = gamma}")

mutant = promise("an audit keeps its false-alarm rate over all of its tests")
mutant("audit-rate-not-shared", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "options_.false_alarm / 4;", "options_.false_alarm;")

mutant = promise("a modification that rounding leaves no mass is passed over")
mutant("greedy-modification-without-mass", "verify/greedy_block.hpp", "tests/verify/greedy_block",
       "here.levels.push_back(next.mass > 0 ? next : here.levels.back());", "here.levels.push_back(next);")
