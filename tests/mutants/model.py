"""Mutants of what stands around models."""

from mutants import promise

PATH = "model/path_by_path.hpp"
TEST = "tests/model/path_by_path"

mutant = promise("any model takes trees: every row is its own after the path to a token")
mutant("path-of-strangers", "model/trees.hpp", TEST,
       "parents[static_cast<std::size_t>(path[i])] != last", "parents[static_cast<std::size_t>(path[i])] > last")
mutant("path-beyond-the-tree", "model/trees.hpp", TEST,
       "path[i] <= last || path[i] >= std::ssize(parents)", "path[i] <= last || path[i] > std::ssize(parents)")
mutant("tree-depth-of-a-parent", "model/trees.hpp", "tests/law_tree_loop tests/draft/strategies/tree_shape tests/verify/drafted_tree",
       "parent < 0 ? 1 : depths[static_cast<std::size_t>(parent)] + 1", "parent < 0 ? 1 : depths[static_cast<std::size_t>(parent)]")
mutant("tree-branch-not-left", PATH, TEST, "detail::common_length(text.way, text.cached_way)",
       "std::min<Index>(std::ssize(text.cached_way), std::ssize(text.way) - 1)")
mutant("tree-rows-by-visit", PATH, TEST, "rows_.put(text.place + *node - text.first, rows, row++);", "rows_.put(row, rows, row);\n      ++row;")
mutant("tree-way-backwards", PATH, TEST, "std::reverse(text.way.begin(), text.way.end());", "")
mutant("tree-rows-of-unwanted", PATH, TEST, "text.first = text.size() - feed.rows;", "text.first = std::max<Index>(text.size() - feed.rows - 1, 0);")
mutant("tree-all-branches-walked", "model/depth_first.hpp", TEST, "if (token < size - wanted && child(token) < 0) continue;", "")
mutant("tree-siblings-skipped", "model/depth_first.hpp", TEST, "next_[k] = child(parents[k]);", "")
mutant("tree-kept-not-fed", PATH, TEST,
       "    for (const Index node : path.subspan(static_cast<std::size_t>(common)))\n      text.uncached.push_back(text.token(node));\n", "")
mutant("common-length-of-the-shorter", "lists.hpp", TEST, " && a[length] == b[length]", "")
mutant("tree-kept-fed-twice", PATH, TEST, "      text.uncached.clear();\n", "")
mutant("tree-branch-stays-after-kept", PATH, TEST, "    this->inner().keep(sequence, text.cached);\n", "")
mutant("tree-missing-outlives-rollback", PATH, TEST, "if (uncached < std::ssize(text->uncached)) text", "if (false) text")
mutant("tree-failed-call-stays", PATH, TEST, "forget_from(text->before, feed.sequence, *text);", "(void)text;")
mutant("tree-model-stays-in-failed-call", PATH, TEST, "text.cached_way.erase(std::lower_bound(text.cached_way.begin(), text.cached_way.end(), size),\n                          text.cached_way.end());", "")
mutant("tree-half-fed-model", PATH, TEST, "    this->inner().keep(sequence, text.cached + std::ssize(text.cached_way));\n", "")
mutant("tree-shape-unchecked", PATH, TEST, "detail::rows_of(detail::view_of(round_)));\n    Index row", "std::min(detail::rows_of(detail::view_of(round_)), Index{distributions(output).rows()}));\n    Index row")
mutant("tree-row-of-missing-tokens", "model/feeds.hpp", TEST, "    rows();\n", "")
mutant("line-by-path-never-kept", PATH, TEST, "    text.cached += std::ssize(text.cached_way);\n    text.forget_tree();\n  }",
       "    text.forget_tree();\n  }")
mutant("line-by-path-stays-a-tree", PATH, TEST, "    text.cached += std::ssize(text.cached_way);\n    text.forget_tree();\n  }",
       "    text.cached += std::ssize(text.cached_way);\n  }")
mutant("copied-row-of-a-way-unnamed", "model/gathered_rows.hpp", TEST, "rows_.add(NamedRow(row, \"model\", i));", "rows_.add(row);")
mutant("tree-joined-by-line", "model/feeds.hpp", TEST, "    branches(nodes > 0);\n", "")
mutant("tree-of-any-parents", "model/feeds.hpp", TEST, "    if (!feed.parents.empty()) check_parents(feed.tokens, feed.parents, nodes);\n", "")
mutant("tree-row-of-a-branch-that-was-left", "model/gathered_rows.hpp", "tests/law_concepts", "using Rows = StoredRows<Row, false>;",
       "using Rows = StoredRows<Row, true>;")

