"""Mutants of the loop, its sequences, and the drafter that is a loop itself."""

from mutants import promise

LOOP = "tests/loop/spec_dec tests/loop/generation tests/law_lossless"
mutant = promise("the loop emits what was verified, up to a stop token or the budget")
mutant("stop-token-in-block-missed", "loop/generation.hpp", LOOP,
       "i <= verdict.accepted && !done()", "i <= verdict.accepted && remaining() > 0")
mutant("budget-one-short", "loop/generation.hpp", LOOP, "remaining() <= 0", "remaining() <= 1")
mutant("budget-overrun", "loop/generation.hpp", LOOP,
       "i <= verdict.accepted && !done()", "i <= verdict.accepted && !stopped_")
mutant("drafts-what-cannot-be-emitted", "loop/generation.hpp", LOOP,
       "std::min(wanted, remaining() - 1)", "std::min(wanted, remaining())")
mutant("verifier-needs-ignored", "loop/generation.hpp", LOOP,
       "std::max(std::min(wanted, remaining() - 1), min_draft_length(verifier_))",
       "std::min(wanted, remaining() - 1)")
mutant("correction-not-emitted", "loop/generation.hpp", LOOP,
       "i < verdict.accepted ? drafted[static_cast<std::size_t>(i)] : verdict.token",
       "i < static_cast<Index>(drafted.size()) ? drafted[static_cast<std::size_t>(i)] : verdict.token")
mutant("overlong-draft-accepted", "loop/generation.hpp", "tests/loop/spec_dec tests/loop/generation",
       "if (static_cast<Index>(drafted.size()) > gamma)", "if (false)")
mutant("verdict-unchecked", "loop/generation.hpp", "tests/loop/spec_dec tests/loop/generation",
       "draft_rows, drafted, chance);\n      check_verdict(verdict, drafted);", "draft_rows, drafted, chance);")

mutant = promise("a bounded context is filled to its end, and never fed past it")
mutant("context-one-short", "loop/generation.hpp", "tests/loop/spec_dec", "remaining() <= 0 || room() < 0;", "remaining() <= 0 || room() <= 0;")
mutant("context-overdrafted", "loop/generation.hpp", "tests/loop/spec_dec", ", min_draft_length(verifier_)), room())", ", min_draft_length(verifier_)), room() + 1)")
mutant("context-end-unreported", "loop/generation.hpp", "tests/loop/spec_dec", "return ran_out ? StopReason::context : stop_reason_;", "return stop_reason_;")
mutant("draft-context-one-short", "draft/model_drafter.hpp", "tests/draft/model_drafter", "most - size + 1 : 0", "most - size : 0")
mutant("draft-context-overfed", "draft/model_drafter.hpp", "tests/draft/model_drafter", "most - size + 1 : 0", "most - size + 2 : 0")
mutant("processed-context-unbounded", "sample/processed_model.hpp", "tests/sample/processed_model",
       "Index context_size() const { return specdec::context_size(model_); }", "")

mutant = promise("after a step both models keep just the tokens that survived; a throw leaves them as before")
TRUNCATE = "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_);\n    stats_"
mutant("target-keeps-one-too-many", "loop/generation.hpp", LOOP, TRUNCATE, TRUNCATE.replace("seen_", "seen_ + 1", 1))
mutant("target-keeps-one-too-few", "loop/generation.hpp", LOOP, TRUNCATE, TRUNCATE.replace("seen_", "seen_ - 1", 1))
mutant("drafter-keeps-all", "loop/generation.hpp", LOOP, TRUNCATE, "    target_->truncate(target_seen_);\n    stats_")
mutant("drafter-keeps-one-too-many", "loop/generation.hpp", LOOP, TRUNCATE,
       "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_ + 1);\n    stats_")
ROLLBACK = "      target_->truncate(target_seen_);\n      drafter_->truncate(size());\n      throw;"
mutant("no-rollback-of-target", "loop/generation.hpp", "tests/loop/spec_dec tests/loop/generation", ROLLBACK,
       "      drafter_->truncate(size());\n      throw;")
mutant("no-rollback-of-drafter", "loop/generation.hpp", "tests/loop/spec_dec tests/loop/generation tests/draft/model_drafter", ROLLBACK,
       "      target_->truncate(target_seen_);\n      throw;")
mutant("stale-contexts-at-start", "loop/generation.hpp", "tests/loop/spec_dec tests/loop/generation",
       "extend(prompt);\n    release();", "extend(prompt);\n    my_turn_ = ++*turn_;")
mutant("turns-forgotten", "loop/generation.hpp", "tests/loop/generation", "if (*turn_ != my_turn_) release();", "")
mutant("release-unnoticed", "loop/generation.hpp", "tests/loop/generation", "my_turn_ = ++*turn_;", "my_turn_ = *turn_;")

mutant = promise("a sequence resumed from a context is a fresh one there, but for what the models know already")
mutant("resume-stale-verifier", "loop/generation.hpp", "tests/loop/generation", "    verifier_ = std::move(verifier);  // nothing", "    // nothing")
mutant("resume-keeps-context", "loop/generation.hpp", "tests/loop/generation",
       "context_.resize(static_cast<std::size_t>(common));",
       "context_.resize(std::min(context_.size(), static_cast<std::size_t>(common) + 1));")
