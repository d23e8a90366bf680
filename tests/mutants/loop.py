# SPDX-License-Identifier: MIT
"""Mutants of the loop, of batches, and of the search."""

from mutants import promise

mutant = promise("the loop emits what was verified, up to a stop token or the budget")
mutant("correction-not-emitted", "loop/offered_draft.hpp", "tests/loop/spec_dec tests/loop/sequence tests/law_lossless",
       "    if (!text.ends(cut_)) text.add(", "    if (!text.ends(cut_) && path_.empty()) text.add(")

mutant = promise("no row is asked for after a text's end")
mutant("row-after-a-stop-string-asked-for", "loop/offered_draft.hpp", "tests/law_dead_ends",
       "return text.ends(cut);", "return text.ends(cut) && !cut.match;")
mutant("row-after-the-condition-asked-for", "loop/offered_draft.hpp", "tests/law_dead_ends tests/loop/step",
       "return text.ends(cut);", "return text.ends(cut) && cut.stop != StopReason::condition;")
mutant("condition-shown-another-branch", "loop/offered_draft.hpp", "tests/loop/step",
       "set_path(parent + 1)", "set_path(k)")

mutant = promise("an error about a drafted token costs nothing unless the token is written")
mutant("error-about-a-drafted-token-thrown", "loop/offered_draft.hpp", "tests/loop/ends",
       "    return text.ends(cut);", "    if (cut.error) std::rethrow_exception(cut.error);\n    return text.ends(cut);")

mutant = promise("after a step a model keeps just the tokens that survived")
mutant("target-keeps-one-too-many", "loop/offered_draft.hpp", "tests/loop/spec_dec tests/loop/sequence tests/law_lossless",
       "cached = before + std::ssize(kept_)", "cached = before + 1 + std::ssize(kept_)")
mutant("tree-keeps-other-tokens", "loop/offered_draft.hpp", "tests/law_tree_loop",
       "kept_.push_back(uncached + (last = row) - 1);", "kept_.push_back((last = row) - 1);")

mutant = promise("a rule is told of a step after all that may throw")
mutant("committed-before-observed", "loop/step.hpp", "tests/loop/sequence",
       "    Base::template take_verdict<branches>(verdict,",
       "    detail::commit(verifier_);\n"
       "    Base::template take_verdict<branches>(verdict,")

mutant = promise("a draft length of a batch is told what drafts cost")
mutant("draft-time-told-to-nobody", "loop/round.hpp", "tests/law_clock",
       "std::forward<Draft>(draft), time)", "std::forward<Draft>(draft), std::chrono::nanoseconds{0})")

mutant = promise("a result tells how many tokens of its prompt were there already")
mutant("part-counted-as-cached", "loop/step_base.hpp", "tests/loop/requests_turns",
       "    if (!begun_) begun_ = cached_;\n    offered_.feed_only(count);", "    offered_.feed_only(count);")
mutant("turn-counted-from-the-first", "loop/step_base.hpp", "tests/loop/requests_fork",
       "    begun_.reset();\n    observers_", "    observers_")
mutant("twin-counted-as-its-text", "loop/step_base.hpp", "tests/loop/requests_fork",
       "    begun_.reset();\n    if (tokens().empty()) owe_prompt();", "    if (tokens().empty()) owe_prompt();")

mutant = promise("a draft length of a batch is told how many texts decode")
mutant("readers-counted-as-drafting", "loop/batch_core.hpp", "tests/loop/requests_turns",
       "        entry->fit_into(tokens_per_call);\n        if (entry->uncached() > 0) continue;\n",
       "        entry->fit_into(tokens_per_call);\n")

mutant = promise("what was judged of a text is told to the drafter of this text")
mutant("judged-of-another-text-told", "loop/round.hpp", "tests/draft/lifted_drafter",
       "tell_drafter(drafter_, seat.number,", "tell_drafter(drafter_, 0 * seat.number,")

mutant = promise("what was noted of a step that was taken back does not count")
mutant("drafted-of-a-failed-step-kept", "loop/observers.hpp", "tests/loop/observers",
       "drafted.resize(static_cast<std::size_t>(tokens)); }", "static_cast<void>(tokens); }")
mutant("notes-of-a-failed-step-kept", "loop/step_base.hpp", "tests/loop/observers tests/loop/log_probabilities",
       "observer.withdrawn(std::ssize(text_.tokens()));", "(void)observer;")