mutant("tree-over-what-others-left", PATH, TEST, "return this->inner().keep(sequence, Index{0});", "return;")
mutant("tree-prompt-left-for-later", PATH, TEST, "is_line && !feed.tokens.empty() ? std::max<Index>(feed.rows, 1) : feed.rows", "feed.rows + 0 * is_line")
mutant("tree-branches-of-one-after-another", PATH, TEST, "if (text.next < text.ends.size()) round_", "if (round_.empty() && text.next < text.ends.size()) round_")
mutant("tree-rows-of-the-first-text", PATH, TEST, "      place += feed.rows;\n", "")
mutant("tree-released-in-part", PATH, TEST, "    this->inner().release(sequence);\n", "")
mutant("tree-text-remembers-released", PATH, TEST, "    texts_.erase(sequence);\n", "")

SEQUENCES, SEQUENCES_TEST = "model/model_per_sequence.hpp", "tests/model/model_per_sequence"

mutant = promise("a call that fails leaves the model of every sequence as before")
mutant("sequences-short-rows-taken-in", SEQUENCES, SEQUENCES_TEST, "i <= fed; ++i)", "i < fed; ++i)")
mutant("sequences-before-the-failure-taken-in", SEQUENCES, SEQUENCES_TEST, "std::size_t i = 0; i <= fed", "std::size_t i = fed; i <= fed")

mutant("sequences-of-a-used-model", SEQUENCES, SEQUENCES_TEST, "prototype_.truncate(0);", "")
mutant("sequences-wide-rows-taken-in", SEQUENCES, SEQUENCES_TEST, "if (rows.rows() > 0 && rows.cols() != vocab_size())", "if (false)")

REREAD, REREAD_TEST = "model/reread.hpp", "tests/model/reread"

mutant = promise("a model that goes back only so far is never cut further, and reads again only what it must")
mutant("reread-one-too-far", REREAD, REREAD_TEST, "longest_ - length > reach_;", "longest_ - length > reach_ + 1;")
mutant("reread-one-too-early", REREAD, REREAD_TEST, "longest_ - length > reach_;", "longest_ - length >= reach_;")
mutant("reread-tree-not-counted", REREAD, REREAD_TEST, "std::max(longest_, held_ += tokens)", "std::max(longest_, cached_ += tokens)")
mutant("reread-longest-outlives-emptying", REREAD, REREAD_TEST, "    if (emptied) longest_ = 0;\n", "")
mutant("reread-never-again", REREAD, REREAD_TEST, "    if (!again_.empty()) call(detail::view_of(again_));\n", "")
mutant("reread-path-of-a-lost-context", REREAD, REREAD_TEST, "text->cut(length) == length)", "(text->cut(length), true))")
mutant("reread-tree-beyond", REREAD, REREAD_TEST, "if (beside > reach_)", "if (beside > reach_ + 1)")
mutant("reread-failed-tree-stays", REREAD, REREAD_TEST, "[&] { tree_.forget_from(before); }", "[] {}")
mutant("reach-of-target-ignored", "loop/step_base.hpp", REREAD_TEST, "std::min(room(), target_.rollback)", "room()")
mutant("reach-of-drafter-ignored", "draft/model_drafter.hpp", REREAD_TEST, "std::ssize(request.context), reach(model_.model()));", "std::ssize(request.context), unlimited);")
mutant("reach-not-told-by-copies", "model/model_per_sequence.hpp", REREAD_TEST, "Index reach() const { return specdec::reach(prototype_); }", "Index reach() const { return unlimited; }")
mutant("check-model-believes-a-reach", "testing/check_model.hpp", REREAD_TEST, "length = sequence.longest - reach_;", "length = 0;")

REPLAYED, REPLAYED_TEST = "model/replayed.hpp", "tests/model/replayed"

