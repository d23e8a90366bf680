# SPDX-License-Identifier: MIT
"""Mutants of models and their wrappers."""

from mutants import promise

mutant = promise("a row of a tree is the row after the path to its token, whatever model takes the tree")
mutant("tree-branch-not-left", "model/path_by_path.hpp", "tests/model/path_by_path",
       "detail::common_length(text.way, text.cached_way)",
       "std::min<Index>(std::ssize(text.cached_way), std::max<Index>(std::ssize(text.way) - 1, 0))")
mutant("tree-rows-by-visit", "model/path_by_path.hpp", "tests/model/path_by_path",
       "text.place + detail::at(text.way, std::ssize(text.way) - rows + i) - text.first", "text.place + i")

mutant = promise("who has lost a model's context knows, and a copy does not count as its original")
mutant("turns-by-any-address", "model/turn.hpp", "tests/model/turn", "known->address == address", "true")
mutant("turn-of-a-copy", "model/uncopied.hpp", "tests/model/turn",
       "  Uncopied(const Uncopied&) {}", "  Uncopied(const Uncopied& other) : value(other.value) {}")

mutant = promise("a twin's context is a copy through every wrapper, and a context that was filled elsewhere is known to it")
mutant("twin-keeps-the-way-of-a-tree", "model/fed_texts.hpp", "tests/model/fed_texts",
       "    change(model, to, [&] { return twin.truncate(twin.length()); });\n", "")
mutant("twin-stays-without-a-context", "model/fed_texts.hpp", "tests/model/fed_texts",
       "model.fork(from, to); }, [&] { texts_.erase(to); });", "model.fork(from, to); }, [] {});")
mutant("filled-context-not-cached", "model/path_by_path.hpp", "tests/model/fed_texts",
       "texts_.adopt(sequence, tokens, begin_text).cached = std::ssize(tokens);",
       "texts_.adopt(sequence, tokens, begin_text);")

mutant = promise("a model that goes back only so far is never cut further")
mutant("reread-tree-not-counted", "more/models/reread.hpp", "tests/more/models/reread",
       "std::max(longest_, held_ += tokens)", "std::max(longest_, cached_ += tokens)")

mutant = promise("a model that cannot be cut back goes on from a state of its own sequence's text")
mutant("replayed-state-of-another", "more/models/replayed.hpp", "tests/more/models/replayed",
       "this->inner().model().save(sequence, snapshot);", "this->inner().model().save(0 * sequence, snapshot);")

mutant = promise("what a windowed model is shown depends on the context alone")
mutant("window-slides-as-it-goes", "more/models/windowed.hpp", "tests/more/models/windowed",
       "(beyond + stride_ - 1) / stride_ * stride_", "beyond")
mutant("window-one-for-all-rows", "more/models/windowed.hpp", "tests/more/models/windowed",
       "end = std::min(text.length(), text.begin + last_), rows", "end = text.length(), rows")

mutant = promise("a model of another vocabulary has rows of the common tokens, after the text in its own")
mutant("common-reads-ids-unmapped", "more/text/spelled_text.hpp", "tests/more/models/common_tokens",
       "tokens_.push_back(d);", "tokens_.push_back(static_cast<Token>(x + 0 * d));")
mutant("common-row-of-another-node", "more/text/spelled_text.hpp", "tests/more/models/common_tokens",
       "first + node - first_node", "first + node - std::ssize(nodes_) + std::ssize(wanted)")
mutant("tokens-matched-twice", "more/text/match_tokens.hpp", "tests/more/text/match_tokens",
       "    slot = taken;  // a later draft token of equal bytes finds nothing\n", "")

mutant = promise("a head's rows follow from the target's hidden state and the tokens after it")
mutant("head-kept-states-stay", "more/heads/head_model.hpp", "tests/more/heads/head_model",
       "states.col(first + detail::at(path, i));", "states.col(first + i);")
mutant("head-states-in-another-order", "more/heads/head_model.hpp", "tests/more/heads/head_model",
       "    for (const bool wanted : {false, true})\n"
       "      for (const Task& task : tasks_)",
       "    for (const bool wanted : {true, false})\n"
       "      for (const Task& task : tasks_)")

mutant = promise("each token goes into a drafting layer with the state after the token before it")
mutant("eagle-own-states-unused", "more/heads/eagle_model.hpp", "tests/more/heads/eagle_model",
       "own.col(task.text->after(task.text->before(token)));", "own.col(0);")
mutant("eagle-only-the-first-feed-taken-back", "model/feeds.hpp", "tests/more/heads/eagle_model",
       "texts_.leave(feeds, model().inner());", "texts_.leave(feeds.first(1), model().inner());")

mutant = promise("a head that drafts some of the tokens gives the others no probability")
mutant("part-in-the-order-of-its-columns", "more/heads/hidden_states.hpp", "tests/more/heads/head_model tests/more/heads/eagle_model",
       "rows(i, x) = logits(i, d)", "rows(i, d) = logits(i, d)")

mutant = promise("the trie of contexts counts what follows what, exactly")
mutant("counts-of-other-parents", "more/models/ngram_counts.hpp", "tests/more/models/ngram_counts",
       "nodes().back().parent == parent && nodes().back().token == token", "nodes().back().token == token")