mutant("resume-forgets-all", "loop/generation.hpp", "tests/loop/generation",
       "target_seen_ = std::min({target_seen_, common, size() - 1});", "target_seen_ = 0;")
mutant("resume-last-token-unfed", "loop/generation.hpp", "tests/loop/generation tests/loop/cascade_drafter",
       "std::min({target_seen_, common, size() - 1})", "std::min(target_seen_, common)")
mutant("resume-keeps-cache", "loop/generation.hpp", "tests/loop/generation",
       "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_);\n  }\n\n  /// Whether",
       "    drafter_->truncate(target_seen_);\n  }\n\n  /// Whether")
mutant("resume-stays-stopped", "loop/generation.hpp", "tests/loop/generation",
       "    options_ = std::move(options);\n    stopped_ = false;\n", "    options_ = std::move(options);\n")
mutant("resume-of-a-view", "loop/generation.hpp", "tests/loop/generation", "extend(TokenIds(feed_));", "extend(context);")
mutant("resume-keeps-drafter", "loop/generation.hpp", "tests/loop/generation",
       "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_);\n  }\n\n  /// Whether",
       "    target_->truncate(target_seen_);\n  }\n\n  /// Whether")
mutant("resume-others-models", "loop/generation.hpp", "tests/loop/generation",
       "    if (*turn_ != my_turn_) return;  // the next step takes everything in\n", "")

mutant = promise("a cascade drafts its model's text and reports its model's rows")
mutant("cascade-rows-of-rejected", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "i <= verdict.accepted; ++i) recorded->add", "i < rows.rows(); ++i) recorded->add")
mutant("cascade-correction-row-lost", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "i <= verdict.accepted; ++i) recorded->add", "i < verdict.accepted; ++i) recorded->add")
mutant("cascade-old-rows-first", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter", "    inner_->rows.clear();\n", "")
mutant("cascade-never-cleared", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "if (length == 0 && inner_->sequence)", "if (length < 0 && inner_->sequence)")
mutant("cascade-policy-one-late", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "return drafted(sequence, asked);\n    }", "return drafted(sequence, asked + 1);\n    }")
mutant("stored-rows-one-copy", "rows/stored_rows.hpp", "tests/loop/cascade_drafter tests/draft/model_drafter",
       "copies_[rows_.size()].assign(row)", "copies_[0].assign(row)")

mutant = promise("what drafters and verifiers of others return is checked before it is used")
mutant("accepted-ids-unchecked", "loop/generation.hpp", "tests/loop/generation",
       "    detail::check_tokens(\"accepted\", drafted.first(static_cast<std::size_t>(verdict.accepted)),\n"
       "                         target_->vocab_size());\n", "")
mutant("judged-verdict-unchecked", "loop/generation.hpp", "tests/loop/generation",
       "verifier_.judge(block, chance);\n      check_verdict(verdict, drafted);", "verifier_.judge(block, chance);")

mutant = promise("a throw leaves the step undone, also one of a drafter that is told of the verdict")
TIMED = "    stats_.verify_time += Clock::now() - target_done;\n"
COMMIT = ("    return commit(drafted, verdict,\n"
          "                  {.asked = gamma,\n"
          "                   .drafted = static_cast<Index>(drafted.size()),\n"
          "                   .accepted = verdict.accepted,\n"
          "                   .fed = static_cast<Index>(feed_.size()),\n"
          "                   .survival = survival_,\n"
          "                   .draft_time = drafting_done - start,\n"
          "                   .target_time = target_done - drafting_done});\n")
OBSERVE = ("    if constexpr (requires { drafter_->observe(rows, drafted, verdict); })\n"
           "      drafter_->observe(rows, drafted, verdict);\n")
mutant("observed-after-commit", "loop/generation.hpp", "tests/loop/generation", OBSERVE + TIMED + COMMIT,
       TIMED + COMMIT.replace("return commit", "const auto emitted = commit") + OBSERVE + "    return emitted;\n")
mutant("context-moves-under-drafter", "loop/generation.hpp", "tests/loop/generation",
       "    if (context_.capacity() < needed) context_.reserve(2 * needed);\n", "")

mutant = promise("each moment of a step is in one of the three times")
mutant("target-time-from-the-start", "loop/generation.hpp", "tests/loop/generation",
       ".target_time = target_done - drafting_done", ".target_time = target_done - start")
mutant("draft-time-to-the-verdict", "loop/generation.hpp", "tests/loop/generation",
       ".draft_time = drafting_done - start", ".draft_time = Clock::now() - start")
mutant("verify-time-of-last-step", "loop/generation.hpp", "tests/loop/generation",
       "stats_.verify_time += Clock::now()", "stats_.verify_time = Clock::now()")
mutant("verify-time-from-the-start", "loop/generation.hpp", "tests/loop/generation",
       "stats_.verify_time += Clock::now() - target_done", "stats_.verify_time += Clock::now() - start")

mutant = promise("the baseline asks nobody for a draft")
mutant("baseline-asks-for-drafts", "loop/spec_dec.hpp", "tests/loop/spec_dec", "  options.gamma = 0;\n", "")