mutant = promise("a model that cannot be cut back goes on after what was kept, and is fed little twice")
mutant("replayed-keep-drafting-from-rejected", REPLAYED, REPLAYED_TEST, "if (text->cached > length) text->cached = unknown;", "")
mutant("replayed-empty-by-trust", REPLAYED, REPLAYED_TEST, "Index cached = unknown;", "Index cached = 0;")
mutant("replayed-state-of-rejected-kept", REPLAYED, REPLAYED_TEST, "text->states.forget_beyond(length);", "")
mutant("replayed-failed-tokens-stay", REPLAYED, REPLAYED_TEST,
       "for (const BatchFeed& feed : feeds) keep_length(feed.sequence, feed.from);", "")
mutant("replayed-state-of-failure-trusted", REPLAYED, REPLAYED_TEST, "for (const BatchFeed& feed : call_) texts_.at(feed.sequence).cached = unknown;", "")
mutant("replayed-prompt-with-draft", REPLAYED, REPLAYED_TEST, "if (begin_call_ahead(feeds)) run();", "")
mutant("replayed-nothing-carried", REPLAYED, REPLAYED_TEST, "unwanted > options_.carried) add", "unwanted > 0) add")
mutant("replayed-never-kept", REPLAYED, REPLAYED_TEST, "text.states.keep(text.cached, saving(feed.sequence));", "(void)text;")
mutant("replayed-prompt-in-two", REPLAYED, REPLAYED_TEST, "if (feed.rows > 0 && unwanted", "if (unwanted")
mutant("replayed-state-of-another", REPLAYED, REPLAYED_TEST, "this->inner().model().save(sequence, snapshot);", "this->inner().model().save(0 * sequence, snapshot);")
mutant("replayed-back-to-another", REPLAYED, REPLAYED_TEST, "this->inner().model().restore(sequence, snapshot);", "this->inner().model().restore(0 * sequence, snapshot);")
mutant("replayed-released-in-part", REPLAYED, REPLAYED_TEST, "    this->inner().release(sequence);\n", "")
mutant("replayed-text-remembers-released", REPLAYED, REPLAYED_TEST, "    texts_.erase(sequence);\n", "")
mutant("replayed-begins-late", REPLAYED, REPLAYED_TEST, "if constexpr (!for_many) text_of(0);", "")
mutant("snapshots-latest-dropped", "model/kept_states.hpp", REPLAYED_TEST, "= (most_ + 1) / 2 - 1;", "= 0;")
mutant("snapshots-oldest-dropped", "model/kept_states.hpp", REPLAYED_TEST, "if (longer_by(i) < longer_by(least)) least = i;",
       "if (longer_by(i) < 0) least = i;")
mutant("snapshots-last-overwritten", "model/kept_states.hpp", REPLAYED_TEST,
       "std::rotate(dropped, dropped + 1, marks_.begin() + static_cast<std::ptrdiff_t>(used_));", "static_cast<void>(dropped);")
mutant("snapshots-kept-twice", "model/kept_states.hpp", REPLAYED_TEST, "if (marks_[used_ - 1].length == length) return;", "")

WINDOWED, WINDOWED_TEST = "model/windowed.hpp", "tests/model/windowed"

mutant = promise("what a windowed model is shown depends on the context alone, and is fed but once")
mutant("window-slides-a-token-late", WINDOWED, WINDOWED_TEST, "length - first_ - last_;", "length - first_ - last_ - 1;")
mutant("window-further-than-needed", WINDOWED, WINDOWED_TEST, "(beyond + stride_ - 1) / stride_", "(beyond + stride_) / stride_")
mutant("window-slides-as-it-goes", WINDOWED, WINDOWED_TEST, "(beyond + stride_ - 1) / stride_ * stride_", "beyond")
mutant("window-one-for-all-rows", WINDOWED, WINDOWED_TEST, "end = std::min(std::ssize(text.tokens), text.begin + last_), rows",
       "end = std::ssize(text.tokens), rows")
