"""Mutants of the loop, its sequences, and the drafter that is a loop itself."""

from mutants import promise

LOOP = "tests/loop/spec_dec tests/loop/sequence tests/law_lossless"
mutant = promise("the loop emits what was verified, up to a stop token or the budget")
mutant("stop-token-in-block-missed", "loop/text.hpp", LOOP,
       "if (cut.stop != StopReason::length || cut.tokens", "if (cut.tokens")
mutant("budget-one-short", "loop/text.hpp", LOOP, "stopped_ || remaining() <= 0;", "stopped_ || remaining() <= 1;")
mutant("budget-overrun", "loop/text.hpp", LOOP,
       " || cut.tokens >= remaining()) return;", ") return;")
mutant("drafts-what-cannot-be-emitted", "loop/step_base.hpp", LOOP,
       "std::min(wanted, text_.remaining() - 1)", "std::min(wanted, text_.remaining())")
mutant("verifier-needs-ignored", "loop/step_base.hpp", LOOP,
       "std::max(std::min(wanted, text_.remaining() - 1), least)",
       "std::min(wanted, text_.remaining() - 1)")
mutant("rejected-token-emitted", "loop/step_base.hpp", LOOP,
       "text_.append(path_.tokens(), verdict_.token, cut_)", "text_.append(offered().tokens, verdict_.token, cut_)")
mutant("correction-not-emitted", "loop/text.hpp", LOOP, "    look_at(last, cut);\n", "    if (tokens.empty()) look_at(last, cut);\n")
mutant("overlong-draft-accepted", "loop/step_base.hpp", "tests/loop/spec_dec tests/loop/sequence",
       "if (offer.size() > limits_.nodes)", "if (false)")
mutant("end-of-text-not-told", "loop/step_base.hpp", "tests/loop/step", "if (next == node) return {node, path_.tokens()[i]};", "if (next == node) return {node, verdict_.token};")
mutant("unfed-tokens-told", "loop/step_base.hpp", "tests/loop/step", "return feed_.whole() ? offered().tokens : feed_.drafted();", "return offered().tokens;")
mutant("unfed-parents-told", "loop/step_base.hpp", "tests/loop/step", "return feed_.whole() || !branches_ ? offered().parents : feed_.above();", "return offered().parents;")
mutant("tokens-after-the-end-counted", "loop/step_base.hpp", "tests/loop/step", "if (ps.back() == 0 || i == std::ssize(feed_.drafted())) return true;", "if (ps.back() == 0) return true;")
mutant("drafts-after-the-end-counted", "loop/step_base.hpp", "tests/loop/step", "const Index judged = std::min(last_.drafted, std::ssize(feed_.drafted()) + 1);", "const Index judged = last_.drafted;")

mutant = promise("a bounded context is filled to its end, and never fed past it")
mutant("context-one-short", "loop/step_base.hpp", "tests/loop/spec_dec", "text_.done() || room() < 0; }", "text_.done() || room() <= 0; }")
mutant("context-overdrafted", "loop/step_base.hpp", "tests/loop/spec_dec", ", least), most_drafted())", ", least), most_drafted() + 1)")
mutant("context-end-unreported", "loop/step_base.hpp", "tests/loop/spec_dec",
       "!text_.done() && room() < 0 ? StopReason::context : text_.stop_reason()", "text_.stop_reason()")
mutant("filled-context-not-told", "loop/sequence.hpp", "tests/loop/sequence", "      shared.target.adopt(context().first(static_cast<std::size_t>(filled.cached)));", "      (void)0;")
mutant("filled-context-of-no-length", "model/feeds.hpp", "tests/loop/sequence", "    this->set_length(std::ssize(tokens));\n", "")
mutant("filled-context-not-passed-on", "model/feeds.hpp", "tests/loop/sequence", "    if constexpr (knows_its_context<std::remove_reference_t<M>>) inner_.model().adopt(tokens);\n", "")
mutant("filled-context-after-another", "model/fed_texts.hpp", "tests/loop/sequence", "    texts_.erase(sequence);\n    texts_.make(", "    texts_.make(")
mutant("wrapped-context-unbounded", "model/feeds.hpp", "tests/sample/processed_model",
       "return specdec::context_size(inner_.model());", "return unlimited;")

mutant = promise("after a step both models keep just the tokens that survived; a throw leaves them as before")
mutant("target-keeps-one-too-many", "loop/step_base.hpp", LOOP, "cached_ = before + feed_.kept_drafted();", "cached_ = before + 1 + feed_.kept_drafted();")
mutant("target-keeps-one-too-few", "loop/step_base.hpp", LOOP, "cached_ = before + feed_.kept_drafted();", "cached_ = before - 1 + feed_.kept_drafted();")
mutant("target-keeps-all", "loop/sequence.hpp", LOOP,
       "      shared_->target.truncate(kept());\n      return emitted;", "      return emitted;")
mutant("drafter-keeps-all", "loop/sequence.hpp", LOOP,
       "    shared_->drafter.truncate(kept());\n    return emitted;", "    return emitted;")
mutant("drafter-keeps-one-too-many", "loop/sequence.hpp", LOOP,
       "    shared_->drafter.truncate(kept());\n    return emitted;", "    shared_->drafter.truncate(kept() + 1);\n    return emitted;")
mutant("no-rollback-of-target", "loop/sequence.hpp", "tests/loop/spec_dec tests/loop/sequence",
       "[this] {\n      withdraw();\n      shared_->target.truncate(kept());", "[this] {\n      withdraw();")
mutant("no-rollback-of-drafter", "loop/sequence.hpp", "tests/loop/spec_dec tests/loop/sequence tests/draft/model_drafter",
       "      draft_.value.reset();\n      shared_->drafter.truncate(std::ssize(context()));\n", "      draft_.value.reset();\n")
mutant("no-rollback-after-the-verdict", "loop/sequence.hpp", "tests/loop/sequence",
       "if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(std::ssize(context()));", "")

