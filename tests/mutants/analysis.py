"""Mutants of statistics, and what is to be expected of a rule."""

from mutants import promise

mutant = promise("statistics count by position, time a step's own work, and project other draft lengths from both")
mutant("stats-cut-off-counted", "stats.hpp", "tests/stats", "std::min(step.accepted, step_emitted)", "step.accepted")
mutant("stats-asked-as-drafted", "stats.hpp", "tests/stats",
       "std::max(step.asked, step.drafted)", "step.drafted")
mutant("costs-of-a-prompt", "draft/draft_length.hpp", "tests/stats", "    if (fed != drafted + 1) return;\n", "")
mutant("costs-of-catching-up", "draft/draft_length.hpp", "tests/stats", "if (asked > 0 && after_a_draft)", "if (asked > 0)")
mutant("projection-flat-drafts", "stats.hpp", "tests/stats", "    if (!draft.measured(0)) draft.add(0, 0);\n", "")
mutant("projection-one-token-late", "analysis/projection.hpp", "tests/analysis/projection",
       "continued(survival, gamma - 1)", "continued(survival, gamma)")
mutant("projection-stops-falling", "analysis/projection.hpp", "tests/analysis/projection",
       "return last * std::pow(", "return last * std::pow(1.0 + 0 * ")
mutant("step-cost-bonus-free", "analysis/projection.hpp", "tests/analysis/projection", "target_cost(n + 1) +", "target_cost(n) +")
mutant("step-cost-asks-for-nothing", "analysis/projection.hpp", "tests/analysis/projection",
       "(gamma > 0 ? draft_cost(n) : 0)", "draft_cost(n)")
mutant("interval-of-tokens", "analysis/acceptance.hpp", "tests/analysis/acceptance",
       "variance / (error * error) : drafts_", "tokens_ : drafts_")
mutant("interval-of-the-middle", "analysis/acceptance.hpp", "tests/analysis/acceptance",
       "(coins * alpha + z * z / 2) / n", "alpha")
mutant("survival-by-drafted", "analysis/acceptance.hpp", "tests/analysis/acceptance",
       "token_survival() const { return per(asked, token); }", "token_survival() const { return per(drafted, token); }")
mutant("json-not-a-number", "stats_json.hpp", "tests/stats_json", "if (!std::isfinite(number)) {", "if (false) {")
mutant("json-no-comma", "stats_json.hpp", "tests/stats_json", "    text_ += bracket;\n    first_ = false;\n", "    text_ += bracket;\n")
mutant("sums-without-drafts", "analysis/acceptance.hpp", "tests/stats", "    drafts_ += other.drafts_;\n", "")
mutant("costs-asked-for-nothing", "stats.hpp", "tests/stats",
       "drafts_every_step_ = step.asked > 0;", "drafts_every_step_ = step.drafted > 0;")
mutant("projection-nothing-of-nothing", "analysis/projection.hpp", "tests/analysis/projection",
       "if (!(last < before)) return last;", "if (!(last <= before)) return last;")
mutant("costs-below-flat", "analysis/cost_curve.hpp", "tests/analysis/cost_curve",
       "if (next < 0) return value(above);", "return value(above);")
mutant("costs-below-free", "analysis/cost_curve.hpp", "tests/analysis/cost_curve",
       "return std::clamp(on_line(above, next, size), least, value(above));",
       "return std::min(on_line(above, next, size), value(above));")
mutant("estimates-of-empty-drafts-alone", "generation.hpp", "tests/analysis/acceptance",
       "if (looked_up_) stats_.acceptance", "if (looked_up_ || drafted.empty()) stats_.acceptance")
mutant("sums-of-times-kept-apart", "stats.hpp", "tests/stats", "    draft_cost += other.draft_cost;\n", "")
mutant("sums-of-squares-kept-apart", "analysis/acceptance.hpp", "tests/stats",
       "    product_ += other.product_;\n", "")

mutant = promise("what drafting is worth is told by the formulae, limits included")
mutant("worth-tokens-cancelled", "analysis/speed_up.hpp", "tests/analysis/speed_up",
       "std::expm1(n * std::log(alpha))", "(std::pow(alpha, n) - 1)")
mutant("worth-of-equals", "analysis/speed_up.hpp", "tests/analysis/speed_up", "return alpha > cost_ratio;", "return alpha >= cost_ratio;")
mutant("worth-best-gamma-costs", "analysis/speed_up.hpp", "tests/analysis/speed_up", "(1 + cost_ratio * n)", "(1 + cost_ratio)")
mutant("worth-best-gamma-unbounded", "analysis/speed_up.hpp", "tests/analysis/speed_up",
       "if (alpha == 1 || cost_ratio == 0) return most;", "")
