"""Mutants of the rules, and the checks of what they are given."""

from mutants import promise

mutant = promise("bad input is named, never guessed around")
mutant("undrawn-token-accepted", "verify/drafted.hpp", "tests/verify/drafted",
       "for (Index i = 0; needs_draft && i < gamma(); ++i)", "for (Index i = 0; false && i < gamma(); ++i)")
mutant("undrawn-token-looked-over", "verify/drafted.hpp", "tests/verify/drafted", "if (q_now ? !drawn(rows_.q[i]) :", "if (q_now ? false :")
mutant("impossible-token-looked-over", "verify/drafted.hpp", "tests/verify/drafted",
       ": !draft(i).possible(token_at(i)))", ": false)")
mutant("honest-q-asked-of-all", "verify/verifier.hpp", "tests/verify/drafted tests/verify/verifier",
       "needs_draft<R> ? DraftRows::needed : DraftRows::unused", "DraftRows::needed")
mutant("index-after-the-draft", "verify/drafted.hpp", "tests/verify/drafted",
       "if (i < 0 || i >= end)", "if (i < 0 || i > end)")
mutant("index-before-the-draft", "verify/drafted.hpp", "tests/verify/drafted",
       "if (i < 0 || i >= end)", "if (i >= end)")
mutant("verdict-on-too-many", "verify/verifier.hpp", "tests/verify/drafted tests/loop/sequence",
       "verdict.accepted < 0 || verdict.accepted > drafted.gamma()", "verdict.accepted < 0")
mutant("verdict-of-no-token", "verify/verifier.hpp", "tests/verify/drafted tests/loop/sequence",
       "if (token < 0 || token >= vocab_size)",
       "if (token < 0)")
mutant("accepted-ids-unchecked", "verify/verifier.hpp", "tests/loop/sequence",
       "  for (Index i = 0; i < verdict.accepted; ++i) check_accepted(i, drafted.token(i), vocab_size);\n",
       "")
mutant("token-id-one-too-far", "token_ids.hpp", "tests/verify/drafted",
       "tokens[i] >= vocab_size)", "tokens[i] > vocab_size)")
mutant("negative-id", "token_ids.hpp", "tests/verify/drafted",
       "tokens[i] < 0 || ", "")
mutant("token-ids-unchecked", "verify/drafted.hpp", "tests/verify/drafted", "detail::check_tokens(\"tokens\", rows_.tokens, known_ids());", "")
mutant("target-row-missing", "verify/drafted.hpp", "tests/verify/drafted",
       "if (targets == wanted_rows()) return;", "if (targets <= wanted_rows()) return;")
mutant("tokens-before-rows-are-compared", "verify/drafted.hpp", "tests/verify/drafted", "gamma = tokens.size(); rows != gamma)", "gamma = tokens.size(); rows > gamma)")
mutant("vocabularies-differ", "verify/drafted.hpp", "tests/verify/drafted",
       "return std::max<Index>(vocab_size(), rows_.draft.matrix().vocab_size());",
       "return vocab_size();")
mutant("nan-probability", "rows/named_row.hpp", "tests/verify/drafted",
       "if (!is_probability(value))", "if (value < 0)")
mutant("negative-probability", "rows/named_row.hpp", "tests/verify/drafted",
       "return value >= 0 && value <=", "return value <=")
mutant("probability-above-one", "rows/named_row.hpp", "tests/verify/drafted", "value <= 1 + 0x1p-8", "value <= 4")
mutant("weight-overflow", "verify/drafted.hpp", "tests/verify/drafted tests/verify/block tests/verify/greedy_block",
       "return std::min(weight, largest_weight);", "return weight;")
mutant("validate-short-rows", "rows/read/validate.hpp", "tests/rows/read/validate",
       "if (!(std::abs(sum - 1) <= tolerance +", "if (!(sum - 1 <= tolerance +")
mutant("validate-small-halves", "rows/read/validate.hpp", "tests/rows/read/validate",
       "static_cast<double>(vocab_size) * rounding_of_small<R>", "0")
mutant("validate-rounded-numbers", "rows/read/validate.hpp", "tests/rows/read/validate", "rounding += R::rounding;", "")

