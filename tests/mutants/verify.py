# SPDX-License-Identifier: MIT
"""Mutants of the rules."""

from mutants import promise

mutant = promise("a rule that needs honest rows refuses a token that its row cannot have given")
mutant("undrawn-token-accepted", "verify/drafted.hpp", "tests/verify/drafted",
       "for (Index i = 0; needs_draft && i < gamma(); ++i)", "for (Index i = 0; false && i < gamma(); ++i)")
mutant("half-looked-up", "verify/drafted.hpp", "tests/verify/drafted",
       "return detail::is_probability(p_[i]) && drawn(q_[i]);", "return drawn(q_[i]);")

mutant = promise("token verification is lossless")
mutant("token-correction-from-target", "verify/rules/token.hpp", "tests/verify/token tests/law_lossless",
       "*drafted.race(chance, 1.0, i)", "drafted.draw(chance, i)")
mutant("token-correction-from-next-row", "verify/rules/token.hpp", "tests/verify/token tests/law_lossless",
       "*drafted.race(chance, 1.0, i)", "*chance.race(1.0, drafted.target(i + 1), drafted.draft(i))")
mutant("ratio-epsilon", "verify/drafted.hpp", "tests/law_lossless",
       "detail::bounded(p(i) / q(i))", "detail::bounded(p(i) / (q(i) + 1e-5))")

mutant = promise("block verification is lossless")
mutant("block-weight-unclipped", "verify/rules/block.hpp", "tests/verify/block tests/law_lossless",
       "return std::min(1.0, before * (p / q));", "return before * (p / q);")
mutant("block-weight-forgotten", "verify/rules/block.hpp", "tests/verify/block tests/law_lossless",
       "drafted.race(chance, w[i], i)", "drafted.race(chance, 1.0, i)")
mutant("block-stops-at-first-failure", "verify/rules/block.hpp", "tests/verify/block tests/law_lossless",
       "    for (Index i = gamma; i > 0; --i)\n"
       "      if (const auto y = drafted.race(chance, w[i], i)) return {i, *y};\n",
       "\n"
       "    std::optional<Verdict> longest;\n"
       "    for (Index i = 1; i <= gamma; ++i) {\n"
       "      const std::optional<Token> y = drafted.race(chance, w[i], i);\n"
       "      if (!y) break;\n"
       "      longest = Verdict{i, *y};\n"
       "    }\n"
       "    if (longest) return *longest;\n")
mutant("block-product-of-coins", "verify/rules/block.hpp", "tests/verify/block tests/law_lossless",
       "    for (Index i = gamma; i > 0; --i)\n"
       "      if (const auto y = drafted.race(chance, w[i], i)) return {i, *y};\n",
       "\n"
       "    Index kept = 0;\n"
       "    while (kept < gamma && chance.coin(w[kept + 1])) ++kept;\n"
       "    if (kept > 0) return {kept, *drafted.race(chance, 1.0, kept)};\n")

