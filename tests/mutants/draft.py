# SPDX-License-Identifier: MIT
"""Mutants of drafters, strategies and draft lengths."""

from mutants import promise

mutant = promise("whether a draft goes on may not depend on a token after it was drawn")
mutant("confidence-after-the-draw", "draft/strategies/line.hpp", "tests/draft/length/draft_length tests/law_draft_length",
       "      rows_.add(name);\n",
       "      if (q.probability(tokens_.back()) < 0.4) return tokens_.pop_back(), end();\n"
       "      rows_.add(name);\n")

mutant = promise("a draft ends after a stop token, but not under a rule that needs its length")
mutant("draft-of-a-rule-that-remembers-ends", "loop/text.hpp", "tests/law_stop_tokens",
       "  if (limits.fixed) return limits;\n", "")
mutant("stop-token-before-min-new-tokens-ends-a-draft", "draft/draft.hpp", "tests/law_stop_tokens",
       "if (before < stops_from) return false;", "")

mutant = promise("a tree reports the very rows that its tokens were drawn from, given their elder siblings")
mutant("sibling-with-its-elders", "draft/strategies/siblings.hpp", "tests/draft/strategies/siblings tests/draft/strategies/tree",
       "chance.draw(detail::NamedRow(rest, ", "chance.draw(detail::NamedRow(q, ")
mutant("siblings-report-the-whole-row", "draft/strategies/siblings.hpp", "tests/draft/strategies/siblings tests/draft/strategies/tree",
       "      rows.push_back(rest);", "      rows.push_back({q, {siblings.first(0)}});")

mutant("drawn-sibling-not-from-the-rest", "draft/strategies/siblings.hpp", "tests/draft/strategies/siblings tests/law_siblings",
       "chance.draw(detail::NamedRow(tail, \"draft\", first), place)", "chance.draw(name, place)")
mutant("drawn-sibling-reports-the-whole-row", "draft/strategies/siblings.hpp", "tests/draft/strategies/siblings tests/law_siblings",
       "tail.with({detail::after(tree.tokens(), eldest)})", "PartOfRow<Q, WithoutTokens>(q, {})")

mutant = promise("a spare reports that it was chosen, not drawn")
mutant("spare-reports-a-drawn-row", "draft/strategies/spares.hpp", "tests/draft/strategies/spares",
       "Row(std::in_place_index<1>, OneHotRow(likely.token))", "Row(std::in_place_index<0>, after_[after_.size() - 1])")

mutant = promise("a confident tree is that of the largest products of probabilities")
mutant("confident-of-the-last-token-alone", "more/drafters/confident_tree.hpp", "tests/more/drafters/confident_tree",
       "{token, leaf, confidence * acceptance, probability, -1}",
       "{token, leaf, acceptance + 0 * confidence, probability, -1}")

mutant = promise("a draft model keeps what the context goes on with of its draft, and nothing else")
mutant("tree-of-another-token-kept", "token_tree.hpp", "tests/draft/strategies/tree",
       "this->token(child) != token", "token < 0")

mutant = promise("prompt lookup proposes what followed the latest earlier occurrence")
mutant("lookup-first-occurrence", "more/drafters/prompt_lookup.hpp", "tests/more/drafters/prompt_lookup",
       "ends_.latest(context, indexed_, n) = indexed_;",
       "if (Index& end = ends_.latest(context, indexed_, n); end == 0) end = indexed_;")
mutant("lookup-by-hash-alone", "more/drafters/prompt_lookup.hpp", "tests/more/drafters/prompt_lookup",
       "if (found == 0 || std::equal(key.begin(), key.end(), ngram(text, found, n).begin())) return found;", "return found;")

mutant = promise("the suffix drafter goes on from the longest match, with exact counts")
mutant("suffix-clone-without-counts", "more/drafters/learnt_suffixes.hpp", "tests/more/drafters/suffix_drafter",
       "add_edge(clone, edge(i).token, edge(i).to, edge(i).count)", "add_edge(clone, edge(i).token, edge(i).to, 0)")

mutant = promise("a tree of counts has the nodes of the largest probability by them")
mutant("counted-shorter-match-as-sure", "more/drafters/counted_tree.hpp", "tests/more/drafters/counted_tree",
       "left *= read(", "read(")

mutant = promise("retrieval proposes what followed the longest match in its documents")
mutant("store-match-beyond-the-order", "more/drafters/datastore.hpp", "tests/more/drafters/datastore",
       "sorted_depth - 1}", "sorted_depth}")
mutant("retrieval-longest-match-alone", "more/drafters/datastore_drafter.hpp", "tests/more/drafters/datastore_drafter",
       "for (Index m = longest(place).length; m >= options_.min_match; --m)",
       "for (Index m = longest(place).length; m >= std::max(options_.min_match, longest(place).length); --m)")

mutant = promise("a draft model of other tokens reads the committed text, and is shown a token that it knows")
mutant("retokenized-without-window", "more/text/text_tokenizer.hpp", "tests/more/drafters/retokenized_drafter",
       "(ends_[kept - 1] + window > unchanged ||", "(ends_[kept - 1] > unchanged ||")
mutant("unknown-tokens-are-the-last", "model/call.hpp", "tests/draft/model_drafter tests/more/drafters/confident_tree",
       "x < vocab_size ? x : 0", "x < vocab_size ? x : static_cast<Token>(vocab_size - 1)")

