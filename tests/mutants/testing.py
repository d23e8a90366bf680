# SPDX-License-Identifier: MIT
"""Mutants of the proofs themselves, and of what is built around the library: C, bench and examples."""

from mutants import promise

mutant = promise("the proof harness tells a wrong law from a right one")
mutant("harness-blind", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (found.size <= check.tolerance) return true;", "if (found.size <= 1) return true;")
mutant("harness-never-wide", "testing/check_lossless.hpp", "tests/testing/check_lossless", "here && many ? 0.8 :", "false ? 0.8 :")
mutant("harness-wide-without-siblings", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "(wide == Wide::target && judges_trees<V>)", "false")
mutant("enumerator-takes-any-sum", "testing/enumerator.hpp", "tests/testing/check_lossless", "if (!(choice.sum <= most))", "if (false)")
mutant("enumerator-skips-negative-outcomes", "testing/enumerator.hpp", "tests/testing/check_lossless", "if (p < 0)", "if (false)")
mutant("harness-forgives-missing-outputs", "testing/law.hpp", "tests/testing/law",
       "for (const auto& [tokens, p] : right) compare(tokens);", "")
mutant("harness-merges-hidden-state", "testing/law.hpp", "tests/testing/law", "return std::is_empty_v<V>;", "return true;")
mutant("enumerate-race-normaliser", "testing/enumerator.hpp", "tests/chance/race tests/law_lossless", ") / all;", ") / 1.0;")

mutant = promise("an audit convicts drafters whose q is not what was drawn from, and no others")
mutant("audit-not-randomised", "more/audits/draft_audit.hpp", "tests/more/audits/draft_audit",
       "const double v = uniform01(generator);", "const double v = 0.5;")
mutant("audit-kept-after-throw", "more/audits/draft_audit.hpp", "tests/more/audits/audited_drafter",
       "State next = state_;", "State& next = state_;")

mutant = promise("an audit convicts a text that is not its rows', and no other")
mutant("text-audit-not-randomised", "more/audits/text_audit.hpp", "tests/more/audits/text_audit",
       "const double v = uniform01(source_);", "const double v = 0.5;")
mutant("text-audit-reference-not-normalised", "more/audits/row_places.hpp", "tests/more/audits/text_audit",
       "ratio_ * (total() / reference_total_)", "ratio_")
mutant("text-audit-forgets-its-largest", "more/audits/text_audit.hpp", "tests/more/audits/text_audit",
       "std::max(seen_.largest_evidence, evidence());", "evidence();")
mutant("text-audit-row-of-the-parent", "more/audits/audited_text.hpp", "tests/more/audits/text_audit", "row = k + 1;", "row = k;")
mutant("text-audit-merged-without-counts", "more/audits/place_bet.hpp", "tests/more/audits/text_audit",
       "logs_[k] += log_gamma(hits(bin, width) + 0.5) - log_gamma(0.5);", "logs_[k] += other.logs_[k];")

mutant = promise("a table's row of a tree depends on the way to its token")
mutant("table-tree-row-of-token-alone", "testing/table_model.hpp", "tests/testing/table_model",
       "row + unit * state(context_, missing)", "row")

mutant = promise("two greedy texts that part are explained by numbers only where numbers do it")
mutant("divergence-without-call-shapes", "more/audits/divergence.hpp", "tests/more/audits/divergence",
       "const double allowed = out.moved + out.rounding;", "const double allowed = out.rounding;")

mutant = promise("a model that is wrong is convicted, and one that is right passes")
mutant("model-check-never-rolls-back", "testing/check_model.hpp", "tests/testing/check_model",
       "for (CheckedSequence& sequence : sequences_) roll_back(sequence);", "")

mutant = promise("a call in C gives the verdict of C++")
mutant("c-last-failure-told", "more/c/batch.hpp", "tests/more/c/specdec",
       "if (first == SPECDEC_OK) first = statuses[i];", "if (statuses[i] != SPECDEC_OK) first = statuses[i];")
mutant("c-paths-of-all-at-the-first", "more/c/batch.hpp", "tests/more/c/specdec",
       "in.paths == nullptr ? nullptr : in.paths + first", "in.paths == nullptr ? nullptr : in.paths")
mutant("c-draft-at-the-targets-temperature", "more/c/batch.hpp", "tests/more/c/specdec",
       "given.draft.at_temperature(in.draft_temperatures[i], i)", "given.draft.at_temperature(in.target_temperatures[i], i)")
mutant("c-memory-without-what-is-left", "more/c/greedy_block.hpp", "tests/more/c/specdec",
       "bytes = write_number(static_cast<std::uint64_t>(m.left), bytes);", "bytes = write_number(1, bytes);")
mutant("c-numbers-apart-read-as-neighbours", "more/c/rows.hpp", "tests/more/c/specdec",
       "const bool neighbours = rows.element_stride == 1;", "const bool neighbours = true;")
mutant("c-rows-of-the-first-draft", "more/c/rows.hpp", "tests/more/c/specdec", "made(type, first_ + i)", "made(type, i)")
mutant("c-draft-read-as-the-target", "more/c/judge.hpp", "tests/more/c/specdec",
       "if (draft.are<R>()) return judge(", "return judge(")
mutant("c-list-out-of-order-believed", "more/c/rows.hpp", "tests/more/c/specdec", "ascending == static_cast<Token>(size) && ", "")
mutant("c-text-keeps-all", "more/c/requests.hpp", "tests/more/c/requests", "std::ssize(sequence.tokens()), sequence.kept()",
       "std::ssize(sequence.tokens()), std::ssize(tokens)")
mutant("c-paused-context-empty", "more/c/requests.hpp", "tests/more/c/requests", "std::move(*(*paused)->text), {cached}",
       "std::move(*(*paused)->text), {0}")
mutant("c-negative-of-a-list-believed", "more/c/rows.hpp", "tests/more/c/specdec", "p.minCoeff() >= 0 &&", "")

mutant = promise("the laboratory states the error of what it measures")
mutant("gain-unpaired", "bench/acceptance/estimate.hpp", "bench/tests/acceptance_lab", "b[i] - ratio * a[i]", "b[i] - a[i]")

mutant = promise("the transformer's row of a token of a tree is that of a line of the tokens on its way")
mutant("branch-keys-turned-by-number", "examples/apps/transformer/attention.hpp", "examples/apps/tests/tree",
       "rotation_(context + tree.depth(token), keys", "rotation_(context + token, keys")

mutant = promise("an online model learns along the gradient of what is accepted")
mutant("online-step-that-moves-the-mass", "examples/apps/transformer/online_model.hpp", "examples/apps/tests/online",
       "q *= more - share;", "q *= more;")

mutant = promise("on llama.cpp a call that fails leaves every sequence as it was")
mutant("llama-together-undo-believed", "examples/apps/llama_cpp/llama_batch.hpp", "examples/apps/tests/llama_batch",
       "fed_[i]->broken = !context_.remove(fed_[i]->id, feeds[i].from);", "context_.remove(fed_[i]->id, feeds[i].from);")