mutant = promise("a callback is told each token once")
mutant("text-told-from-its-start", "loop/sequence.hpp", "tests/loop/spec_dec tests/loop/sequence tests/law_faults",
       "        on_step(emitted);\n", "        on_step(tokens());\n")

mutant = promise("a sequence resumed from a context is a fresh one there")
mutant("resume-of-a-cut-text", "loop/step_base.hpp", "tests/loop/sequence",
       " &&\n"
       "           !text_.ended_by_itself();",
       ";")

mutant("last-token-of-a-part-not-fed", "loop/step_base.hpp", "tests/loop/sequence",
       "std::min({cached_, common, text_.size() - 1})", "std::min(cached_, common)")
mutant("stop-string-begun-in-another-turn", "loop/text.hpp", "tests/loop/sequence", "    search_ = {};\n", "")
mutant("released-context-fed-from-its-middle", "loop/sequence.hpp", "tests/loop/sequence",
       "    turn_ = drafter_turn_ = detail::Turn();\n"
       "    Base::target_holds(0);",
       "    turn_ = drafter_turn_ = detail::Turn();")
mutant("drafts-as-long-as-for-another-target", "loop/step_base.hpp", "tests/loop/requests_turns",
       "    limits_->nodes = std::min(limits_->nodes, most_drafted());\n"
       "    limits_->depth = std::min(limits_->depth, most_drafted());\n",
       "")
mutant("refused-turn-leaves-another-target", "loop/batch.hpp", "tests/loop/requests_turns",
       "[&] { entry.seat().move_to(before); }", "[] {}")
mutant("named-text-keeps-its-proposal", "loop/batch_core.hpp", "tests/loop/requests_turns",
       "if (entry(one).seat().in_flight.value > 0) withdraw(entry(one));", ";")

mutant = promise("a stop string ends the text in the token that completes it, wherever tokens break it")
mutant("stop-string-begins-anew-each-token", "loop/text.hpp", "tests/text/stop_strings",
       "find(cut.search,", "find(cut.search = {.bytes = cut.search.bytes},")
mutant("stop-string-sought-from-min-new-tokens-on", "loop/text.hpp", "tests/loop/ends",
       "else if ((cut.match =", "else if (counts && (cut.match =")
mutant("stop-string-falls-to-the-beginning", "text/stop_strings.hpp", "tests/text/string_matcher",
       "at(shorter, next) = beside;", "at(shorter, next) = 0;")
mutant("stream-loses-what-it-held", "more/text/text_stream.hpp", "tests/more/text/text_stream",
       "    detail::StopSearch search = search_;\n",
       "    forget_shown();\n"
       "    detail::StopSearch& search = search_;\n")

mutant = promise("in a batch a text is what it is alone")
mutant("batch-rows-of-another", "model/call.hpp", "tests/loop/batch",
       "RowRange(all, at(firsts_, k),", "RowRange(all, 0 * at(firsts_, k),")

mutant = promise("a call of a batch that fails can be tried again, with the same luck")
mutant("batch-luck-not-rewound", "loop/batch_core.hpp", "tests/loop/batch", "rewind(entry.source());", "mark(entry.source());")

mutant = promise("log-probabilities of a prompt are those of its own tokens, and of all of them")
mutant("prompt-told-of-the-token-before", "loop/log_probability_observer.hpp", "tests/loop/prompt_log_probabilities",
       "add(named, at(text, end), options)", "add(named, at(text, end - 1), options)")
mutant("prompt-told-beside-other-tokens", "loop/step_base.hpp", "tests/loop/prompt_log_probabilities",
       "      if (wants_prompt()) of_prompt().begin_at(length);", "      (void)length;")
mutant("ruled-out-token-of-a-prompt-kept", "loop/round.hpp", "tests/loop/prompt_log_probabilities",
       "std::min(this->kept(), this->ruled_out())", "this->kept()")
mutant("twin-without-its-prompt", "loop/batch_core.hpp", "tests/loop/prompt_log_probabilities",
       "      twin.seat().take_prompt_of(other.seat());\n", "")

mutant = promise("beam search finds what plain beam search over the target finds")
mutant("beams-beyond-the-known-rows", "more/search/searched_context.hpp", "tests/more/search/beam_search",
       "std::all_of(nodes.begin()", "std::any_of(nodes.begin()")