mutant("window-over-the-old-one", WINDOWED, WINDOWED_TEST, "    this->inner().keep(sequence, first_);\n", "")
mutant("window-forgets-the-beginning", WINDOWED, WINDOWED_TEST, "i < first_ ? i : i - first_ + text.begin", "i - first_ + text.begin")
mutant("window-fed-anew-each-time", WINDOWED, WINDOWED_TEST, "if (begin == text.begin) return;", "")
mutant("window-of-what-is-gone", WINDOWED, WINDOWED_TEST, "std::max(first_, shown(length, text->begin))", "text->cached")
mutant("window-model-left-behind", WINDOWED, WINDOWED_TEST, "    this->inner().keep(sequence, text->cached);\n", "")
mutant("window-failed-tokens-stay", WINDOWED, WINDOWED_TEST, "for (const BatchFeed& feed : feeds) keep_length(feed.sequence, feed.from);", "")
mutant("window-larger-than-the-context", WINDOWED, WINDOWED_TEST, "last > most || first > most - last", "last > most")
mutant("gathered-rows-overwritten", "model/gathered_rows.hpp", WINDOWED_TEST, "copy_to(rows_.row(place).data())", "copy_to(rows_.row(0 * place).data())")
mutant("gathered-rows-by-call", "model/gathered_rows.hpp", "tests/model/gathered_rows", "places_[static_cast<std::size_t>(place)] = rows_.size();",
       "places_[static_cast<std::size_t>(rows_.size() + 0 * place)] = rows_.size();")
mutant("gathered-prompt-without-rows-refused", "model/model.hpp", WINDOWED_TEST, "(asked > 0 && size != vocab_size)", "size != vocab_size")
mutant("window-over-what-others-left", WINDOWED, WINDOWED_TEST, "return this->inner().keep(sequence, Index{0});", "return;")
mutant("window-prompt-left-for-later", WINDOWED, WINDOWED_TEST, "feed.tokens.empty() ? 0 : 1", "0")
mutant("window-rows-for-a-prompt", WINDOWED, WINDOWED_TEST, ".rows = feed.rows == 0 ? 0 : rows", ".rows = rows")
mutant("window-released-in-part", WINDOWED, WINDOWED_TEST, "    this->inner().release(sequence);\n", "")
mutant("window-text-remembers-released", WINDOWED, WINDOWED_TEST, "    texts_.erase(sequence);\n", "")
mutant("window-one-text-after-another", WINDOWED, WINDOWED_TEST, "      place += feed.rows;\n", "")
mutant("gathered-shape-unchecked", "model/model.hpp", WINDOWED_TEST, "if (rows != asked || ", "if (rows > asked || ")

COMMON, SPELLED, COMMON_ROW, COMMON_TEST = "model/common_tokens.hpp", "model/spelled_text.hpp", "rows/kinds/common_tokens_row.hpp", "tests/model/common_tokens"

mutant = promise("a model of another vocabulary has rows of the tokens that both have, after the text in its own")
mutant("common-reports-all-that-was-left", "rows/kinds/part_of_row.hpp", COMMON_TEST, "mass_ > 0 ? p / mass_ : p", "p")
mutant("common-draws-from-nothing", COMMON_ROW, COMMON_TEST, "if (!(common.mass() > 0)) return no_common_tokens<R>(map, otherwise);", "")
mutant("common-without-mass-another-token", COMMON_ROW, COMMON_TEST, "OneHotRow(otherwise)", "OneHotRow(otherwise + 1)")
mutant("common-copy-of-no-mass", COMMON_ROW, COMMON_TEST, "return row.of_copy(Either(std::in_place_index<1>, std::get<1>(held)));", "throw std::bad_variant_access();")
mutant("common-map-unchecked", COMMON, COMMON_TEST, "if (map.draft_vocab_size() != vocab_size)", "if (false)")
mutant("common-rows-of-the-first-text", COMMON, COMMON_TEST, "this->context_size(), rows_, places_", "this->context_size(), 0 * rows_, places_")
mutant("common-failed-tokens-stay", COMMON, COMMON_TEST, "for (const BatchFeed& feed : feeds) keep_length(feed.sequence, feed.from);", "")
mutant("common-shape-unchecked", COMMON, COMMON_TEST, "detail::row_size(rows), rows_, map_.draft_vocab_size());", "0, rows.rows(), 0);")
mutant("common-reads-ids-unmapped", SPELLED, COMMON_TEST, "tokens_.push_back(d);", "tokens_.push_back(static_cast<Token>(x + 0 * d));")
mutant("common-reads-beyond-the-map", SPELLED, COMMON_TEST, "if (i >= ends_.size()) return {&unknown, 1};", "")
mutant("common-spelling-unchecked", SPELLED, COMMON_TEST, "(tokens_).subspan(before), map", "(tokens_).first(0), map")
mutant("common-token-shown-as-nothing", SPELLED, COMMON_TEST, "if (tokens_.size() == before) tokens_.push_back(unknown);", "")
mutant("common-text-not-cut", SPELLED, COMMON_TEST, "shown_.resize(ends_.empty() ? 0 : at(ends_.back()));", "")
mutant("common-line-fed-twice", SPELLED, COMMON_TEST, "    cached_ += std::ssize(nodes_);\n", "")
mutant("common-line-left-open", COMMON, COMMON_TEST, "if (feed.parents.empty()) texts_", "if (false) texts_")
mutant("common-past-the-room", SPELLED, COMMON_TEST, "cached_ + std::ssize(nodes_) + std::ssize(chain) > room", "false")
mutant("common-tree-without-the-rest-of-the-text", SPELLED, COMMON_TEST, "if (lasts_.empty()) root_ = add_chain(view_of(shown_).subspan(at(cached_)), context, room);", "")
mutant("common-row-of-another-node", SPELLED, COMMON_TEST, "first + node - first_node", "first + node - std::ssize(nodes_) + std::ssize(wanted)")
mutant("common-path-by-its-own-numbers", SPELLED, COMMON_TEST, "end = lasts_[at(node)];", "end = node;")
mutant("common-path-backwards", SPELLED, COMMON_TEST, "std::reverse(path_.begin(), path_.end());", "")
mutant("common-row-unnamed", "draft/strategies/line.hpp", COMMON_TEST, 'detail::in_row("draft", i, [&] { return output.row(0); })', "output.row(0)")
mutant("common-row-beside-spares-unnamed", "draft/strategies/spares.hpp", COMMON_TEST, 'detail::in_row("draft", std::ssize(tokens_), [&] { return output.row(0); })', "output.row(0)")

