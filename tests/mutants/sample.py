# SPDX-License-Identifier: MIT
"""Mutants of steps, of the search for a cut, and of processors."""

from mutants import promise

mutant = promise("a chain of steps is the steps in their order, each at the row's own temperature")
mutant("chain-backwards", "sample/chain.hpp", "tests/sample/chain",
       "((row = step(row)), ...);", "int last = 0; (last = ... = ((void)(row = step(row)), 0));")
mutant("min-p-without-temperature", "sample/steps/min_p.hpp", "tests/sample/steps/min_p",
       "temperature * std::log(p_)", "std::log(p_)")

mutant = promise("logits are a distribution at their temperature, above their cut")
mutant("logits-sums-not-rescaled", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row",
       "sums_[s] *= static_cast<Scalar>(factor);", "(void)s;")
mutant("raw-keeps-the-temperature", "rows/kinds/logits_row.hpp", "tests/loop/log_probabilities",
       "temperature_ == 1 && !(cut_ > no_cut) ? *this", "!(cut_ > no_cut) ? *this")

mutant = promise("the cut of a row is the largest above which tokens weigh enough")
mutant("threshold-above-forgotten", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold tests/sample/steps/top_k",
       "return select(above) || end", "return select(0) || end")
mutant("threshold-forgets-what-it-looked-at", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold",
       "not_from(open.low, above_ + gathered_)", "not_from(open.low, gathered_)")
mutant("top-p-less", "sample/steps/top_p.hpp", "tests/sample/steps/top_p",
       "std::max(p_ * total,", "std::max(0.99 * p_ * total,")
mutant("level-holds-what-is-above-it", "sample/threshold/levels.hpp", "tests/sample/threshold/levels tests/sample/threshold/threshold",
       "out[i] = numbers[i] > level.high_ ? 0 : out[i];", "out[i] = numbers[i] > level.high_ ? 1 : out[i];")
mutant("peak-levels-one-too-high", "sample/threshold/peak_levels.hpp", "tests/sample/threshold/levels",
       "static_cast<Scalar>(k + 1) * height_", "static_cast<Scalar>(k) * height_")
mutant("live-run-one-stretch-short", "rows/kinds/stretches.hpp", "tests/rows/kinds/stretches",
       "const Index stop = std::min(end, next(start, false));", "const Index stop = std::min(end, next(start, false) - 1);")
mutant("peaks-of-the-last-lot", "rows/kinds/stretches.hpp", "tests/rows/kinds/logits_row",
       "peak = std::max(peak, of_lots[static_cast<std::size_t>(i)]);", "peak = of_lots[static_cast<std::size_t>(i)];")
mutant("cut-row-reads-all", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row",
       "row.live_ = peaks.from(row.cut_);", "")

mutant = promise("numbers with weights are counted, gathered and ordered exactly")
mutant("gathered-numbers-without-the-largest", "sample/threshold/gather.hpp", "tests/sample/threshold/gather",
       "static_cast<Lane>(numbers[i] <= high)", "static_cast<Lane>(numbers[i] < high)")
mutant("mass-without-what-is-above", "sample/threshold/threshold.hpp", "tests/sample/threshold/threshold",
       "holds_all_kept_ = above == 0;", "holds_all_kept_ = true;")

mutant = promise("samplers that keep any set of tokens keep what their definitions keep")
mutant("top-n-sigma-of-the-sum", "more/samplers/top_n_sigma.hpp", "tests/more/samplers/top_n_sigma",
       "squares / count - mean * mean", "squares / count")
mutant("dry-z-too-far", "more/samplers/dry.hpp", "tests/more/samplers/dry",
       "std::min(to - k, detail::at(repeats_, k - from))", "detail::at(repeats_, k - from)")

mutant = promise("each row is processed after its own text, by its own sequence's chain")
mutant("hook-row-of-first-tokens", "sample/texts_of_model.hpp", "tests/sample/processed_model",
       "text.tree().size() - rows + i", "i")
