"""Mutants of the rules, and the checks of what they are given."""

from mutants import promise

mutant = promise("bad input is named, never guessed around")
mutant("undrawn-token-accepted", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "if (!q(i).possible(token(i))) drawn_probability(i);", "if (false) drawn_probability(i);")
mutant("token-id-one-too-far", "token_ids.hpp", "tests/verify/drafted_block",
       "tokens[i] >= vocab_size)", "tokens[i] > vocab_size)")
mutant("negative-id", "token_ids.hpp", "tests/verify/drafted_block",
       "tokens[i] < 0 || ", "")
mutant("token-ids-unchecked", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "check_tokens(\"tokens\", tokens_, vocab_size());", "")
mutant("target-row-missing", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "if (target_.matrix().rows() != gamma() + 1)", "if (target_.matrix().rows() > gamma() + 1)")
mutant("vocabularies-differ", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "return std::max<Index>(known, draft_.matrix().vocab_size());", "return known;")
mutant("nan-probability", "rows/named_row.hpp", "tests/verify/drafted_block",
       "if (!(value >= 0) || !std::isfinite(value))", "if (value < 0)")
mutant("negative-probability", "rows/named_row.hpp", "tests/verify/drafted_block",
       "if (!(value >= 0) || !std::isfinite(value))", "if (!std::isfinite(value))")
mutant("weight-overflow", "verify/drafted_block.hpp", "tests/verify/drafted_block tests/verify/block tests/verify/greedy_block",
       "return std::min(weight, largest_weight);", "return weight;")
mutant("validate-short-rows", "rows/validate.hpp", "tests/rows/validate",
       "if (!(std::abs(sum - 1) <= tolerance))", "if (!(sum - 1 <= tolerance))")

mutant = promise("lossless: what all rules share")
mutant("ratio-upside-down", "verify/drafted_block.hpp", "tests/verify/token tests/law_lossless",
       "specdec::probability(p(i), token(i)) / drawn_probability(i)", "drawn_probability(i) / specdec::probability(p(i), token(i))")
mutant("ratio-epsilon", "verify/drafted_block.hpp", "tests/law_lossless",
       "/ drawn_probability(i))", "/ (drawn_probability(i) + 1e-5))")
mutant("race-at-previous-target-row", "verify/drafted_block.hpp", "tests/verify/block tests/law_lossless",
       "  const auto p = block.p(i);\n  return", "  const auto p = block.p(i > 0 && i < block.gamma() ? i - 1 : i);\n  return")
mutant("race-at-previous-draft-row", "verify/drafted_block.hpp", "tests/verify/block tests/law_lossless",
       "block.q(i)); });", "block.q(i > 0 ? i - 1 : 0)); });")
mutant("bonus-from-previous-row", "verify/drafted_block.hpp", "tests/verify/block tests/law_lossless",
       "  const auto p = block.p(i);\n  return", "  const auto p = block.p(i > 0 && i == block.gamma() ? i - 1 : i);\n  return")

mutant = promise("lossless: token verification")
mutant("token-correction-from-target", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "*detail::race_at(chance, 1.0, block, i)", "chance.draw(block.p(i))")
mutant("token-correction-from-next-row", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "*detail::race_at(chance, 1.0, block, i)", "*chance.race(1.0, block.p(i + 1), block.q(i))")
mutant("token-bonus-from-previous-row", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "block.p(block.gamma())", "block.p(std::max<Index>(block.gamma() - 1, 0))")
mutant("token-stop-goes-on", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "return {i, *detail", "return {std::min(i + 1, block.gamma()), *detail")