MATCH, MATCH_TEST = "text/match_tokens.hpp", "tests/text/match_tokens"

mutant = promise("tokens of two vocabularies are matched by their bytes, one to one")
mutant("nothing-matched-with-nothing", MATCH, MATCH_TEST, "    if (piece.empty()) continue;\n", "")
mutant("tokens-matched-twice", MATCH, MATCH_TEST, "    slot = taken;  // a later draft token of equal bytes finds nothing\n", "")

HEAD, HEAD_TEST = "model/head_model.hpp", "tests/model/head_model"

mutant = promise("a head's rows follow from the target's hidden state and the tokens after it")
mutant("head-never-begins-again", HEAD, HEAD_TEST, "length > most || (text.known", "length > most || (true || text.known")
mutant("head-begins-after-wanted", HEAD, HEAD_TEST, "length < text.length || length > most || ", "length < text.length || ")
mutant("head-begins-before-the-context", HEAD, HEAD_TEST, "if (length < text.length || length > most", "if (length > most")
mutant("head-known-though-it-never-began", HEAD, HEAD_TEST, "    if (length > 0) head_.begin(target_.last(sequence), text.states.col(0));\n    text.known = true;",
       "    text.known = true;\n    if (length > 0) head_.begin(target_.last(sequence), text.states.col(0));")