mutant("batch-chain-of-first-row", "sample/steps_of_rows.hpp", "tests/sample/texts_of_model",
       "ProcessedRow(rows.row(i), at(steps, i))", "ProcessedRow(rows.row(i), at(steps, 0 * i))")

mutant = promise("a processor with state makes of a row what it makes of it from scratch, over drafts, trees and failures")
mutant("processed-draft-not-taken-back", "sample/processed_text.hpp", "tests/sample/processed_text",
       "if (seen < seen_) processor_.pop(seen_ - seen);", "")
mutant("processed-path-not-pending", "sample/processed_text.hpp", "tests/sample/processed_text",
       "seen_ += common;", "seen_ += std::ssize(path);")
mutant("processed-fork-anywhere", "sample/processed_text.hpp", "tests/sample/processed_text",
       "fork_ = seen > asked_from_ ? seen : -1;", "fork_ = seen;")

mutant = promise("processors are what they are said to be, forward and back")
mutant("repetition-of-negatives", "more/samplers/penalties.hpp", "tests/more/samplers/penalties",
       "logit > 0 ? logit / theta : logit * theta", "logit / theta")
mutant("ngram-latest-alone", "more/samplers/no_repeat_ngrams.hpp", "tests/more/samplers/no_repeat_ngrams",
       "previous_.back() = std::exchange(latest, end);", "latest = end;")
mutant("budget-matches-without-falling-back", "more/samplers/reasoning_budget.hpp", "tests/more/samplers/reasoning_budget",
       "state = detail::at(shorter_, state - 1);", "state = 0;")
mutant("prompt-taken-back", "more/samplers/after_prompt.hpp", "tests/more/samplers/processors",
       "std::min(n, std::max<Index>(length_ - prompt_, 0))", "n")

mutant = promise("over ranks steps and processors make of a row's parts what they make of the whole")
mutant("over-ranks-top-p-of-the-largest", "more/ranks/steps_over_ranks.hpp", "tests/more/ranks/chain_over_ranks",
       "return most + std::log(sum);", "return most;")
mutant("over-ranks-entropy-of-parts", "more/ranks/steps_over_ranks.hpp", "tests/more/ranks/chain_over_ranks",
       "(from(r, i, 1) - log_share)", "from(r, i, 1)")
mutant("partial-grammar-from-the-first-token", "more/samplers/grammar.hpp", "tests/more/samplers/partial_logits",
       "const Index x = row.first() + k;", "const Index x = k;")

mutant = promise("each draw from a target that is spread over ranks takes a new number")
mutant("sharded-draws-never-move-on", "more/ranks/sharded_model.hpp", "tests/more/ranks/sharded_model",
       "return uniform01(detail::at(texts_of_rows_, row)->source);",
       "auto source = detail::at(texts_of_rows_, row)->source; return uniform01(source);")

mutant = promise("rows that are handed in are processed after the text that they follow, and each by its own sequence's settings")
mutant("handed-in-text-not-compared", "sample/texts_of_model.hpp", "tests/sample/processed_target",
       "std::min(common_length(text.tokens(), context), text.seen())", "std::min<Index>(std::ssize(context), text.seen())")
mutant("handed-in-rows-of-the-first-feed", "sample/processed_target.hpp", "tests/sample/processed_target",
       "numbers(logits), first, feed.rows, changed", "numbers(logits), 0 * first, feed.rows, changed")
mutant("refused-token-shown-as-text", "sample/texts_of_model.hpp", "tests/more/samplers/feed_masks",
       "std::min(common_length(text.tokens(), context), text.seen())", "common_length(text.tokens(), context)")

mutant = promise("a mask has the bits of the tokens that a grammar allows, and none where it has cut a draft off")
mutant("mask-of-a-row-that-is-cut-off", "more/samplers/feed_masks.hpp", "tests/more/samplers/feed_masks",
       "detail::assign(masks_, feed.rows * words(), 0);", "detail::assign(masks_, feed.rows * words(), 1);")
mutant("mask-beyond-the-matcher", "more/samplers/feed_masks.hpp", "tests/more/samplers/feed_masks", "at(mask, k) & among", "at(mask, k)")