mutant = promise("who has lost a model's context knows")
mutant("stale-target-at-start", "loop/sequence.hpp", "tests/loop/spec_dec tests/loop/sequence",
       "    turn_.take(shared_->target_turns);\n    shared_->target.truncate(0);\n", "    turn_.take(shared_->target_turns);\n")
mutant("stale-drafter-at-start", "loop/sequence.hpp", "tests/loop/spec_dec tests/loop/sequence",
       "    drafter_turn_.take(shared_->drafter_turns);\n    shared_->drafter.truncate(0);\n",
       "    drafter_turn_.take(shared_->drafter_turns);\n")
mutant("turns-uncounted", "model/turn.hpp", "tests/loop/sequence", "for (const auto& count : counts_) ++count->turns;", "")
mutant("turns-of-one-decoder", "model/turn.hpp", "tests/loop/sequence tests/model/turn", "if constexpr (std::is_lvalue_reference_v<X>) return identities(x);\n  else if", "if")
mutant("turns-by-any-address", "model/turn.hpp", "tests/model/turn", "known->address == address", "true")
mutant("turns-of-each-alone", "model/turn.hpp", "tests/model/turn", "else if (known->address == address) return known;", "")
mutant("copies-count-with-the-copied", "model/turn.hpp", "tests/model/turn",
       "    if (shared_) {\n      for", "    if (true) {\n      for")
mutant("turn-left-behind", "model/uncopied.hpp", "tests/model/turn", "UncopiedNumber(UncopiedNumber&& other) noexcept : value(std::exchange(other.value, 0)) {}",
       "UncopiedNumber(UncopiedNumber&& other) noexcept : value(other.value) {}")
mutant("turn-of-a-copy", "model/uncopied.hpp", "tests/model/turn", "  UncopiedNumber(const UncopiedNumber&) {}",
       "  UncopiedNumber(const UncopiedNumber& other) : value(other.value) {}")
mutant("turn-that-nobody-took", "model/turn.hpp", "tests/model/turn", "number_.value > 0 && ", "")
mutant("wrapper-for-its-model", "model/turn.hpp", "tests/model/turn tests/loop/sequence",
       "if constexpr (requires { x.identities(); }) found = x.identities();\n", "")
mutant("wrapper-by-value", "model/turn.hpp", "tests/loop/sequence tests/model/turn",
       "else if constexpr (requires { x.identities(); }) return x.identities();\n", "")
mutant("draft-model-unidentified", "draft/model_drafter.hpp", "tests/loop/sequence tests/draft/model_drafter",
       "return detail::shared_identities<M>(model_.model());", "return {};")
mutant("chain-unidentified", "draft/fallback_drafter.hpp", "tests/loop/sequence",
       "(detail::append(found, detail::shared_identities<D>(member)), ...);", "(found.insert(found.end(), detail::shared_identities<D>(member).size(), &found), ...);")
mutant("chain-by-its-first-member", "draft/fallback_drafter.hpp", "tests/loop/sequence",
       "(detail::append(found, detail::shared_identities<D>(member)), ...);", "((found.empty() ? detail::append(found, detail::shared_identities<D>(member)) : void()), ...);")
mutant("own-draft-taken-for-anothers", "loop/sequence.hpp", "tests/loop/sequence",
       "      drafter_turn_.go_on(shared_->drafter_turns);\n", "")
mutant("wrapped-model-unidentified", "model/feeds.hpp", "tests/loop/sequence tests/model/turn",
       "return shared_identities<M>(inner_.model());", "return {};")
mutant("cascade-by-its-model-alone", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "    detail::append(found, inner().shared.drafter.identities());\n", "")
mutant("audited-unidentified", "testing/audited_drafter.hpp", "tests/loop/sequence",
       "return specdec::detail::shared_identities<D>(drafter_);", "return {};")
mutant("by-hand-unnoticed", "loop/sequence.hpp", "tests/loop/sequence", "    if constexpr (Model<Target>) shared_->target_turns.next();\n", "")
mutant("filled-context-released", "loop/sequence.hpp", "tests/loop/sequence",
       "if (Base::filled() > 0) detail::logic_error(\"a context", "if (false) detail::logic_error(\"a context")
mutant("hook-over-a-filled-context", "loop/sequence.hpp", "tests/loop/sequence", "if (!can_adopt<Target>)", "if (false)")
mutant("draft-model-not-its-own", "draft/model_drafter.hpp", "tests/draft/model_drafter tests/loop/sequence",
       "      if (!turn_.lasts(turns_)) {\n",
       "      if (false) {\n")
mutant("draft-model-cut-by-another", "draft/model_drafter.hpp", "tests/draft/model_drafter", "    if (!turn_.lasts(turns_)) return;\n", "")
mutant("target-drafts-for-itself", "loop/sequence.hpp", "tests/loop/sequence",
       "      if (!turn_.lasts(shared_->target_turns))\n        detail", "      if (false)\n        detail")
mutant("release-keeps-the-turn", "loop/sequence.hpp", "tests/loop/sequence",
       "    turn_ = drafter_turn_ = detail::Turn();\n    Base::target_is_empty();\n", "    Base::target_is_empty();\n")

mutant = promise("half steps: what is proposed is judged once, and by nobody else's draft")
mutant("judged-without-proposal", "loop/sequence.hpp", "tests/loop/sequence",
       "if (!draft_.value) detail", "if (false) detail")
mutant("judged-by-anothers-draft", "loop/sequence.hpp", "tests/loop/sequence",
       "    if (!drafter_turn_.lasts(shared_->drafter_turns)) {\n      withdraw();",
       "    if (false) {\n      withdraw();")
mutant("proposal-judged-twice", "loop/step_base.hpp", "tests/loop/step",
       "    cached_ = before + feed_.kept_drafted();\n    offers_.value = 0;\n",
       "    cached_ = before + feed_.kept_drafted();\n")
mutant("accepted-without-an-offer", "loop/step_base.hpp", "tests/loop/step", "if (!offers()) logic_error", "if (false) logic_error")
mutant("turns-and-proposals-copied", "model/uncopied.hpp", "tests/model/turn tests/loop/sequence", "  Uncopied(const Uncopied&) {}",
       "  Uncopied(const Uncopied& other) : value(other.value) {}")