mutant("head-hidden-of-nothing", HEAD, HEAD_TEST, "if (length > 0) head_.begin(", "head_.begin(")
mutant("head-wanted-of-the-line", HEAD, HEAD_TEST, "begin_again(text, sequence, end - task.rows);", "begin_again(text, sequence, end - 1);")
mutant("head-fed-what-the-target-has", HEAD, HEAD_TEST, "begin_again(text, sequence, end - task.rows);", "begin_again(text, sequence, text.length);")
mutant("head-tree-from-an-old-state", HEAD, HEAD_TEST, "      if (text.nodes.empty()) begin_again(text, sequence, text.length);\n", "")
mutant("head-begins-again-in-a-tree", HEAD, HEAD_TEST, "if (text.nodes.empty()) begin_again(text, sequence, text.length);", "begin_again(text, sequence, text.length);")
mutant("head-state-outlives-a-rollback", HEAD, HEAD_TEST, "      known = false;\n      states.col(0).setZero();", "      states.col(0).setZero();")
mutant("head-unknown-state-of-another-text", HEAD, HEAD_TEST, "      known = false;\n      states.col(0).setZero();", "      known = false;")
mutant("head-rollback-keeps-the-beginning", HEAD, HEAD_TEST, "if (length < text->begun) text->begin_unknown", "if (length < 0) text->begin_unknown")
mutant("head-rollback-leaves-the-tree", HEAD, HEAD_TEST, "    text->nodes.clear();\n    if (length >= text->length) return;", "    if (length >= text->length) return;\n    text->nodes.clear();")
mutant("head-kept-states-stay", HEAD, HEAD_TEST, "text->states.col(root + path[i]);", "text->states.col(root + static_cast<Index>(i));")
mutant("head-kept-tokens-uncounted", HEAD, HEAD_TEST, "    text->length += std::ssize(path);\n", "")
mutant("head-failed-line-stays", HEAD, HEAD_TEST, "        if (task.text->length != task.before) task.text->begin_unknown(task.before);\n", "        (void)task;\n")
mutant("head-children-with-their-parents", HEAD, HEAD_TEST, "< task.first() + task.next) ++task.ready;", "< task.first() + task.ready) ++task.ready;")
mutant("head-one-by-one", HEAD, HEAD_TEST, "while (task.ready < task.size() &&", "while (task.ready == task.next && task.ready < task.size() &&")
mutant("head-rows-unwanted", HEAD, HEAD_TEST, "return i >= size() - rows;", "return i >= size() - rows || i == 0;")
mutant("head-shape-unchecked", HEAD, HEAD_TEST, '    detail::check_shape("head", logits.rows(), logits.cols(), wanted, head_.vocab_size());\n', "")
mutant("head-texts-share-a-state", HEAD, HEAD_TEST, "texts_.make(feed.sequence, head_.state_size());", "texts_.make(0, head_.state_size());")
mutant("head-rows-of-another-text", HEAD, HEAD_TEST, "task.first_row + i -", "i -")
mutant("head-states-in-another-order", HEAD, HEAD_TEST, "    for (const bool wanted : {false, true})\n      for (const Task& task : tasks_)", "    for (const bool wanted : {true, false})\n      for (const Task& task : tasks_)")
mutant("head-hidden-of-another-text", HEAD, HEAD_TEST, "target_.last(sequence)", "target_.last(sequence - sequence % 14)")
mutant("head-released-text-stays", HEAD, HEAD_TEST, "texts_.erase(sequence);", "(void)sequence;")
mutant("head-steady", HEAD, HEAD_TEST, "steady_rows = false;", "steady_rows = true;")
mutant("head-steady-in-a-wrapper", "model/feeds.hpp", HEAD_TEST, "steady_rows = has_steady_rows<std::remove_reference_t<M>>;", "steady_rows = true;")
mutant("head-steady-in-a-drafter", "draft/model_drafter.hpp", HEAD_TEST, "is_steady<Strategy> && has_steady_rows<Value>;", "is_steady<Strategy>;")
mutant("head-steady-in-a-cascade", "loop/cascade_drafter.hpp", HEAD_TEST, "steady = has_steady_rows<std::remove_reference_t<M>>;", "steady = true;")
mutant("head-rows-while-a-tree-is-open", HEAD, HEAD_TEST, "std::ssize(text->nodes));\n    detail::check_tokens", "0);\n    detail::check_tokens")

EAGLE, LAYER, EAGLE_TEST = "model/eagle_model.hpp", "model/draft_layer.hpp", "tests/model/eagle_model"