mutant = promise("what a token's probability says of its acceptance is learnt in odds")
mutant("rated-mean-in-place-of-odds", "more/lengths/by_probability.hpp", "tests/more/lengths/tree_growth",
       "p * factor / (1 - p + p * factor)", "p * factor")

mutant = promise("a copy of a drafter begins without the context of the drafter that it is copied from")
mutant("copy-begins-in-another-context", "draft/lifted_drafter.hpp", "tests/draft/lifted_drafter",
       ".first->second.drafter.truncate(0);", ";")
mutant("copies-of-members-share-a-model", "draft/member_drafters.hpp", "tests/draft/lifted_drafter",
       "std::apply([](const auto&... member) { (detail::check_copies(member), ...); }, members);", "")

mutant = promise("of a tree the eldest child comes first")
mutant("youngest-child-first", "parents.hpp", "tests/token_tree tests/verify/drafted_tree",
       "for (Index k = size - 1; k >= 0; --k)", "for (Index k = 0; k < size; ++k)")

mutant = promise("a draft in advance is used once, where the text goes on so, and its numbers decide nothing else")
mutant("ahead-numbers-used-again", "more/drafters/ahead_drafter.hpp", "tests/more/drafters/ahead_drafter",
       "text.seed << 30 | static_cast<std::uint64_t>(chance.draw(thirty_bits))",
       "0 * static_cast<std::uint64_t>(chance.draw(thirty_bits))")
mutant("ahead-draft-used-again", "more/drafters/ahead_drafter.hpp", "tests/more/drafters/ahead_drafter",
       "slot.ahead && length >= text.size;", "slot.ahead && length >= 0;")
mutant("ahead-draft-after-another-text", "more/drafters/ahead_drafter.hpp", "tests/more/drafters/ahead_drafter",
       "common < std::ssize(slot.context) ? common : unlimited", "unlimited")
mutant("ahead-draft-longer-than-asked", "more/drafters/ahead_drafter.hpp", "tests/more/drafters/ahead_drafter",
       ": length <= limits.length();", ": true;")
mutant("ahead-tree-larger-than-asked", "more/drafters/ahead_drafter.hpp", "tests/more/drafters/ahead_drafter",
       "slot.limits.nodes <= limits.nodes", "slot.limits.nodes >= 0")
mutant("ahead-draft-for-another-outcome", "more/drafters/ahead_drafter.hpp", "tests/more/drafters/ahead_drafter",
       "std::ranges::equal(slot.context, request.context)", "std::ssize(slot.context) == text.size")

mutant = promise("of a stored text what is left is proposed, with its rows, as long as the text has gone so")
mutant("stored-text-goes-on-after-another-token", "more/drafters/stored_text.hpp", "tests/more/drafters/stored_text",
       "std::ranges::equal(written,", "true || std::ranges::equal(written,")
mutant("stored-text-proposes-what-was-judged", "more/drafters/stored_text.hpp", "tests/more/drafters/stored_text",
       "judged_ = proposed_;", "judged_ = 0 * proposed_;")
mutant("stored-text-with-rows-from-its-start", "more/drafters/stored_text.hpp", "tests/more/drafters/stored_text",
       "RowRange<Rows>(view(), from, count)", "RowRange<Rows>(view(), 0, count)")
mutant("fetched-row-of-another-place", "more/rows/fetched.hpp", "tests/more/rows/fetched",
       "fetch_(place_)", "fetch_(0)")
mutant("fetched-row-is-not-kept", "more/rows/fetched.hpp", "tests/more/rows/fetched",
       "if (!row_) row_.emplace", "row_.emplace")

mutant = promise("a monitor of acceptance is wrong no more often than it says, and a length rests when it tells")
mutant("monitor-bets-on-a-rise", "more/lengths/acceptance_monitor.hpp", "tests/more/lengths/watched_length",
       "least_ - share", "share - least_")
mutant("monitor-doubles-its-stakes", "more/lengths/acceptance_monitor.hpp", "tests/more/lengths/watched_length",
       "(stakes_[k] + 1)", "(stakes_[k] + 2)")
mutant("watched-length-drafts-on", "more/lengths/watched_length.hpp", "tests/more/lengths/watched_length",
       "rests() ? 0 : length", "length")
mutant("watched-length-rests-ever-longer", "more/lengths/watched_length.hpp", "tests/more/lengths/watched_length",
       "drafting_ > first_rest_ ? first_rest_ :", "rest_ == 0 ? first_rest_ :")

mutant = promise("the guesses of several drafters are one tree, in which equal beginnings stand once")
mutant("merged-token-under-another-parent", "more/drafters/merged_drafter.hpp", "tests/more/drafters/merged_drafter",
       "text.tree.append(draft.token(k), parent)", "text.tree.append(draft.token(k), -1)")
mutant("merged-member-asked-for-all", "more/drafters/merged_drafter.hpp", "tests/more/drafters/merged_drafter",
       "limits.nodes = share(request.limits.nodes)", "limits.nodes = request.limits.nodes")
mutant("merged-failed-request-asked-again", "more/drafters/merged_drafter.hpp", "tests/more/drafters/merged_drafter",
       "return !request.error; }", "return true; }")