mutant = promise("lossless: what all rules share")
mutant("ratio-upside-down", "verify/drafted.hpp", "tests/verify/token tests/law_lossless",
       "detail::bounded(p(i) / q(i))", "detail::bounded(q(i) / p(i))")
mutant("ratio-epsilon", "verify/drafted.hpp", "tests/law_lossless",
       "detail::bounded(p(i) / q(i))", "detail::bounded(p(i) / (q(i) + 1e-5))")
mutant("probabilities-of-another-row", "verify/drafted.hpp", "tests/verify/drafted tests/law_lossless",
       "const auto here = rows.matrix().row(number);", "const auto here = rows.matrix().row(0);")
mutant("late-probability-of-another-row", "verify/drafted.hpp", "tests/verify/drafted tests/law_rows",
       "named(\"target\", rows_.target, row_of(links_.judged_by(i))),", "named(\"target\", rows_.target, i + 1),")
mutant("race-at-previous-target-row", "verify/drafted.hpp", "tests/verify/block tests/law_lossless",
       "    const auto p = target(i);\n    return p.named([&] { return i == gamma()",
       "    const auto p = target(i > 0 && i < gamma() ? i - 1 : i);\n    return p.named([&] { return i == gamma()")
mutant("race-at-previous-draft-row", "verify/drafted.hpp", "tests/verify/block tests/law_lossless",
       "chance.race(w, p, draft(i)); });", "chance.race(w, p, draft(i > 0 ? i - 1 : 0)); });")
mutant("bonus-from-previous-row", "verify/drafted.hpp", "tests/verify/block tests/law_lossless",
       "    const auto p = target(i);\n    return p.named([&] { return i == gamma()",
       "    const auto p = target(i > 0 && i == gamma() ? i - 1 : i);\n    return p.named([&] { return i == gamma()")

mutant = promise("lossless: token verification")
mutant("token-correction-from-target", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "*drafted.race(chance, 1.0, i)", "drafted.draw(chance, i)")
mutant("token-correction-from-next-row", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "*drafted.race(chance, 1.0, i)", "*chance.race(1.0, drafted.target(i + 1), drafted.draft(i))")
mutant("token-bonus-from-previous-row", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "drafted.draw(chance, drafted.gamma())", "drafted.draw(chance, std::max<Index>(drafted.gamma() - 1, 0))")
mutant("token-stop-keep-drafting", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "return {i, *drafted", "return {std::min(i + 1, drafted.gamma()), *drafted")

mutant = promise("lossless: block verification")
mutant("block-weight-unclipped", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "return std::min(1.0, before * (p / q));", "return before * (p / q);")
mutant("block-weight-not-carried", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "std::min(1.0, before * (p / q))", "std::min(1.0, p / q)")
mutant("block-ratio-from-next-row", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "survival(w[i], drafted.p(i), drafted.q(i))", "survival(w[i], drafted.p(std::min(i + 1, gamma - 1)), drafted.q(i))")
mutant("block-weight-forgotten", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "drafted.race(chance, w[i], i)", "drafted.race(chance, 1.0, i)")
mutant("block-weight-of-previous", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "drafted.race(chance, w[i], i)", "drafted.race(chance, w[i - 1], i)")
mutant("block-full-acceptance-skipped", "verify/block.hpp", "tests/verify/block tests/law_lossless tests/law_step",
       "for (Index i = gamma; i > 0; --i)", "for (Index i = gamma - 1; i > 0; --i)")
BLOCK_SCAN = """    for (Index i = gamma; i > 0; --i)
      if (const auto y = drafted.race(chance, w[i], i)) return {i, *y};
"""
mutant("block-stops-at-first-failure", "verify/block.hpp", "tests/verify/block tests/law_lossless", BLOCK_SCAN, """
    std::optional<Verdict> longest;
    for (Index i = 1; i <= gamma; ++i) {
      const std::optional<Token> y = drafted.race(chance, w[i], i);
      if (!y) break;
      longest = Verdict{i, *y};
    }
    if (longest) return *longest;
""")
mutant("block-product-of-coins", "verify/block.hpp", "tests/verify/block tests/law_lossless", BLOCK_SCAN, """
    Index kept = 0;
    while (kept < gamma && chance.coin(w[kept + 1])) ++kept;
    if (kept > 0) return {kept, *drafted.race(chance, 1.0, kept)};
""")
mutant("block-only-from-three-on", "verify/block.hpp", "tests/verify/block tests/law_step", BLOCK_SCAN, """
    if (gamma < 3) {
      Index kept = 0;
      while (kept < gamma && chance.coin(std::min(1.0, drafted.ratio(kept)))) ++kept;
      return {kept, *drafted.race(chance, 1.0, kept)};
    }
""" + BLOCK_SCAN)