mutant = promise("each token goes into a drafting layer with the state after the token before it, the target's if there is one")
mutant("eagle-state-of-the-token-itself", EAGLE, EAGLE_TEST, "target_.at(task.sequence, token - 1)", "target_.at(task.sequence, token)")
mutant("eagle-first-token-with-a-state", EAGLE, EAGLE_TEST, "if (token == 0) state.setZero();", "if (token == 0) state.setOnes();")
mutant("eagle-never-fed-again", EAGLE, EAGLE_TEST, "    task.of_target = text.exact < end;", "    task.of_target = text.exact < end && text.fed <= text.exact;")
mutant("eagle-last-state-of-the-target-unused", EAGLE, EAGLE_TEST, "target_.length(task.sequence) + 1)", "target_.length(task.sequence))")
mutant("eagle-fed-twice", EAGLE, EAGLE_TEST, "      cut(text, task.sequence, text.exact);\n", "")
mutant("eagle-own-state-of-the-first", EAGLE, EAGLE_TEST, "states.rightCols(1)", "states.leftCols(1)")
mutant("eagle-own-states-unused", EAGLE, EAGLE_TEST, "own.col(task.text->after(task.text->before(token)));", "own.col(0);")
mutant("eagle-branches-from-the-context", EAGLE, EAGLE_TEST, "length() + parents[static_cast<std::size_t>(node)];", "length() - 1;")
mutant("eagle-children-with-their-parents", EAGLE, EAGLE_TEST, "text.before(last) < text.fed)", "text.before(last) < last)")
mutant("eagle-one-by-one", EAGLE, EAGLE_TEST, "while (last < text.size() &&", "while (last == text.fed && last < text.size() &&")
mutant("eagle-rows-over-each-other", EAGLE, EAGLE_TEST, "      parts_[k]->row += rows.rows();\n", "")
mutant("eagle-shape-unchecked", LAYER, EAGLE_TEST, '        check_shape("layer", logits.rows(), logits.cols(), feeds[k].rows, layer_.vocab_size());\n', "")
mutant("eagle-shape-of-many-texts-unchecked", LAYER, EAGLE_TEST, '      check_shape("layer", logits.rows(), logits.cols(), rows_of(feeds), layer_.vocab_size());\n', "")
mutant("eagle-states-of-the-first-text", LAYER, EAGLE_TEST, "        column += count;\n", "")
mutant("eagle-rows-of-the-first-text", LAYER, EAGLE_TEST, "row += feeds[k++].rows)", "++k)")
mutant("eagle-one-layer-for-many-texts", LAYER, EAGLE_TEST, "if constexpr (copied) return copies_.make(sequence, layer_);", "if constexpr (false) return copies_.make(sequence, layer_);")
mutant("eagle-released-layer-stays", LAYER, EAGLE_TEST, "if constexpr (together) layer_.release(sequence);", "if constexpr (together) return;")
mutant("eagle-released-copy-stays", LAYER, EAGLE_TEST, "else if constexpr (copied) copies_.erase(sequence);", "")
mutant("eagle-layer-for-many-not-emptied", LAYER, EAGLE_TEST, "    else if constexpr (!many) layer_.keep(0, 0);\n", "")
mutant("eagle-only-the-failed-call-taken-back", EAGLE, EAGLE_TEST, "      for (const BatchFeed& feed : feeds.first(entered)) take_back(feed);", """      for (const BatchFeed& feed : feeds.first(entered))
        for (const Task* part : parts_)
          if (part->sequence == feed.sequence) take_back(feed);""")