mutant("lost-proposal-kept-by-drafter", "loop/sequence.hpp", "tests/loop/sequence",
       "    withdraw();\n    if (done()) return {{}, kept(), 0};", "    if (done()) return {{}, kept(), 0};")
mutant("feed-of-the-finished", "loop/sequence.hpp", "tests/loop/sequence", "return {{}, kept(), 0};", "return {};")
mutant("filled-context-fed-again", "loop/sequence.hpp", "tests/loop/sequence",
       "    turn_.take(shared.target_turns);\n", "")
mutant("filled-context-one-too-long", "loop/step_base.hpp", "tests/loop/sequence",
       "cached_ = std::min(filled.cached, prompt.size() - 1);", "cached_ = filled.cached;")
mutant("filled-context-made-up", "loop/sequence.hpp", "tests/loop/sequence",
       "    if (Base::filled() > 0)\n      detail", "    if (false)\n      detail")

mutant = promise("a sequence resumed from a context is a fresh one there, but for what the models know already")
mutant("resume-stale-verifier", "loop/step.hpp", "tests/loop/sequence", "    if (!continues_in(context)) fresh = fresh_;\n", "")
mutant("resume-forgets-what-is-remembered", "loop/step.hpp", "tests/loop/sequence", "    if (!continues_in(context)) fresh = fresh_;\n", "    fresh = fresh_;\n")
mutant("resume-of-a-cut-text", "loop/step_base.hpp", "tests/loop/sequence", " &&\n           !text_.ended_by_itself();", ";")
mutant("resume-of-what-was-filled-in", "loop/step_base.hpp", "tests/loop/sequence", "    filled_ = std::min(filled_, common);\n", "")
mutant("resume-keeps-context", "loop/text.hpp", "tests/loop/sequence",
       "context_.resize(static_cast<std::size_t>(kept));",
       "context_.resize(std::min(context_.size(), static_cast<std::size_t>(kept) + 1));")
mutant("resume-forgets-all", "loop/step_base.hpp", "tests/loop/sequence",
       "cached_ = std::min({cached_, common, text_.size() - 1});", "cached_ = 0;")
mutant("resume-last-token-unfed", "loop/step_base.hpp", "tests/loop/sequence tests/loop/cascade_drafter",
       "std::min({cached_, common, text_.size() - 1})", "std::min(cached_, common)")
mutant("resume-keeps-cache", "loop/sequence.hpp", "tests/loop/sequence",
       "      if (turn_.lasts(shared_->target_turns)) shared_->target.truncate(kept());\n    if (drafter",
       "      {}\n    if (drafter")
mutant("resume-keeps-drafter", "loop/sequence.hpp", "tests/loop/sequence",
       "if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(kept());", "")
mutant("resume-others-models", "loop/sequence.hpp", "tests/loop/sequence",
       "      if (turn_.lasts(shared_->target_turns)) shared_->target.truncate(kept());\n    if (drafter",
       "      shared_->target.truncate(kept());\n    if (drafter")
mutant("resume-stays-stopped", "loop/text.hpp", "tests/loop/sequence", "    stopped_ = false;\n", "")
mutant("resume-of-a-view", "loop/step_base.hpp", "tests/loop/sequence",
       "text_.go_on(common, view_of(more), std::move(options));", "text_.go_on(common, text_.context().last(more.size()), std::move(options));")