mutant = promise("lossless: greedy block verification")
mutant("greedy-no-modification", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "if (left > 0 && ratio > 0 && ratio < 1) next_.push_back({ratio, left});", "")
mutant("greedy-modification-not-advanced", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.live[k].ratio * q / t", "here.live[k].ratio")
mutant("greedy-one-token-too-long", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "left = drafted.gamma() - stop - 1", "left = drafted.gamma() - stop")
mutant("greedy-never-ends", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.live[k].left - 1", "here.live[k].left")
mutant("greedy-advanced-by-outer-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.levels[k].probability", "here.levels[k + 1].probability")
mutant("greedy-level-mass", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "next.b += m.ratio * next.mass;", "next.b += m.ratio;")
mutant("greedy-clipped", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless tests/law_step",
       "detail::bounded(at(i).g * detail::bounded(", "std::min(1.0, at(i).g * detail::bounded(")
mutant("greedy-race-against-plain-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "if (t.b == 0) return", "return")
mutant("greedy-ratio-of-plain-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "const double t = at(i).levels.back().probability(p, q);", "const double t = p;")
mutant("greedy-weight-not-in-modification", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "(here.g * here.levels.back().probability(p, q))", "here.levels.back().probability(p, q)")
mutant("greedy-needs-nothing", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "longest = std::max(longest, m.left)", "longest = std::min(longest, m.left)")
mutant("greedy-bonus-from-previous-row", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "drafted.race(chance, at(gamma).g, gamma)",
       "chance.race(at(gamma).g, drafted.target(gamma > 0 ? gamma - 1 : 0))")
mutant("greedy-never-committed", "verify/verifier.hpp", "tests/verify/greedy_block tests/law_lossless",
       "if constexpr (has_commit<R>) rule.commit();", "")

mutant = promise("argmax is greedy decoding, sample-and-match the target's own draws, lenience bounded by 1/l")
mutant("argmax-last-of-equals", "rows/numbers.hpp", "tests/rows/kinds/dense tests/verify/argmax",
       "m <= largest) continue;", "m < largest) continue;")
mutant("argmax-nan", "kernels/reductions.hpp", "tests/rows/kinds/dense tests/verify/drafted tests/kernels/reductions",
       "return nan != 0 ?", "return nan > 9 ?")
mutant("argmax-keeps-the-draft", "verify/argmax.hpp", "tests/verify/argmax",
       "return {i, best};", "return {i, i == drafted.gamma() ? best : drafted.token(i)};")
mutant("match-draws-again", "verify/sample_match.hpp", "tests/verify/sample_match tests/law_lossless",
       "return {i, y};", "return {i, drafted.draw(chance, i)};")
mutant("lenience-inverted", "verify/lenient.hpp", "tests/verify/lenient tests/law_step",
       "drafted.ratio(i) / lenience_", "drafted.ratio(i) * lenience_")
mutant("lenience-not-in-correction", "verify/lenient.hpp", "tests/verify/lenient tests/law_step",
       "*drafted.race(chance, 1 / lenience_, i)", "*drafted.race(chance, 1.0, i)")

mutant = promise("rows after a token that the target rules out are not read")
mutant("block-reads-on", "verify/block.hpp", "tests/verify/drafted", "w[i] > 0 ? ", "true ? ")
mutant("greedy-reads-on", "verify/greedy_block.hpp", "tests/verify/drafted",
       "if (at(i).g == 0) continue;  // after", "// after")
mutant("race-reads-on", "chance/race.hpp", "tests/verify/drafted", "if (w <= 0) return std::nullopt;", "")

mutant = promise("a drafted token with q = 0 is an error, also where only a pass over its row tells")
mutant("ratio-by-unchecked-q", "verify/drafted.hpp", "tests/verify/drafted",
       "if (!drawn(rows_.q[k])) look_up_drawn(k);",
       "if (rows_.q[k] < 0) rows_.q[k] = specdec::probability(draft(i), token_at(k));")
mutant("undrawn-token-unchecked-late", "verify/drafted.hpp", "tests/verify/drafted", "    if (known != 0) return;\n", "    return;\n")
mutant("undrawn-token-of-a-list-out-of-order", "verify/drafted.hpp", "tests/verify/drafted",
       "detail::check_list(q);", "")

mutant = promise("what a rule has looked up, and no more, is told to the statistics")
mutant("all-looked-up-from-the-start", "verify/drafted.hpp", "tests/verify/drafted tests/measure/acceptance",
       "rows_(distributions(target), distributions(draft), tokens, p_now && q_now, rows_of_nodes),\n        links_(tokens.size())",
       "rows_(distributions(target), distributions(draft), tokens, true, rows_of_nodes),\n        links_(tokens.size())")
mutant("looked-up-after-an-impossible-token", "verify/drafted.hpp", "tests/verify/drafted",
       "if (q(i), p(i) == 0 && linear) break;", "q(i), p(i);")
mutant("half-looked-up", "verify/drafted.hpp", "tests/verify/drafted",
       "return detail::is_probability(rows_.p[k]) && drawn(rows_.q[k]);", "return drawn(rows_.q[k]);")
mutant("dishonest-q-told", "verify/drafted.hpp", "tests/measure/acceptance",
       "detail::is_probability(rows_.p[k]) && drawn(rows_.q[k]);",
       "detail::is_probability(rows_.p[k]) && detail::is_probability(rows_.q[k]);")
mutant("one-trip-a-token", "verify/drafted.hpp", "tests/verify/drafted",
       "} else if constexpr (in_order && detail::looks_up_together<Matrix>) {",
       "} else if constexpr (false) {")

mutant = promise("rows kept for a verification are destroyed after it, those alone that were made")
mutant("kept-rows-not-destroyed", "rows/row_cache.hpp", "tests/verify/drafted",
       "        few_[64 * word + static_cast<std::size_t>(std::countr_zero(rest))].row.~Row();\n", "        ;\n")
mutant("kept-row-entered-before-made", "rows/row_cache.hpp", "tests/verify/drafted",
       "      ::new (static_cast<void*>(&slot.row)) Row(matrix_.row(i));\n      word |= bit;\n",
       "      word |= bit;\n      ::new (static_cast<void*>(&slot.row)) Row(matrix_.row(i));\n")

mutant = promise("rules say of themselves what the loop and cascades go by")
mutant("lenient-says-lossless", "verify/lenient.hpp", "tests/verify/verifier",
       "static constexpr bool draws_from_target = false;", "static constexpr bool draws_from_target = true;")
mutant("argmax-says-lossless", "verify/argmax.hpp", "tests/verify/verifier",
       "draws_from_target = false, needs_draft", "draws_from_target = true, needs_draft")
mutant("silent-rules-need-no-draft", "verify/verifier.hpp", "tests/verify/verifier",
       "return static_cast<bool>(R::needs_draft);\n  else return true;",
       "return static_cast<bool>(R::needs_draft);\n  else return false;")
mutant("silent-rules-lossy", "verify/verifier.hpp", "tests/verify/verifier",
       "return static_cast<bool>(R::draws_from_target);\n  else return true;",
       "return static_cast<bool>(R::draws_from_target);\n  else return false;")
mutant("draft-length-unasked", "verify/verifier.hpp", "tests/verify/verifier tests/loop/spec_dec",
       "    return rule.min_draft_length();", "    return 0;")

mutant = promise("a modification that rounding leaves no mass is passed over")
mutant("greedy-modification-without-mass", "verify/greedy_block.hpp", "tests/verify/greedy_block",
       "here.levels.push_back(next.mass > 0 ? next : here.levels.back());", "here.levels.push_back(next);")

mutant = promise("a number of a rule's own that cannot be is told with what the rule was judging")
mutant("coin-told-without-its-tokens", "verify/verifier.hpp", "tests/verify/drafted", "if (error.row() >= 0) return error;", "return error;")
mutant("row-told-twice", "verify/verifier.hpp", "tests/verify/drafted", "if (error.row() >= 0) return error;", "")

TREES = "tests/law_trees tests/verify/tree_rules"
mutant = promise("lossless on trees")
mutant("siblings-residual-not-updated", "verify/sibling_residual.hpp", TREES,
       ": bounded(before / w);", ": 0;")
mutant("siblings-residual-of-another-weight", "verify/sibling_residual.hpp", TREES,
       ": bounded(before / w);", ": bounded(before);")
mutant("siblings-residual-of-another-row", "verify/sibling_residual.hpp", TREES,
       "else visit((*b_)[k], drafted_->draft(k));",
       "else visit((*b_)[k], drafted_->draft(drafted_->first_child(node_)));")
mutant("siblings-mass-of-the-whole-row", "verify/sibling_residual.hpp", TREES,
       "mass_[node] = p.named([&] { return row(node, k).left(); });", "mass_[node] = before;")
mutant("chosen-token-left", "verify/sibling_residual.hpp", TREES,
       "if ((*b_)[k] == all_of_it) visit(all_of_it, OneHotRow(drafted_->token(k)));\n      else", "if ((*b_)[k] != all_of_it)")
OVER_RANKS = "tests/law_trees_over_ranks"
mutant("k-seq-threshold-to-four-digits", "verify/k_seq.hpp", OVER_RANKS, "if (rho <= low || rho >= high) return high;", "if (high - low < 1e-4) return high;")
mutant("chosen-mass-kept", "verify/sibling_residual.hpp", TREES,
       "chosen ? before - probability(k) * before : 0;", "chosen ? before : 0;")
mutant("chosen-mass-of-rounding", "verify/sibling_residual.hpp", "tests/verify/tree_rules",
       "others > little_left", "others > 0")
mutant("elders-not-left-out", "verify/sibling_residual.hpp", TREES,
       "if (eldest(k)) return drafted_.p(k);", "return drafted_.p(k);")
mutant("race-against-the-whole-row", "verify/sibling_residual.hpp", TREES,
       "eldest(k) ? chance.race(w, p, q)", "true ? chance.race(w, p, q)")
mutant("residual-drawn-without-rejection", "rows/read/remainder.hpp", "tests/verify/tree_rules",
       "if (uniform() * p < row_.left(y, p)) return y;", "return y;")
mutant("residual-drawn-by-a-mass-that-is-none", "rows/read/remainder.hpp", "tests/verify/tree_rules",
       "nothing_left_ = row_.mass() == 0;", "nothing_left_ = false;")
mutant("traversal-weight-not-renewed", "verify/traversal.hpp", TREES,
       "w[above] = mass / (mass + lost);", "")
mutant("traversal-weight-of-the-root", "verify/traversal.hpp", TREES,
       "w[above] * (rest.probability(k) / drafted.q(k))", "rest.probability(k) / drafted.q(k)")
mutant("traversal-keep-drafting-after-zero", "verify/traversal.hpp", "tests/verify/tree_rules",
       "while (w[node] > 0 && drafted.first_child(node) >= 0)", "while (drafted.first_child(node) >= 0)")
mutant("traversal-loses-the-root", "verify/traversal.hpp", "tests/verify/tree_rules",
       "if (mass == 0 && lost == 0) return {above, drafted.draw(chance, above)};", "")
mutant("recursive-keep-drafting-without-mass", "verify/recursive_rejection.hpp", "tests/verify/tree_rules",
       "if (rest.reject(k, 1.0) == 0) break;", "rest.reject(k, 1.0);")
mutant("recursive-rejects-nothing", "verify/recursive_rejection.hpp", TREES,
       "if (rest.reject(k, 1.0) == 0) break;", "")
mutant("k-seq-without-threshold", "verify/k_seq.hpp", TREES,
       "return solve(p, q, siblings);", "return siblings < 0 ? 0.0 : 1.0;")
mutant("k-seq-at-the-wide-end", "verify/k_seq.hpp", TREES,
       "(accepted <= rho * beta ? high : low) = rho;", "(accepted > rho * beta ? high : low) = rho;")
mutant("k-seq-corrects-without-threshold", "verify/k_seq.hpp", TREES,
       "const ResidualRow rest(1.0, p, rho, q);", "const ResidualRow rest(1.0, p, 1.0, q);")
mutant("k-seq-of-any-siblings", "verify/k_seq.hpp", "tests/verify/tree_rules",
       "if (specdec::probability(q, drafted.token(k)) != drafted.q(k))", "if (false)")
mutant("trunk-taken-for-a-spare", "verify/trunk_and_spares.hpp", "tests/law_trees",
       "(k = drafted.next_sibling(k)) >= 0 && drafted.token(k) != token) {",
       "drafted.token(k) != token && ((k = drafted.next_sibling(k)), true)) {")
mutant("spare-not-entered", "verify/trunk_and_spares.hpp", TREES + " tests/law_tree_loop",
       "if (spare < 0 ||", "if (true ||")
mutant("spare-of-another-node", "verify/trunk_and_spares.hpp", TREES, "node = trunk.row(verdict.accepted);", "")
mutant("spares-forget", "verify/trunk_and_spares.hpp", "tests/law_tree_loop",
       "    std::swap(rule_, next_);", "")
mutant("spares-remember-what-failed", "verify/trunk_and_spares.hpp", "tests/law_tree_loop",
       "    next_ = rule_;\n", "")
mutant("spares-commit-late", "verify/trunk_and_spares.hpp", "tests/law_tree_loop",
       "      detail::commit(rule);\n      node =", "      node =")
mutant("short-trunk-judged", "verify/trunk_and_spares.hpp", "tests/law_tree_loop",
       " || detail::trunk_length(drafted, spare + 1) < specdec::min_draft_length(rule)", "")

mutant("chosen-token-takes-a-pass", "verify/sibling_residual.hpp", "tests/verify/tree_rules",
       "if (others > little_left) {", "if (false) {")
mutant("stretch-of-a-shorter-row", "rows/read/segments.hpp", "tests/verify/tree_rules",
       "const Index end = std::min<Index>(start + out.size(), row.vocab_size());", "const Index end = start + out.size();")
mutant("trunk-by-numbers-of-the-tree", "verify/drafted.hpp", "tests/verify/drafted_tree tests/verify/tree_rules",
       "    const Index k = links_.number(i);\n    if (!drawn",
       "    const Index k = i;\n    if (!drawn")
mutant("trunk-of-other-rows", "verify/links.hpp", "tests/verify/drafted_tree",
       "Index row(Index i) const { return nodes_[i]; }",
       "Index row(Index i) const { return i; }")
mutant("trunk-of-other-tokens", "verify/links.hpp", "tests/verify/drafted_tree",
       "Index number(Index i) const { return nodes_[i + 1] - 1; }",
       "Index number(Index i) const { return i; }")
mutant("trunk-judged-by-other-rows", "verify/links.hpp", "tests/verify/drafted_tree",
       "Index judged_by(Index i) const { return nodes_[i]; }",
       "Index judged_by(Index i) const { return i; }")
mutant("trunk-of-a-trunk-by-its-own-numbers", "verify/links.hpp", "tests/verify/drafted_tree", "nodes_[i] = tree.row(node);", "nodes_[i] = node;")
mutant("trunk-looked-up-for-the-tree", "verify/drafted.hpp", "tests/verify/drafted_tree",
       "if constexpr (!of_a_tree) rows_.all_looked_up = true;",
       "rows_.all_looked_up = true;")
mutant("row-asked-for-of-a-q-that-is-known", "verify/drafted.hpp", "tests/verify/drafted",
       "if (known != 0) known = specdec::probability(named(\"draft\", rows_.draft, k), token_at(k));",
       "if (const auto q = named(\"draft\", rows_.draft, k); known != 0) known = specdec::probability(q, token_at(k));")
mutant("traversal-weight-beyond-one", "verify/traversal.hpp", TREES,
       "w[k + 1] = std::min(1.0, w[above] * (rest.probability(k) / drafted.q(k)));",
       "w[k + 1] = w[above] * (rest.probability(k) / drafted.q(k));")
mutant("k-seq-in-few-steps", "verify/k_seq.hpp", "tests/verify/tree_rules",
       "if (rho <= low || rho >= high) return high;", "if (high - low < 1e-3) return high;")
mutant("siblings-list-unchecked", "rows/read/remainder.hpp", "tests/verify/tree_rules",
       "each_token(p_, [&](Token x, double p) { sum += left(x, p); });",
       "for (Index k = 0; k < p_.support_size(); ++k) sum += left(p_.support(k), p_.listed(k));")

mutant = promise("trees that are none are named")
TREE = "tests/verify/drafted_tree"
mutant("parent-after-its-child", "parents.hpp", TREE, "|| parent >= before + k)", ")")
mutant("parent-before-the-context", "parents.hpp", TREE, "parent < -1 || ", "")
mutant("parents-not-counted", "verify/links.hpp", TREE, "check_parent_count(parents.size(), tokens);", "")
mutant("siblings-youngest-first", "verify/links.hpp", TREE + " tests/law_trees",
       "for (Index k = tokens - 1; k >= 0; --k) {", "for (Index k = 0; k < tokens; ++k) {")
mutant("equal-chosen-siblings", "verify/drafted.hpp", TREE,
       "if (chosen(next) && token_at(next) == token_at(k))", "if (false)")
mutant("stop-after-the-tree", "verify/verifier.hpp", TREE, "verdict.node > drafted.gamma()", "false")
mutant("stop-before-the-tree", "verify/verifier.hpp", TREE, "verdict.node < 0 || ", "")
mutant("path-beyond-the-target", "verify/verifier.hpp", TREE,
       "    each_before(drafted, verdict.node, [&](Index k) { check_accepted(k, drafted.token(k), vocab_size); });\n",
       "")
mutant("stop-with-no-token", "verify/verifier.hpp", TREE,
       "check_accepted(k, drafted.token(k), vocab_size); });\n    check_added(verdict.token, vocab_size);",
       "check_accepted(k, drafted.token(k), vocab_size); });")
mutant("path-backwards", "verify/verifier.hpp", TREE, "  std::reverse(verdict.path.begin(), verdict.path.end());\n", "")
mutant("look-up-after-the-last-token", "verify/links.hpp", TREE,
       "Index judged_by(Index i) const { return parent(i) + 1; }",
       "Index judged_by(Index i) const { return i; }")

BATCH = "tests/verify/verify_batch"
mutant = promise("drafts judged together are judged as alone")
mutant("batch-first-rows-for-all", "rows/kinds/row_range.hpp", BATCH, "matrix_.row(first_ + i)", "matrix_.row(i)")
mutant("batch-looks-up-first-rows", "rows/kinds/row_range.hpp", "tests/ranks/sharded_model", "matrix_.probabilities(tokens, out, first_);", "matrix_.probabilities(tokens, out, 0 * first_);")
mutant("batch-rows-beyond-the-matrix", "rows/kinds/row_range.hpp", BATCH, "count > matrix.rows() - first", "count > matrix.rows()")
mutant("in-order-without-the-last", "executor.hpp", BATCH, "i < n; ++i", "i + 1 < n; ++i")
mutant("batch-target-rows-shifted", "verify/verify_batch.hpp", BATCH, "RowRange p(all, here.target, here.gamma + 1)", "RowRange p(all, here.draft, here.gamma + 1)")
mutant("batch-one-failure-for-all", "verify/verify_batch.hpp", BATCH, "out.error = detail::error_of([&] { out.verdict = judge(i); });", "out.verdict = judge(i);")
mutant("batch-verdict-of-an-earlier-call", "verify/verify_batch.hpp", BATCH, "    out = {};\n", "")
mutant("batch-offsets-unchecked", "verify/draft_layout.hpp", BATCH, "offsets[i] < offsets[i - 1] || ", "")
LAYOUT, LAYOUT_TEST = "verify/draft_layout.hpp", "tests/verify/draft_layout"
mutant("layout-fed-drafts-with-the-last-token", LAYOUT, LAYOUT_TEST, "first = detail::offset(offsets_, i), drafted = first + 1;", "first = detail::offset(offsets_, i), drafted = first;")
mutant("layout-fed-rows-always-in-place", LAYOUT, LAYOUT_TEST, "draft_rows == tokens.size() ? drafted : first - i;", "drafted;")
mutant("layout-fed-rows-never-in-place", LAYOUT, LAYOUT_TEST, "draft_rows == tokens.size() ? drafted : first - i;", "first - i;")
mutant("layout-padding-is-a-token", LAYOUT, LAYOUT_TEST, "while (gamma < count && tokens[first + gamma] >= 0) ++gamma;", "gamma = count;")
mutant("layout-token-after-padding", LAYOUT, LAYOUT_TEST, "for (Index k = gamma; k < count; ++k)", "for (Index k = count; k < count; ++k)")
mutant("layout-padded-target-rows", LAYOUT, LAYOUT_TEST, "return {first, first + i, first, detail::unpadded(tokens, first, longest_)};", "return {first, first, first, detail::unpadded(tokens, first, longest_)};")
mutant("layout-leaves-the-tokens", LAYOUT, LAYOUT_TEST, "if (here.token < 0 || here.gamma < 0 || here.gamma > tokens.size() - here.token)", "if (false)")
mutant("layout-padding-outside-the-tokens", LAYOUT, LAYOUT_TEST, "if (first < 0 || count < 0 || count > tokens.size() - first)", "if (false)")
mutant("layout-too-large", LAYOUT, LAYOUT_TEST, "if (longest >= std::numeric_limits<Index>::max() / (drafts == 0 ? 1 : drafts))", "if (false)")
mutant("emitted-verdicts-of-other-drafts", "verify/verify_batch.hpp", LAYOUT_TEST, "if (verdict.accepted < 0 || verdict.accepted > gamma)", "if (false)")
mutant("layout-request-without-a-row", LAYOUT, LAYOUT_TEST, "if (offsets_[i] == offsets_[i + 1])", "if (false)")
mutant("emitted-without-the-last-token", "verify/verify_batch.hpp", LAYOUT_TEST, "row[static_cast<std::size_t>(verdict.accepted)] = static_cast<Id>(verdict.token);", "")
mutant("emitted-of-the-first-draft", "verify/verify_batch.hpp", LAYOUT_TEST, "static_cast<Id>(tokens[here.token + k]);", "static_cast<Id>(tokens[k]);")
mutant("emitted-beyond-the-room", "verify/verify_batch.hpp", LAYOUT_TEST, "if (verdict.accepted >= width)", "if (false)")
mutant("emitted-failure-is-a-text", "verify/verify_batch.hpp", LAYOUT_TEST, "if (error) continue;\n    const DraftPlace here", "const DraftPlace here")
mutant("emitted-failure-is-checked", "verify/verify_batch.hpp", LAYOUT_TEST, "if (error) continue;\n    const Index gamma", "const Index gamma")
mutant("batch-tokens-of-the-first", "token_ids.hpp", BATCH, "else if (narrow_) ids.narrow_ += first;", "")

mutant = promise("a keyed text is the one without a draft, and who shares its numbers guesses it")
KEYED = "tests/verify/keyed"
mutant("keyed-rule-accepts-unseen", "verify/keyed.hpp", KEYED, "return SampleMatchVerifier{}.judge(drafted, chance);",
       "return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};")
mutant("keyed-rule-accepts-nothing", "verify/keyed.hpp", KEYED, "return SampleMatchVerifier{}.judge(drafted, chance);",
       "return {0, drafted.draw(chance, 0)};")
mutant("keyed-depth-of-a-line", "verify/links.hpp", KEYED,
       "  Index judged_by(Index i) const { return i; }\n  Index depth(Index i) const { return i; }",
       "  Index judged_by(Index i) const { return i; }\n  Index depth(Index) const { return 0; }")
mutant("keyed-depth-of-a-tree", "verify/links.hpp", KEYED, "for (; i > 0; i = parent(i - 1) + 1) ++depth;", "depth = i;")
mutant("keyed-depth-of-a-trunk", "verify/links.hpp", KEYED, "return depth_ + i;", "return i;")
mutant("keyed-draws-where-it-stands", "verify/drafted.hpp", KEYED,
       "chance.draw(p, links_.depth(i));", "chance.draw(p, 0);")

mutant = promise("verdicts and stop reasons print themselves")
mutant("verdict-prints-another-number", "verify/verdict.hpp", "tests/verify/verifier",
       'out << verdict.accepted << " accepted', 'out << verdict.accepted + 1 << " accepted')
mutant("verdict-path-without-blanks", "verify/verdict.hpp", "tests/verify/verifier", '(i > 0 ? " " : "")', '""')
mutant("stop-reason-of-another-name", "loop/options.hpp", "tests/loop/spec_dec", '"length", "context", ', '"context", "length", ')