mutant("eagle-path-of-no-tree", EAGLE, EAGLE_TEST, "    if (text->parents.empty()) return;\n", "")
mutant("eagle-one-text-of-a-call", EAGLE, EAGLE_TEST, "      if (const Index count = std::min(next_tokens(task), left); count > 0) {", "      if (const Index count = std::min(next_tokens(task), left); count > 0 && parts_.empty()) {")
mutant("eagle-columns-over-each-other", EAGLE, EAGLE_TEST, "      column += std::ssize(feeds_[k].tokens);\n", "")
mutant("eagle-all-rows-in-the-first-row", EAGLE, EAGLE_TEST, "      row += feed.rows;\n", "")
mutant("eagle-states-of-nodes-in-the-first-column", EAGLE, EAGLE_TEST, "text.own.middleCols(text.after(text.fed), states.cols()) = states;", "text.own.middleCols(0, states.cols()) = states;")
mutant("eagle-parents-without-their-tokens", EAGLE, "tests/law_allocation", "    detail::undo_on_error(add, [&] { text.parents.resize(text.parents.size() - feed.parents.size()); });\n", "    add();\n")
mutant("eagle-failed-tokens-stay", EAGLE, EAGLE_TEST, "    text.tokens.resize(text.tokens.size() - feed.tokens.size());\n", "")
mutant("eagle-failed-tokens-stay-in-the-layer", EAGLE, EAGLE_TEST, "    cut(text, feed.sequence, text.length());\n", "")
mutant("eagle-other-texts-stay-after-a-failure", EAGLE, EAGLE_TEST, "feeds.first(entered)", "feeds.first(entered - 1)")
mutant("eagle-last-token-kept-without-a-state", EAGLE, EAGLE_TEST, "length = text.exact = std::max<Index>(length - 1, 0);", "text.exact = length;")
mutant("eagle-unknown-state-of-another-text", EAGLE, EAGLE_TEST, "      text.own.col(0).setZero();\n", "")
mutant("eagle-rollback-leaves-the-layer", EAGLE, EAGLE_TEST, "    text->parents.clear();\n    cut(*text, sequence, length);\n", "    text->parents.clear();\n")
mutant("eagle-kept-states-stay", EAGLE, EAGLE_TEST, "      text->own.col(text->after(length + i)) = text->own.col(text->after(from));\n", "")
mutant("eagle-kept-tokens-uncounted", EAGLE, EAGLE_TEST, "      text->fed = length + kept;\n", "")
mutant("eagle-kept-of-what-the-layer-has-not", EAGLE, EAGLE_TEST, "if (text->fed == text->size()) {", "if (true) {")
mutant("eagle-hidden-of-another-text", EAGLE, EAGLE_TEST, "target_.at(task.sequence, token - 1)", "target_.at(task.sequence - task.sequence % 14, token - 1)")
mutant("eagle-released-text-stays", EAGLE, EAGLE_TEST, "texts_.erase(sequence);", "(void)sequence;")
mutant("eagle-piece-as-long-as-the-prompt", EAGLE, EAGLE_TEST, "std::max<Index>(256, 16 * std::ssize(tasks_))", "100000")
mutant("eagle-pieces-from-the-first", EAGLE, EAGLE_TEST, "task.text->fed + i, from_.col(first + i)", "i, from_.col(first + i)")
mutant("eagle-beyond-the-layer's-context", EAGLE, EAGLE_TEST, "std::min(specdec::context_size(target_.target()), specdec::context_size(layer()))", "specdec::context_size(target_.target())")
mutant("eagle-fresh-text-keeps-any-path", EAGLE, EAGLE_TEST, "    if constexpr (!for_many) texts_.make(0, state_size());\n", "")
mutant("eagle-layer-not-emptied", LAYER, EAGLE_TEST, "    if constexpr (!together) layer_.truncate(0);\n", "    if constexpr (!together) (void)0;\n")
mutant("eagle-copied-layer-not-emptied", LAYER, EAGLE_TEST, "    if constexpr (!together) layer_.truncate(0);\n", "    if constexpr (!together && !copied) layer_.truncate(0);\n")
mutant("eagle-steady", EAGLE, EAGLE_TEST, "steady_rows = false;", "steady_rows = true;")
HIDDEN, BOTH_TESTS = "model/hidden_states.hpp", "tests/model/head_model tests/model/eagle_model"
mutant("drafted-after-a-prompt-that-is-not-known", HIDDEN, BOTH_TESTS, "context - length(sequence) <= most_lacking", "true")
mutant("never-drafted-before-the-target", HIDDEN, BOTH_TESTS, "context - length(sequence) <= most_lacking", "length(sequence) > 0")
mutant("drafting-asked-of-nobody", "draft/model_drafter.hpp", BOTH_TESTS, "if (!detail::can_draft_after(model_.model(), request.sequence, std::ssize(request.context)))", "if (false)")
mutant("drafting-asked-of-the-wrapper", "model/feeds.hpp", BOTH_TESTS, "    return can_draft_after(inner_.model(), sequence, length);", "    return true;")
mutant("eagle-rows-while-a-tree-is-open", EAGLE, EAGLE_TEST, "std::ssize(text->parents));\n    detail::check_tokens", "0);\n    detail::check_tokens")

mutant = promise("a head that drafts some of the tokens says which, and takes in all of them")
PART_HPP = "model/draft_vocabulary.hpp"
PART = "tests/model/head_model tests/model/eagle_model"
mutant("part-with-other-tokens", PART_HPP, PART, "rows.setConstant(-std::numeric_limits<typename Logits::Scalar>::infinity());", "rows.setZero();")
mutant("part-in-the-order-of-its-columns", PART_HPP, PART, "rows(i, x) = logits(i, d)", "rows(i, d) = logits(i, d)")
mutant("part-of-another-size", PART_HPP, PART, "map != nullptr && map->draft_vocab_size() != head.vocab_size()", "map != nullptr && false")
mutant("part-taken-for-all", PART_HPP, PART, "map == nullptr ? head.vocab_size() : map->vocab_size()", "map == nullptr ? head.vocab_size() : map->draft_vocab_size()")