mutant = promise("lossless: block verification")
mutant("block-weight-unclipped", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "std::min(1.0, w_.back() * block.ratio(i))", "w_.back() * block.ratio(i)")
mutant("block-weight-not-carried", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_.back() * block.ratio(i)", "block.ratio(i)")
mutant("block-ratio-from-next-row", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_.back() * block.ratio(i)", "w_.back() * block.ratio(std::min(i + 1, gamma - 1))")
mutant("block-weight-forgotten", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "detail::race_at(chance, w_[static_cast<std::size_t>(i)], block, i)", "detail::race_at(chance, 1.0, block, i)")
mutant("block-weight-of-previous", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_[static_cast<std::size_t>(i)]", "w_[static_cast<std::size_t>(i - 1)]")
mutant("block-stale-weights", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_.assign(1, 1.0);", "if (w_.empty()) w_.assign(1, 1.0);")
mutant("block-full-acceptance-skipped", "verify/block.hpp", "tests/verify/block tests/law_lossless tests/law_step",
       "for (Index i = gamma; i > 0; --i)", "for (Index i = gamma - 1; i > 0; --i)")
BLOCK_SCAN = """    for (Index i = gamma; i > 0; --i)
      if (const std::optional<Token> y = detail::race_at(chance, w_[static_cast<std::size_t>(i)], block, i))
        return {i, *y};
"""
mutant("block-stops-at-first-failure", "verify/block.hpp", "tests/verify/block tests/law_lossless", BLOCK_SCAN, """
    std::optional<Verdict> longest;
    for (Index i = 1; i <= gamma; ++i) {
      const std::optional<Token> y = detail::race_at(chance, w_[static_cast<std::size_t>(i)], block, i);
      if (!y) break;
      longest = Verdict{i, *y};
    }
    if (longest) return *longest;
""")
mutant("block-product-of-coins", "verify/block.hpp", "tests/verify/block tests/law_lossless", BLOCK_SCAN, """
    Index kept = 0;
    while (kept < gamma && chance.coin(w_[static_cast<std::size_t>(kept + 1)])) ++kept;
    if (kept > 0) return {kept, *detail::race_at(chance, 1.0, block, kept)};
""")
mutant("block-only-from-three-on", "verify/block.hpp", "tests/verify/block tests/law_step", BLOCK_SCAN, """
    if (gamma < 3) {
      Index kept = 0;
      while (kept < gamma && chance.coin(std::min(1.0, block.ratio(kept)))) ++kept;
      return {kept, *detail::race_at(chance, 1.0, block, kept)};
    }
""" + BLOCK_SCAN)

mutant = promise("lossless: greedy block verification")
mutant("greedy-no-modification", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "if (left > 0 && ratio > 0 && ratio < 1) next_.push_back({ratio, left});", "")
mutant("greedy-modification-not-advanced", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.live[k].ratio * specdec::probability(q, x) / t", "here.live[k].ratio")
mutant("greedy-one-token-too-long", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "left = block.gamma() - stop - 1", "left = block.gamma() - stop")
mutant("greedy-never-ends", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.live[k].left - 1", "here.live[k].left")
mutant("greedy-advanced-by-outer-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.levels[k].probability", "here.levels[k + 1].probability")
mutant("greedy-level-mass", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "next.b += m.ratio * next.mass;", "next.b += m.ratio;")
mutant("greedy-clipped", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless tests/law_step",
       "detail::bounded(at(i).g * detail::bounded(", "std::min(1.0, at(i).g * detail::bounded(")
mutant("greedy-race-against-plain-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "t(p, q, at(i).levels.back())", "t(p, q, detail::TargetLevel{})")
mutant("greedy-ratio-of-plain-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "const double t = at(i).levels.back().probability(p, q, x);", "const double t = p.probability(x);")
mutant("greedy-weight-not-in-modification", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "(here.g * here.levels.back().probability(p, q, y))", "here.levels.back().probability(p, q, y)")
mutant("greedy-needs-nothing", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "longest = std::max(longest, m.left)", "longest = std::min(longest, m.left)")
mutant("greedy-bonus-from-previous-row", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "detail::race_at(chance, at(gamma).g, block, gamma)",
       "chance.race(at(gamma).g, block.p(gamma > 0 ? gamma - 1 : 0))")

mutant = promise("argmax is greedy decoding, sample-and-match the target's own draws, lenience bounded by 1/l")
mutant("argmax-last-of-equals", "rows/numbers.hpp", "tests/rows/dense tests/verify/argmax",
       "m <= largest) continue;", "m < largest) continue;")
mutant("argmax-nan", "rows/numbers.hpp", "tests/rows/dense tests/verify/drafted_block",
       "Eigen::PropagateNaN", "Eigen::PropagateNumbers")
mutant("argmax-keeps-the-draft", "verify/argmax.hpp", "tests/verify/argmax",
       "return {i, best};", "return {i, i == block.gamma() ? best : block.token(i)};")
mutant("match-draws-again", "verify/sample_match.hpp", "tests/verify/sample_match tests/law_lossless",
       "return {i, y};", "return {i, chance.draw(block.p(i))};")
mutant("lenience-inverted", "verify/lenient.hpp", "tests/verify/lenient tests/law_step",
       "block.ratio(i) / lenience_", "block.ratio(i) * lenience_")
mutant("lenience-not-in-correction", "verify/lenient.hpp", "tests/verify/lenient tests/law_step",
       "*detail::race_at(chance, 1 / lenience_, block, i)", "*detail::race_at(chance, 1.0, block, i)")

mutant = promise("rows behind a token that the target rules out are not read")
mutant("block-reads-on", "verify/block.hpp", "tests/verify/drafted_block", "w_.back() > 0 ? ", "true ? ")
mutant("greedy-reads-on", "verify/greedy_block.hpp", "tests/verify/drafted_block",
       "if (at(i).g == 0) continue;  // behind", "// behind")
mutant("race-reads-on", "chance/race.hpp", "tests/verify/drafted_block", "if (w <= 0) return std::nullopt;", "")

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
mutant("draft-length-unasked", "verify/verdict.hpp", "tests/verify/verdict tests/loop/spec_dec",
       "if constexpr (requires { verifier.min_draft_length(); }) return verifier.min_draft_length();",
       "if constexpr (false) return verifier.min_draft_length();")

mutant = promise("a modification that rounding leaves no mass is passed over")
mutant("greedy-modification-without-mass", "verify/greedy_block.hpp", "tests/verify/greedy_block",
       "here.levels.push_back(next.mass > 0 ? next : here.levels.back());", "here.levels.push_back(next);")