mutant("beam-search-told-others-rows", "more/search/beam_batch.hpp", "tests/more/search/beam_batch",
       "call_.rows_of(rows, k)", "call_.rows_of(rows, 0)")
mutant("beams-of-a-failed-call-kept", "more/search/searched_context.hpp", "tests/more/search/beams",
       "    for (const Index node : call_.told) detail::at(nodes_, node).known = false;\n", "")
mutant("beam-text-found-twice", "more/search/searched_texts.hpp", "tests/more/search/beam_search", "if (k >= 0) return k;", "")

mutant = promise("of drafts made together a draft length is told what a token costs all texts")
mutant("whole-draft-time-told-to-each", "loop/round.hpp", "tests/law_clock",
       "if (all.tokens > 0) time =", "if (all.tokens < 0) time =")
mutant("draft-time-shared-once", "loop/round.hpp", "tests/law_clock", "time * all.count *", "time *")

mutant = promise("a number is one text's for life")
mutant("number-given-again", "loop/batch_texts.hpp", "tests/loop/requests tests/loop/requests_turns",
       "next_ = std::max(next_, number + 1);", "next_ = number + 1;")

mutant = promise("the target keeps its contexts as they are until all drafters have seen its rows")
mutant("target-keeps-before-all-have-seen", "loop/batch_core.hpp", "tests/draft/lifted_drafter tests/loop/batch",
       "if (entry != nullptr) round_.settle(entry->seat(), rows_of(i), policy_of(*entry));",
       "if (entry != nullptr) {\n"
       "        round_.settle(entry->seat(), rows_of(i), policy_of(*entry));\n"
       "        if constexpr (called_here)\n"
       "          if (!entry->seat().error) Round::keep_in(target, entry->seat());\n"
       "      }")

mutant = promise("a verdict that was made elsewhere is its text's own, and one that cannot be costs nothing")
mutant("verdict-of-another-text", "loop/batch_core.hpp", "tests/loop/settle", "stop_of(at(verdicts, i), i)", "stop_of(at(verdicts, 0), i)")
mutant("first-token-may-be-rejected-and-emitted", "loop/offered_draft.hpp", "tests/loop/settle", "if (k >= 0 && !(unread", "if (k > 0 && !(unread")
mutant("refused-verdicts-cost-the-proposal", "loop/batch_core.hpp", "tests/loop/settle",
       "[&] { take_verdicts(verdicts); }, [&] { std::swap(out_, taken_); }", "[&] { take_verdicts(verdicts); }, [] {}")
mutant("survivals-of-the-step-before", "loop/step_recorder.hpp", "tests/loop/settle",
       "Index) { return ps_.clear(), qs_.clear(), false; }", "Index) { return false; }")
mutant("path-of-other-branches", "model/trees.hpp", "tests/loop/settle", "if (at(parents, path[i]) != last)", "if (last < -1)")

mutant = promise("options that change while a proposal is out hold from the end of its step on, and a text keeps its law")
mutant("change-within-a-step", "loop/step_base.hpp", "tests/loop/change", "    if (!offers() && !offered_.in_the_making()) take_change();", "    take_change();")
mutant("change-lost-by-a-copy", "loop/round.hpp", "tests/loop/change", "    else Step::take_change();", "    else void();")
mutant("change-takes-back-no-limits", "loop/step_base.hpp", "tests/loop/change",
       "    change_.reset();\n    limits_.reset();\n    if (tokens().empty())", "    change_.reset();\n    if (tokens().empty())")
mutant("refused-fork-ends-a-pause", "loop/batch.hpp", "tests/loop/change", "detail::undo_on_error(fork_it, pause_again)", "fork_it()")
mutant("remembered-budget-shrinks", "loop/step.hpp", "tests/loop/change", "if (remembers_sequence<V> && options.max_new", "if (false && options.max_new")
mutant("stop-string-searched-from-the-change", "loop/text.hpp", "tests/loop/change", "search_.state = -1;", "search_ = {};")