mutant = promise("a cascade drafts its model's text and reports its model's rows")
mutant("cascade-rows-of-rejected", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "i <= verdict.node; ++i) {\n      const auto row", "i < rows.rows(); ++i) {\n      const auto row")
mutant("cascade-correction-row-lost", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "i <= verdict.node; ++i) {\n      const auto row", "i < verdict.node; ++i) {\n      const auto row")
mutant("cascade-old-rows-first", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter", "    inner_->rows.clear();\n", "")
mutant("cascade-never-cleared", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "if (length <= 0 && inner_ && inner_->sequence)", "if (length < 0 && inner_ && inner_->sequence)")
mutant("cascade-policy-one-late", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "if (!keep_drafting(row, asked)) return drafted(sequence, asked);", "if (!keep_drafting(row, asked)) return drafted(sequence, asked + 1);")
mutant("cascade-remembers-its-draft", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "      inner_->sequence->forget();\n", "")
mutant("stored-rows-one-copy", "rows/kinds/stored_rows.hpp", "tests/loop/cascade_drafter tests/draft/strategies/line",
       "copies_[rows_.size()].assign(row)", "copies_[0].assign(row)")

mutant("cascade-row-told-as-the-outer-loops", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter",
       "return error.of(\"cascade\");", "return error;")

mutant = promise("what drafters of others return is checked before it is used")
mutant("drafted-ids-unchecked", "loop/step_base.hpp", "tests/loop/sequence",
       "    check_tokens(\"draft\", offer.tokens, std::max(target_.vocabulary, known));\n", "")
mutant("rows-wider-than-the-target", "loop/step.hpp", "tests/loop/sequence",
       "judge_at_node(verifier_, drafted, chance, vocabulary())", "judge_at_node(verifier_, drafted, chance, drafted.vocab_size())")
mutant("rows-narrower-than-the-target", "loop/step_base.hpp", "tests/loop/sequence",
       "if (vocab_size < target_.vocabulary)", "if (false)")
mutant("moved-text-measured", "loop/text.hpp", "tests/loop/sequence",
       "std::min(prompt_size_, context_.size())", "prompt_size_")
mutant("stop-tokens-unchecked", "loop/text.hpp", "tests/loop/sequence",
       "  check_tokens(\"stop_tokens\", options.stop_tokens.ids(), vocab_size);\n", "")

mutant = promise("a throw leaves the step undone, also one of a drafter that is told of the verdict")
mutant("committed-before-observed", "loop/step.hpp", "tests/loop/sequence",
       "    measure(drafted);\n    record", "    detail::commit(verifier_);\n    measure(drafted);\n    record")
mutant("rule-not-restored", "loop/step.hpp", "tests/loop/sequence",
       "if (before_) verifier_ = *std::exchange(before_, std::nullopt);", "before_.reset();")
mutant("rule-always-restored", "loop/step.hpp", "tests/loop/sequence", "    before_.reset();\n    return enter();", "    withdraw_verdict();\n    return enter();")
mutant("context-moves-under-drafter", "loop/text.hpp", "tests/loop/sequence",
       "    if (context_.capacity() < needed) context_.reserve(2 * needed);\n", "")

mutant = promise("a text in several goes: what a callback was told is in it, once")
GOES = "tests/loop/spec_dec tests/loop/sequence tests/law_faults"
mutant("text-told-from-its-start", "loop/sequence.hpp", GOES, "        on_step(emitted);\n", "        on_step(tokens());\n")
mutant("callbacks-no-unheard", "loop/sequence.hpp", GOES, "        if (!on_step(emitted)) stop();\n", "        on_step(emitted);\n")
mutant("callbacks-no-forgets-the-rule", "loop/sequence.hpp", "tests/law_faults",
       "        if (!on_step(emitted)) stop();\n", "        if (!on_step(emitted)) {\n          stop();\n          forget();\n        }\n")
mutant("callbacks-throw-ends-the-text", "loop/sequence.hpp", GOES, "        on_step(emitted);\n",
       "        try { on_step(emitted); } catch (...) { stop(); throw; }\n")
mutant("callbacks-throw-forgets-the-rule", "loop/sequence.hpp", "tests/law_faults", "        on_step(emitted);\n",
       "        try { on_step(emitted); } catch (...) { forget(); throw; }\n")
mutant("rule-judges-beyond-a-throw", "loop/sequence.hpp", "tests/law_faults",
       "[this] {\n      withdraw();\n      shared_->target.truncate(kept());",
       "[this] {\n      withdraw();\n      shared_->target.truncate(kept());\n      Base::forget();")

mutant = promise("a million tokens, from lines and from trees: contexts exact, the text the target's, memory constant")
SOAK = "tests/soak/soak"
mutant("lost-proposal-kept-in-contexts", "loop/sequence.hpp", SOAK,
       "    draft_.value.reset();\n    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(std::ssize(context()));",
       "    draft_.value.reset();")
mutant("kept-less-than-survived", "loop/step_base.hpp", SOAK, "cached_ = before + feed_.kept_drafted();", "cached_ = before + (accepted() > 4 ? -1 : 0) + feed_.kept_drafted();")
mutant("resume-takes-more-room", "loop/text.hpp", SOAK, "context_.reserve(static_cast<std::size_t>(kept) + more.size());",
       "context_.reserve(context_.capacity() + more.size());")
mutant("room-doubles-with-each-step", "loop/text.hpp", SOAK, "if (context_.capacity() < needed) context_.reserve(2 * needed);",
       "context_.reserve(context_.capacity() + static_cast<std::size_t>(more));")
mutant("statistics-grow-with-steps", "measure/stats.hpp", SOAK,
       "accepted_lengths.resize(std::max(accepted_lengths.size(), static_cast<std::size_t>(step.depth()) + 1));",
       "accepted_lengths.resize(accepted_lengths.size() + static_cast<std::size_t>(step.drafted) + 1);")
mutant("a-copy-more-for-each-row", "rows/kinds/stored_rows.hpp", SOAK,
       "if (copies_.size() == rows_.size()) copies_.emplace_back();", "copies_.emplace_back();")

mutant = promise("each moment of a step is in one of the three times")
mutant("target-time-from-the-start", "loop/step_base.hpp", "tests/loop/sequence",
       ".target_time = judged_at_ - offered().made,", ".target_time = judged_at_ - offered().made + offered().draft_time,")
mutant("draft-time-to-the-verdict", "loop/step_base.hpp", "tests/loop/sequence",
       ".draft_time = offered().draft_time,", ".draft_time = offered().draft_time + (Clock::now() - offered().made),")
mutant("verify-time-of-last-step", "loop/step_base.hpp", "tests/loop/sequence",
       "stats_.verify_time += Clock::now()", "stats_.verify_time = Clock::now()")
mutant("verify-time-from-the-start", "loop/step_base.hpp", "tests/loop/sequence",
       "stats_.verify_time += Clock::now() - judged_at_;", "stats_.verify_time += Clock::now() - judged_at_ + offered().draft_time;")

mutant = promise("the baseline asks nobody for a draft")
mutant("no-drafter-guesses", "draft/drafter.hpp", "tests/draft/drafter tests/loop/sequence tests/text/stop_strings",
       "const { return {{}, OneHotRows({}), {}}; }",
       "const { static constexpr Token guess[] = {0}; return {guess, OneHotRows(guess), {}}; }")
mutant("baseline-asks-for-drafts", "loop/spec_dec.hpp", "tests/loop/spec_dec", "  options.gamma = 0;\n", "")

mutant = promise("unlimited is one word, what is beyond it or below 0 is named, and what was moved away does nothing")
mutant("gamma-beyond-any-draft", "verify/draft_limit.hpp", "tests/loop/spec_dec", "if (gamma < unlimited) check_drafted", "if (false) check_drafted")
mutant("gamma-unlimited-refused", "verify/draft_limit.hpp", "tests/loop/sequence", "if (gamma < unlimited) check_drafted", "check_drafted")
mutant("draft-without-bounds", "loop/step_base.hpp", "tests/loop/sequence", "if (asked > longest_draft)", "if (false)")
mutant("moved-sequence-keep-drafting", "loop/text.hpp", "tests/loop/sequence", "return context_.empty() || stopped_", "return stopped_")
mutant("vocabulary-unlooked-at", "loop/text.hpp", "tests/loop/sequence", "if (vocab_size < 1) invalid_argument", "if (false) invalid_argument")
mutant("moved-cascade-keep-drafting", "loop/cascade_drafter.hpp", "tests/loop/cascade_drafter", "if (!inner_) detail", "if (false) detail")
mutant("moved-drafter-drafts", "model/turn.hpp", "tests/draft/model_drafter", "if (turns.moved_away())", "if (false)")
mutant("unsigned-context-negative", "model/model.hpp", "tests/loop/sequence",
       "std::min<std::uintmax_t>(model.context_size(), unlimited)", "model.context_size()")
mutant("ids-cut", "loop/options.hpp", "tests/loop/sequence", "if (static_cast<Token>(out.back()) != x)", "if (false)")
mutant("moved-model-without-counts", "model/ngram.hpp", "tests/model/ngram", "      : counts_(other.counts_),", "      : counts_(std::move(other.counts_)),")

TREE_LOOP = "tests/law_tree_loop"
mutant = promise("the loop over trees keeps what was accepted, and no more")
mutant("tree-keeps-other-tokens", "loop/feed_buffer.hpp", TREE_LOOP,
       "kept_.push_back(uncached_ + (last = row) - 1);", "kept_.push_back((last = row) - 1);")
mutant("fed-after-another-token", "loop/feed_buffer.hpp", TREE_LOOP,
       "parents_.push_back(uncached_ + parent);", "parents_.push_back(parent);")
mutant("tree-deeper-than-the-budget", "loop/step_base.hpp", TREE_LOOP,
       "std::min({std::max(text_.remaining() - 1, least), most_drafted(), longest_draft})", "longest_draft")
mutant("tree-larger-than-the-context", "loop/step_base.hpp", TREE_LOOP,
       "std::min({std::max(wanted, least), most_drafted(), longest_draft})", "wanted")
mutant("deep-tree-judged", "loop/step_base.hpp", TREE_LOOP, "if (depth_ > limits_.depth)", "if (false)")
mutant("drafter-of-trees-trusted", "loop/step_base.hpp", TREE_LOOP,
       "check_parents(offer.tokens, offer.parents);", "")
mutant("drafter-of-lines-trusted", "loop/step_base.hpp", "tests/draft/drafter", "if (branches(parents))", "if (false)")
mutant("line-that-branches", "loop/step_base.hpp", "tests/draft/drafter",
       "line_[k] = static_cast<Index>(k) - 1;", "line_[k] = -1;")
mutant("tree-cut-not-kept", "loop/sequence.hpp", TREE_LOOP,
       "shared_->target.keep(kept_path());", "shared_->target.truncate(kept());")
mutant("rank-of-the-eldest", "loop/accepted_path.hpp", TREE_LOOP,
       "k == numbers_[i])\n        ranks_.push_back(static_cast<Index>(children_.size() - before));", "k == numbers_[i])\n        ranks_.push_back(0);")
mutant("stop-offers-nothing", "loop/accepted_path.hpp", TREE_LOOP,
       "i <= numbers_.size(); ++i) add_children", "i < numbers_.size(); ++i) add_children")

BATCH = "tests/loop/batch"
mutant = promise("in a batch a text is what it is alone")
mutant("any-generator-stands-still", "chance/any_generator.hpp", BATCH, "return random_bits64(generator); }",
       "Generator again = generator; return random_bits64(again); }")
mutant("batch-target-keeps-all", "loop/batch_entry.hpp", BATCH,
       "if (feed_.rows > 0) target.keep(number_, step_.kept());", "")
mutant("batch-tree-not-kept", "loop/batch_entry.hpp", BATCH,
       "return target.keep(number_, step_.kept_path());", "return target.keep(number_, step_.kept());")
mutant("batch-rows-of-another", "loop/batch.hpp", BATCH, "firsts_.push_back(expected);", "firsts_.push_back(0);")
mutant("batch-drafter-keeps-all", "loop/batch.hpp", BATCH,
       "drafter_.keep(entry->number(), entry->step().kept());", "{}")
mutant("batch-source-of-another", "loop/batch.hpp", BATCH,
       "requests_.push_back(request_of(*entry));",
       "requests_.push_back(request_of(*entry)), requests_.back().source = &drafting_.front()->source();")
mutant("batch-trees-without-limits", "loop/batch.hpp", BATCH, "request.limits = entry.limits();", "")
mutant("batch-drafter-copied-with-its-text", "loop/batch_entry.hpp", BATCH, "    if constexpr (!BatchDrafter<D>) own_.drafter.truncate(0);\n", "")
mutant("batch-prompt-fed-twice", "loop/batch_entry.hpp", BATCH,
       "cached_ += std::ssize(feed_.tokens);", "cached_ = prefill_;")
mutant("batch-prompt-without-its-end", "loop/batch.hpp", BATCH, "fits ? 0 : prompt.size() - 1", "fits ? 0 : prompt.size()")
mutant("batch-confidence-ignored", "draft/model_drafter.hpp", "tests/draft/length/early_stopping_length",
       "growth.take(rows, chance, request.keep_drafting);",
       "growth.take(rows, chance, detail::AlwaysKeepDrafting{});")

mutant = promise("in a batch each fails by itself")
mutant("batch-failure-unnoticed", "loop/batch_entry.hpp", BATCH, "return error_ || step_.done();", "return step_.done();")
mutant("batch-short-rows-taken-in", "loop/batch.hpp", BATCH,
       "if (!entry->judged()) target_.keep(entry->number(), entry->feed().from);", "{}")
mutant("batch-failed-sequence-remembered", "loop/batch.hpp", BATCH, "if constexpr (called_here) target_.release(sequence);", "")
mutant("batch-sequences-left-behind", "loop/batch.hpp", BATCH, "for (const auto& entry : entries_) forget(entry->number());", "")
mutant("batch-failed-draft-remembered", "loop/batch.hpp", BATCH,
       "if constexpr (drafts_together) drafter_.release(sequence);", "")
mutant("batch-callbacks-no-unheard", "loop/batch_entry.hpp", BATCH, "if (!on_step_(emitted_)) step_.stop();", "on_step_(emitted_);")
mutant("batch-drafters-copies-share", "loop/batch.hpp", BATCH, "    check_copies();\n", "")

mutant = promise("a call of a batch has no more tokens than it may, and who waits is next")
mutant("batch-calls-overfull", "loop/batch.hpp", BATCH, "if (count > left || count == 0) break;", "if (count == 0) break;")
mutant("batch-overtakes", "loop/batch.hpp", BATCH, "entries_.begin() + looked_at_", "entries_.begin()")
mutant("batch-changed-within-a-callback", "loop/batch.hpp", BATCH, "    telling_ = true;\n", "")
mutant("batch-drafts-beyond-a-call", "loop/batch.hpp", BATCH, "most != unlimited && options.gamma >= most", "false")
mutant("batch-length-asked-by-each", "loop/batch_entry.hpp", BATCH,
       "return policy_.wanted(wanted_of_all, most);",
       "return policy_.wanted(wanted_of_all + 1, most);")
mutant("batch-length-not-told", "loop/batch_entry.hpp", BATCH, "if (feed_.rows > 0 && !error_) policy.observe(step_.last());", "static_cast<void>(policy);")

mutant = promise("a call of a batch that fails can be tried again, with the same luck")
mutant("rewound-generator-keep-drafting", "chance/rewindable_generator.hpp", BATCH, "void rewind() { next_ = 0; }", "void rewind() {}")
mutant("batch-luck-not-rewound", "loop/batch_entry.hpp", BATCH, "    source_.rewind();", "    source_.mark();")
mutant("batch-luck-never-marked", "loop/batch_entry.hpp", BATCH, "    source_.mark();\n", "")
mutant("batch-finished-before-the-call", "loop/batch.hpp", "tests/soak/batch", "    finished_.clear();\n    step_into(", "    finished_.clear();\n    leave(finished_);\n    step_into(")
mutant("batch-luck-lost-with-the-mark", "chance/rewindable_generator.hpp", "tests/chance/rewindable_generator",
       "given_.erase(given_.begin(), given_.begin() + static_cast<std::ptrdiff_t>(next_));", "given_.clear();")
mutant("batch-judged-taken-back", "loop/batch.hpp", BATCH,
       "if (!entry->judged()) target_.keep(", "target_.keep(")
mutant("batch-unjudged-told", "loop/batch.hpp", BATCH,
       "std::erase_if(stepping_, [](const Entry* entry) { return !entry->judged(); });", "")
mutant("batch-judged-for-ever", "loop/batch_entry.hpp", BATCH, "    judged_ = false;\n", "")
mutant("batch-cancelled-before-its-result", "loop/batch.hpp", "tests/law_allocation",
       "Result result = (*entry)->step().result();", "(*entry)->step().stop();\n    Result result = (*entry)->step().result();")
mutant("batch-results-told-twice", "loop/batch.hpp", "tests/law_allocation",
       "while (std::ssize(finished) > before) finished.pop_back();", "(void)before;")

mutant = promise("a draft length is asked once a step, and the answer holds for this step")
mutant("length-asked-twice-a-step", "loop/step.hpp", "tests/loop/batch tests/loop/sequence", "    if (!has_limits())\n", "")
mutant("length-asked-again-for-a-retry", "loop/batch_entry.hpp", BATCH, "    withdraw();\n    error_ =", "    withdraw();\n    step_.forget_limits();\n    error_ =")
mutant("length-for-all-of-a-step-before", "loop/batch.hpp", BATCH,
       "for (const auto& entry : entries_) entry->step().forget_limits();", "")
mutant("length-of-a-text-that-went-on", "loop/step_base.hpp", "tests/loop/sequence",
       "    offers_.value = 0;\n    has_limits_ = false;\n    return emitted;", "    offers_.value = 0;\n    return emitted;")
mutant("length-of-another-budget", "loop/step_base.hpp", "tests/loop/sequence",
       "    has_limits_ = false;\n    cached_ = std::min({", "    cached_ = std::min({")

mutant = promise("a batch tells who has finished in the order of their numbers, and what it fed")
mutant("batch-finished-in-any-order", "loop/batch.hpp", BATCH,
       "    step_into(finished_, for_each);\n    sort_by_number(finished_);\n", "    step_into(finished_, for_each);\n")
mutant("batch-run-in-any-order", "loop/batch.hpp", BATCH,
       "    sort_by_number(all_finished_);\n", "")
mutant("batch-feeds-of-nothing", "loop/batch.hpp", BATCH,
       "if (count > left || count == 0) break;", "if (count > left) break;")
mutant("batch-fed-uncounted", "loop/batch.hpp", BATCH,
       "    for (const BatchFeed& feed : feeds_) fed_ += std::ssize(feed.tokens);\n", "")

mutant = promise("a draft model of a batch may know other tokens, and hold less, than the target")
mutant("sequences-take-trees-as-lines", "model/model_per_sequence.hpp", BATCH,
       "if (!feed.parents.empty()) return model.forward(feed.tokens, feed.parents, rows);", "")

STOPS = "tests/text/stop_strings"
mutant = promise("a stop string ends the text in the token that completes it, wherever tokens break it")
mutant("characters-of-four-bytes-broken", "text/token_bytes.hpp", "tests/loop/text_stream", "k <= 3 && k <= text.size()", "k <= 2 && k <= text.size()")
mutant("whole-characters-held-back", "text/token_bytes.hpp", "tests/loop/text_stream", "return length > k ? k : 0;", "return length >= k ? k : 0;")
mutant("overlong-bytes-taken-for-a-character", "text/token_bytes.hpp", "tests/loop/text_stream", "byte >= 0xC2U ? 2", "byte >= 0xC0U ? 2")
mutant("stop-string-within-a-token-only", "text/stop_strings.hpp", STOPS,
       "search.state = matcher_.next(search.state, byte);", "search.state = matcher_.next(search.state * (byte == bytes.front() ? 0 : 1), byte);")
mutant("stop-string-begins-where-it-ends", "text/stop_strings.hpp", STOPS,
       "StopMatch{string, search.bytes - length, search.bytes}", "StopMatch{string, search.bytes - 1 + 0 * length, search.bytes}")
mutant("stop-string-begins-anew-each-token", "loop/text.hpp", STOPS,
       "options_.stop_strings.find(cut.search, x)", "options_.stop_strings.find(cut.search = {.bytes = cut.search.bytes}, x)")
mutant("stop-string-begins-anew-each-step", "loop/text.hpp", STOPS, "    search_ = cut.search;\n", "")
mutant("stop-string-search-outlives-its-text", "loop/text.hpp", STOPS, "    search_ = {};\n", "")
mutant("stop-match-outlives-its-text", "loop/text.hpp", STOPS, "    stop_match_.reset();\n", "")
mutant("budget-before-stop-string", "loop/text.hpp", STOPS,
       "} else if ((cut.match =", "} else if (cut.tokens < remaining() && (cut.match =")
mutant("stop-string-after-stop-token", "loop/text.hpp", STOPS,
       "    if (options_.stop_tokens.contains(x)) {", "    cut.match = options_.stop_strings.find(cut.search, x);\n    if (options_.stop_tokens.contains(x)) {")
mutant("stop-string-shorter-first", "text/string_matcher.hpp", "tests/text/string_matcher",
       "if (known < 0) known = string(end);", "if (string(end) >= 0) known = string(end);")
mutant("stop-string-inside-another-missed", "text/string_matcher.hpp", "tests/text/string_matcher",
       "if (known < 0) known = string(end);", "")
mutant("stop-string-falls-to-the-beginning", "text/string_matcher.hpp", "tests/text/string_matcher",
       "shorter[static_cast<std::size_t>(next)] = beside;", "shorter[static_cast<std::size_t>(next)] = 0;")
mutant("stream-shows-what-may-stop", "loop/text_stream.hpp", "tests/loop/text_stream",
       ": stop_strings_.begun(search_));", ": 0);")
mutant("stream-breaks-characters", "loop/text_stream.hpp", "tests/loop/text_stream",
       "inside ? detail::whole_characters(std::string_view(held_).substr(0, end)) : end;", "0 * inside + end;")
mutant("stream-breaks-characters-before-a-stop-string", "loop/text_stream.hpp", "tests/loop/text_stream",
       "end == held_.size() || !detail::begins_character(held_, end)", "end == held_.size()")
mutant("stream-holds-what-is-no-character", "loop/text_stream.hpp", "tests/loop/text_stream",
       "end == held_.size() || !detail::begins_character(held_, end)", "end <= held_.size()")
mutant("stream-searches-stop-tokens", "loop/text_stream.hpp", "tests/loop/text_stream",
       "ends = stop_tokens_.contains(*token);", "ends = false;")
mutant("stream-searches-on-in-another-text", "loop/text_stream.hpp", "tests/loop/text_stream",
       "    search_ = {};\n", "")
mutant("stream-loses-what-it-held", "loop/text_stream.hpp", "tests/loop/text_stream",
       "    detail::StopSearch search = search_;\n", "    forget_shown();\n    detail::StopSearch& search = search_;\n")
mutant("stream-keep-drafting-after-a-stop", "loop/text_stream.hpp", "tests/loop/text_stream",
       "    if (ended_) return {};\n", "")
mutant("stream-shows-what-follows-a-stop-token", "loop/text_stream.hpp", "tests/loop/text_stream",
       "token != tokens.end() && !ends; ++token", "token != tokens.end() && !match; ++token")
mutant("stream-forgets-a-stop-token", "loop/text_stream.hpp", "tests/loop/text_stream",
       "ended_ = ends;", "ended_ = match.has_value();")
mutant("stream-holds-back-at-a-stop-token", "loop/text_stream.hpp", "tests/loop/text_stream",
       "    if (ends && !match) return show(held_.size());\n", "")

LOGS = "tests/loop/log_probabilities"
mutant = promise("log-probabilities are those of the target's rows that the tokens stand in")
mutant("log-likeliest-from-the-first", "loop/log_probabilities.hpp", LOGS,
       "const Index begin = i == 0 ? 0 :", "const Index begin = i >= 0 ? 0 :")
mutant("log-probability-of-the-next-row", "loop/step_base.hpp", LOGS,
       "record_.add(drafted.target(node), drawn_here", "record_.add(drafted.target(std::min(node + 1, drafted.gamma())), drawn_here")
mutant("log-probabilities-not-cut", "loop/step_base.hpp", LOGS, "i < cut_.tokens; ++i", "i <= accepted(); ++i")
mutant("log-probabilities-of-another-branch", "loop/step_base.hpp", LOGS,
       "if (!drawn_here) node = path_.numbers()[k] + 1;", "if (!drawn_here) node = i + 1;")
mutant("log-probabilities-of-a-failed-step", "loop/step_base.hpp", LOGS,
       "record_.truncate(std::ssize(text_.tokens()));", "")
mutant("log-likeliest-of-a-failed-step", "loop/log_probabilities.hpp", LOGS,
       "    while (std::ssize(top_) > (kept == 0 ? 0 : ends_.back())) top_.pop_back();\n", "")
mutant("log-likeliest-told-by-old-ends", "loop/log_probabilities.hpp", LOGS, "    ends_.resize(kept);\n", "")
mutant("log-probabilities-outlive-their-text", "loop/step.hpp", LOGS, "    withdraw_verdict();  // nothing throws from here on\n", "")
mutant("raw-is-processed", "sample/processed_rows.hpp", LOGS,
       "return Processed(logits());", "return processed();")
mutant("raw-is-hooked", "sample/processed_model.hpp", LOGS + " tests/sample/texts_of_model",
       "detail::ChangedRows(steps_.of(output_.topRows(rows)), numbers(logits))",
       "steps_.of(output_.topRows(rows))")
mutant("raw-keeps-the-temperature", "rows/kinds/logits_row.hpp", LOGS,
       "temperature_ == 1 && !(cut_ > no_cut) ? *this", "!(cut_ > no_cut) ? *this")
mutant("raw-keeps-the-cut", "rows/kinds/logits_row.hpp", "tests/rows/distribution",
       "temperature_ == 1 && !(cut_ > no_cut) ? *this", "temperature_ == 1 ? *this")
mutant("log-probability-of-an-underflow", "rows/distribution.hpp", "tests/rows/distribution",
       "if constexpr (requires { row.log_probability(x); })", "if constexpr (false)")

mutant = promise("the loop tells a keyed source where it stands")
mutant("keyed-draft-elsewhere", "loop/sequence.hpp", "tests/verify/keyed",
       "detail::stand_at(chance, std::ssize(context()));\n    take_drafter();", "take_drafter();")
mutant("keyed-verdict-elsewhere", "loop/step.hpp", "tests/verify/keyed",
       "    detail::stand_at(chance, std::ssize(context()));\n", "")
mutant("keyed-batch-drafts-elsewhere", "loop/batch.hpp", "tests/verify/keyed",
       "    detail::stand_at(entry.source(), std::ssize(request.context));\n", "")

mutant = promise("an engine that owns its forward takes a step of a batch in two halves; what was proposed is judged once, and by rows of its own")
mutant("halves-without-a-proposal", "loop/batch.hpp", "tests/loop/batch", "if (!proposed_) detail", "if (false) detail")
mutant("halves-judged-twice", "loop/batch.hpp", "tests/loop/batch", "    proposed_ = false;\n    finished_.clear();\n    take_rows", "    finished_.clear();\n    take_rows")
mutant("batch-complete-text-cancelled", "loop/batch.hpp", "tests/loop/batch", "if (!(*entry)->step().done()) result.stop_reason", "result.stop_reason")
mutant("halves-after-a-cancel", "loop/batch.hpp", "tests/loop/batch", 'check_between_steps("cancel()");\n    proposed_ = false;\n', 'check_between_steps("cancel()");\n')

BEAMS, BEAM_TEST = "search/beam_search.hpp", "tests/search/beam_search"
SEARCHING = "search/searching_model.hpp"
mutant = promise("beam search finds what plain beam search over the target finds, in fewer calls")
mutant("beams-beyond-the-known-rows", BEAMS, BEAM_TEST, "std::all_of(search.level", "std::any_of(search.level")
mutant("beams-of-a-level-at-a-time", BEAMS, BEAM_TEST, "} while (goes_on(search));", "} while (false);")
mutant("beams-ahead-of-the-prompt", BEAMS, BEAM_TEST, "search.ahead = search.beams;", "search.ahead = {{}};")
mutant("beams-drafted-one-level-more", BEAMS, BEAM_TEST, "search.found.levels - 1)", "search.found.levels)")
mutant("beams-without-room", BEAMS, BEAM_TEST, "!draft_.has_room(search.texts, search.level)", "false")
mutant("beams-ahead-without-room", BEAMS, BEAM_TEST, "if (!target_.has_room(search.texts, search.asked)) {\n        search.asked", "if (false) {\n        search.asked")
mutant("beam-stopped-goes-on", "search/searched_texts.hpp", BEAM_TEST, "if (beam.stopped) {", "if (false) {")
mutant("beams-equal-the-later-first", "search/searched_texts.hpp", BEAM_TEST, "beam < other.beam", "beam > other.beam")
mutant("beams-equal-the-higher-id-first", "search/searched_texts.hpp", BEAM_TEST, "token < other.token", "token > other.token")
mutant("beam-text-found-twice", "search/searched_texts.hpp", BEAM_TEST, "if (k >= 0) return k;", "")
mutant("beams-part-too-late", "search/searched_texts.hpp", BEAM_TEST, "while (a != b)", "if (a != b)")
mutant("beam-rows-of-what-is-known", SEARCHING, BEAM_TEST, "return !at(k).known;", "return at(k).known;")
mutant("beam-tree-before-its-prompt", SEARCHING, BEAM_TEST, "parent == base_ ? prompt_in_tree_ - 1 :", "parent == base_ ? -1 :")
mutant("beam-tree-given-up-for-nothing", SEARCHING, BEAM_TEST, "cached_ += std::ssize(path_);", "")
mutant("beam-tree-never-given-up", SEARCHING, BEAM_TEST, "    give_up_tree(texts);\n    return fits", "    return fits")
mutant("beam-ids-of-the-draft-alone", SEARCHING, BEAM_TEST, "if (top.token < most_id_)", "")
mutant("beam-context-left-full", SEARCHING, BEAM_TEST, "if constexpr (!Feeds::for_many) model_.keep(sequence, 0);", "if constexpr (!Feeds::for_many) model_.keep(sequence, cached_);")
mutant("beam-sequence-not-released", SEARCHING, BEAM_TEST, "model_.release(sequence);", "{}")
mutant("beam-turn-not-taken", SEARCHING, BEAM_TEST, "    turn_.take(turns_);\n", "")
mutant("beam-tree-grows-for-ever", SEARCHING, BEAM_TEST, "size_ > most_added + 2 * opened_with_ || ", "")
mutant("beam-tree-given-up-too-often", SEARCHING, BEAM_TEST, "size_ > most_added + 2 * opened_with_", "size_ > most_added")
mutant("beam-draft-tree-grows-for-ever", BEAMS, BEAM_TEST, "if constexpr (drafts) draft_.share(search.texts, node);", "")
mutant("beams-refused-by-a-processor", BEAMS, BEAM_TEST, " && target_.can_reach(search.texts, beam.node, level + 1)", "")
mutant("beams-refused-at-the-last-token-alone", BEAMS, BEAM_TEST, "beam.node, level + 1)", "beam.node, 1)")
mutant("beam-model-used-twice", SEARCHING, BEAM_TEST, "if (!turn_.lasts(turns_))", "if (false)")
mutant("beams-of-an-empty-row", SEARCHING, BEAM_TEST, "seen.dead_end = dead_end;", "")
mutant("beam-contexts-left-after-a-throw", BEAMS, BEAM_TEST, "detail::undo_on_error(run, [this] { end(); });", "run();")
mutant("beam-draft-context-left", BEAMS, BEAM_TEST, "if constexpr (drafts) draft_.end();", "")
mutant("beam-draft-calls-uncounted", BEAMS, BEAM_TEST, "search.found.draft_calls += draft_.ask", "draft_.ask")