mutant("worth-oracle-drafts-all", "analysis/speed_up.hpp", "tests/analysis/speed_up",
       "1 / (1 - alpha + alpha * cost_ratio)", "1 / (1 - alpha + cost_ratio)")
mutant("worth-operations-of-drafts", "analysis/speed_up.hpp", "tests/analysis/speed_up",
       "(n * operations_ratio + n + 1)", "(n * operations_ratio + n)")
mutant("worth-call-over-one", "analysis/speed_up.hpp", "tests/analysis/speed_up",
       "(costs.call + static_cast<double>(gamma)", "(1 + static_cast<double>(gamma)")

mutant = promise("an overlap is the sum of minima, and NaN stays in sight")
mutant("overlap-nan", "analysis/overlap.hpp", "tests/analysis/overlap", " + 0 * (scaled_p + scaled_q)", "")
mutant("overlap-nan-by-token", "analysis/overlap.hpp", "tests/analysis/overlap", "std::isnan(a) || a < b", "a < b")
mutant("overlap-lenience", "analysis/overlap.hpp", "tests/analysis/overlap", "scaled_overlap(1 / lenience, p, 1.0, q)", "scaled_overlap(1.0, p, lenience, q)")
mutant("overlap-lists-swapped", "analysis/overlap.hpp", "tests/analysis/overlap", "sparse_overlap(b, q, a, p)", "sparse_overlap(a, q, b, p)")
mutant("overlap-block", "analysis/overlap.hpp", "tests/analysis/overlap", "start += max_block_size", "start += max_block_size + 1")

mutant = promise("expected acceptance is that of the verifiers")
mutant("survival-greedy-clipped", "analysis/survival.hpp", "tests/analysis/survival",
       "return bounded(before * bounded(p / q));", "return std::min(1.0, before * bounded(p / q));")
mutant("survival-greedy-above-one", "analysis/survival.hpp", "tests/analysis/survival", "return std::min(1.0, weight);", "return weight;")
mutant("survival-length", "analysis/survival.hpp", "tests/analysis/survival", "at_least.begin() + 1 + length", "at_least.begin() + length")
mutant("survival-of-any-draft", "analysis/survival.hpp", "tests/analysis/survival", "block.check_drawn();", "")
mutant("survival-walk-mass", "analysis/enumerated_survival.hpp", "tests/analysis/enumerated_survival",
       "visit(depth + 1, mass * x.q, next);", "visit(depth + 1, mass, next);")
mutant("survival-walk-context", "analysis/enumerated_survival.hpp", "tests/analysis/enumerated_survival", "source.truncate(0);", "")
mutant("weights-not-clipped", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "clipped_ ? std::min(1.0, value) : value", "value")
mutant("weights-settled-too-low", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "std::max(remaining * fall,", "std::max(fall,")
mutant("weights-given-up-too-high", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "std::max(-remaining * rise,", "std::max(-rise,")
mutant("weights-never-settled", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "lowest_ = key(std::max(-remaining * rise, -log_largest)) - 1;", "lowest_ = key(-log_largest) - 1;")
mutant("weights-across-one", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "cell.key < 0 ? cell.moment", "cell.key <= 0 ? cell.moment")
mutant("weights-lower-bound-collapsed", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "below(clipped, WeightWalk::Kind::spread", "below(clipped, WeightWalk::Kind::collapsed")
mutant("weights-upper-bound-spread", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "above(clipped, WeightWalk::Kind::collapsed", "above(clipped, WeightWalk::Kind::spread")
mutant("weights-spread-off-the-mean", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "(mean - low) / (high - low);", "0.5 + 0 * mean;")
mutant("weights-key-truncated", "analysis/context_free_survival.hpp", "tests/analysis/context_free_survival",
       "return truncated - (static_cast<double>(truncated) > quotient ? 1 : 0);", "return truncated;")

mutant = promise("costs that have faded are guessed, and those that have not are known")
mutant("costs-fade-late", "analysis/cost_curve.hpp", "tests/analysis/cost_curve", "faded = 0.1;", "faded = 0.01;")
mutant("costs-fade-early", "analysis/cost_curve.hpp", "tests/analysis/cost_curve", "faded = 0.1;", "faded = 0.2;")
mutant("fading-mean-limit-grows", "analysis/cost_curve.hpp", "tests/analysis/cost_curve",
       "if (weight_ > values) fade(values / weight_);", "fade(values / weight_);")