mutant = promise("what is cached of a context serves another up to the first key in which they differ")
mutant("keys-not-compared", "loop/text.hpp", "tests/loop/keys", "first_difference(options_.keys, keys)});", "unlimited + 0 * std::ssize(keys)});")
mutant("missing-key-fits-any", "loop/options.hpp", "tests/loop/keys", "std::min(position(a), position(b))", "std::max(position(a), position(b))")
mutant("turn-without-the-keys-before", "loop/round.hpp", "tests/loop/keys", "    all.keys = this->options().keys;\n", "    all.keys.clear();\n")
mutant("change-drops-keys", "loop/step_base.hpp", "tests/loop/keys", "    other.keys = options().keys;\n", "")
mutant("twins-share-by-tokens", "loop/batch_core.hpp", "tests/loop/keys",
       "std::min(twin.seat().common_length(other.seat()), size - 1)",
       "common_length(twin.seat().context().first(static_cast<std::size_t>(size - 1)), other.seat().context())")
mutant("draft-models-of-twins-share-by-tokens", "draft/model_drafter.hpp", "tests/loop/keys",
       "std::min(detail::common_length(prompt, other.context), shared)", "detail::common_length(prompt, other.context) + 0 * shared")
mutant("cascade-keeps-by-tokens", "more/drafters/cascade_drafter.hpp", "tests/loop/keys",
       "seat.target_holds(std::min(seat.kept(), length));", "if (length == 0) seat.target_holds(0);")

mutant = promise("a layer, or a head, never takes zeros for a hidden state")
mutant("layer-reads-on-after-zeros", "more/heads/eagle_model.hpp", "tests/more/heads/eagle_model",
       "    if (!text.known) text.exact = std::clamp<Index>(end - 1, 0, text.exact);\n", "")
mutant("layer-drafts-after-unknown-states", "more/heads/eagle_model.hpp", "tests/more/heads/eagle_model",
       " && target_.states_from(sequence) == 0;", ";")
mutant("head-drafts-after-zeros", "more/heads/head_model.hpp", "tests/more/heads/head_model",
       " && target_.states_from(sequence) < target_.length(sequence);", ";")
mutant("head-reads-on-after-zeros", "more/heads/head_model.hpp", "tests/more/heads/head_model",
       "text.known > 0 ? feed.from : 1, length", "feed.from, length")

mutant = promise("a twin is a sample of its own: it shares neither its text's drafter nor what a rule remembers of it")
mutant("twin-shares-a-memory", "loop/step.hpp", "tests/loop/requests_fork",
       "(!tokens().empty() || !is_fresh(verifier_))", "!tokens().empty()")
mutant("twin-goes-on-with-a-memory", "loop/step.hpp", "tests/loop/requests_fork",
       "(other_options || Base::continues_in(context(), Base::options()))", "Base::continues_in(context(), Base::options())")
mutant("twin-has-the-drafter-of-another-number", "draft/lifted_drafter.hpp", "tests/draft/lifted_drafter",
       "requires(!made && std::copy_constructible<One>)", "requires std::copy_constructible<One>")

mutant = promise("a draft model reads what a text and its twins have in common once, and copies no more than that")
mutant("twin-drafts-after-more-than-it-shares", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       "twin.keep(model_, to, length);", "twin.keep(model_, to, unlimited);")
mutant("each-twin-reads-the-prompt", "draft/model_drafter.hpp", "tests/draft/model_drafter tests/more/heads/eagle_model",
       "if (is_unread(request)) read_with_twins(request, requests);", ";")
mutant("twin-of-another-family", "draft/model_drafter.hpp", "tests/draft/model_drafter",
       " || contexts_.at(other.sequence).family != context.family)", ")")

mutant = promise("a twin never gets the context of another text that has its parent's number now")
mutant("orphan-waits-for-a-number", "loop/batch_core.hpp", "tests/loop/requests_fork",
       "if (twin->twin_of == gone.number() || twin == &gone) twin->twin_of = -1;", "if (twin == &gone) twin->twin_of = -1;")

mutant = promise("who comes or leaves while a call is under way changes nobody's turn, and takes only its own rows")
mutant("turn-lost-to-who-came", "loop/batch_texts.hpp", "tests/loop/batch", "if (waiting_ == texts_.end()) waiting_ = last.begin();", ";")
mutant("rows-of-another-left-out", "loop/batch_core.hpp", "tests/loop/requests_turns",
       "      entry->place = std::ssize(out_.call.feeds());", "      entry->place = 0;")