mutant = promise("greedy block verification is lossless, over steps")
mutant("greedy-modification-not-advanced", "verify/rules/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "old.ratio * q / target.probability(p, q)", "old.ratio")
mutant("greedy-level-mass", "verify/rules/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "next.b += layers_[k].modification.ratio * next.mass;", "next.b += layers_[k].modification.ratio;")
mutant("greedy-clipped", "verify/rules/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless tests/law_step",
       "detail::bounded(at(i).g * detail::bounded(", "std::min(1.0, at(i).g * detail::bounded(")
mutant("greedy-weight-not-in-modification", "verify/rules/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "(here.g * here.target.probability(p, q))", "here.target.probability(p, q)")
mutant("greedy-never-committed", "verify/verify_line.hpp", "tests/verify/greedy_block tests/law_lossless",
       "if constexpr (has_commit<R>) rule.commit();", "")

mutant = promise("a rule races against the rows of the place where it stops")
mutant("race-at-previous-target-row", "verify/drafted.hpp", "tests/verify/block tests/law_lossless",
       "    const auto p = target(i);\n    return i == gamma()",
       "    const auto p = target(i > 0 && i < gamma() ? i - 1 : i);\n    return i == gamma()")

mutant = promise("argmax verification is greedy decoding")
mutant("argmax-keeps-the-draft", "verify/rules/argmax.hpp", "tests/verify/argmax",
       "return {i, best};", "return {i, i == drafted.gamma() ? best : drafted.token(i)};")

mutant = promise("sample-and-match emits the target's own draws")
mutant("match-draws-again", "verify/rules/sample_match.hpp", "tests/verify/sample_match tests/law_lossless",
       "return {i, y};", "return {i, drafted.draw(chance, i)};")

mutant = promise("the law of lenient verification is within its bound")
mutant("lenience-not-in-correction", "verify/rules/lenient.hpp", "tests/verify/lenient tests/law_step",
       "*drafted.race(chance, 1 / lenience_, i)", "*drafted.race(chance, 1.0, i)")

mutant = promise("a keyed text is the one that is written without a draft")
mutant("keyed-rule-accepts-unseen", "verify/rules/keyed.hpp", "tests/verify/keyed",
       "return SampleMatchVerifier{}.judge(drafted, chance);",
       "return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};")
mutant("keyed-depth-of-a-tree", "verify/drafted_tree.hpp", "tests/verify/keyed",
       "each_back(*this, i - 1, [&](Index) { ++depth; });", "depth = i;")

mutant = promise("each sibling is judged against what its elders left")
mutant("siblings-residual-of-another-weight", "verify/rules/sibling_residuals.hpp", "tests/law_trees tests/verify/tree_rules",
       ": bounded(before / w);", ": bounded(before);")
mutant("siblings-residual-of-another-row", "verify/drafted_tree.hpp", "tests/law_trees tests/verify/tree_rules",
       "else visit(b, drafted->draft(k));", "else visit(b, drafted->draft(drafted->first_child(drafted->parent(k) + 1)));")
mutant("chosen-mass-kept", "verify/rules/sibling_residuals.hpp", "tests/law_trees tests/verify/tree_rules",
       "chosen ? before - probability(k) * before : 0;", "chosen ? before : 0;")
mutant("elders-not-left-out", "verify/rules/sibling_residuals.hpp", "tests/law_trees tests/verify/tree_rules",
       "eldest(k) ? drafted_.p(k) : left(k) / mass_[drafted_.parent(k) + 1]", "drafted_.p(k)")
mutant("residual-drawn-without-rejection", "rows/read/rough_residual.hpp", "tests/verify/tree_rules",
       "if (uniform() * (row_.a_ * p) < row_.left(y, p)) return y;", "return y;")
mutant("dead-end-gives-its-mass-to-siblings", "verify/rules/sibling_residuals.hpp", "tests/law_dead_ends",
       "if (mass_[node] == 0 && drafted_.residual(node, 0.0, k).mass() == 0) mass_[node] = before;", "")

mutant = promise("the rules on trees are lossless")
mutant("traversal-weight-of-the-root", "verify/rules/traversal.hpp", "tests/law_trees tests/verify/tree_rules",
       "w[above] * (rest.probability(k) / drafted.q(k))", "rest.probability(k) / drafted.q(k)")
mutant("k-seq-corrects-without-threshold", "verify/rules/k_seq.hpp", "tests/law_trees tests/verify/tree_rules",
       "drafted.residual(node, rho, eldest)", "drafted.residual(node, 1.0, eldest)")

mutant = promise("after a spare that matches, the trunk after it is judged like the draft of a next step")
mutant("spares-only-once", "verify/rules/trunk_and_spares.hpp", "tests/law_tree_loop tests/law_trees",
       "      node = spare + 1;", "      return {spare + 1, verdict.token};")

mutant = promise("the trunk of a tree is judged as the line of its tokens")
mutant("trunk-of-the-youngest-row", "verify/rules/trunk_and_spares.hpp", "tests/verify/drafted_tree",
       "static_cast<Index>(rows_[k + 1]) - 1;", "static_cast<Index>(rows_[k]);")

mutant = promise("rows after a token that the target rules out are not read")
mutant("block-reads-on", "verify/rules/block.hpp", "tests/verify/drafted", "w[i] > 0 ? ", "true ? ")

mutant = promise("drafts judged together are judged as alone")
mutant("batch-first-rows-for-all", "rows/kinds/row_range.hpp", "tests/verify/verify_batch",
       "matrix_.row(first_ + i)", "matrix_.row(i)")
mutant("layout-padded-target-rows", "verify/draft_layout.hpp", "tests/verify/draft_layout",
       "return {first, first + i, first, detail::unpadded(tokens, first, longest_)};",
       "return {first, first, first, detail::unpadded(tokens, first, longest_)};")
mutant("batch-first-parents-for-all", "verify/verify_batch.hpp", "tests/verify/verify_batch_trees",
       "parents.segment(here.token, here.gamma)", "parents.segment(0, here.gamma)")
mutant("emitted-of-the-first-draft", "verify/verify_batch.hpp", "tests/verify/draft_layout",
       "tokens[here.token + detail::accepted_token(verdict, k)]", "tokens[detail::accepted_token(verdict, k)]")

mutant = promise("of the rows kept for a verification those that were made are destroyed after it, and no others")
mutant("kept-row-entered-before-made", "rows/row_cache.hpp", "tests/verify/drafted",
       "      ::new (static_cast<void*>(&slot.row)) Row(matrix_.row(i));\n"
       "      word |= bit;\n",
       "      word |= bit;\n"
       "      ::new (static_cast<void*>(&slot.row)) Row(matrix_.row(i));\n")
