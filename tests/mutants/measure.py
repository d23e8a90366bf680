"""Mutants of what a run counted and timed, and of what is projected from it."""

from mutants import promise

mutant = promise("statistics count by position, time a step's own work, and project other draft lengths from both")
mutant("stats-cut-off-counted", "measure/stats.hpp", "tests/measure/stats", "std::min(step.accepted, step_emitted)", "step.accepted")
mutant("stats-asked-as-drafted", "measure/stats.hpp", "tests/measure/stats",
       "std::max(step.asked, step.drafted)", "step.drafted")
mutant("costs-of-a-prompt", "measure/step_record.hpp", "tests/measure/stats", "    if (fed != drafted + 1) return;\n", "")
mutant("costs-of-catching-up", "measure/step_record.hpp", "tests/measure/stats", "if (asked > 0 && after_a_draft)", "if (asked > 0)")
mutant("seconds-of-another-size", "measure/clock.hpp", "tests/measure/stats", "/ 1e9", "/ 1e6")
mutant("projection-flat-drafts", "measure/projection.hpp", "tests/measure/stats", "  if (!draft.measured(0)) draft.add(0, 0);\n", "")
mutant("projection-one-token-late", "measure/projection.hpp", "tests/measure/projection",
       "continued(survival, gamma - 1)", "continued(survival, gamma)")
mutant("projection-stops-falling", "measure/projection.hpp", "tests/measure/projection",
       "return last * std::pow(", "return last * std::pow(1.0 + 0 * ")
mutant("step-cost-bonus-free", "measure/projection.hpp", "tests/measure/projection", "target_cost(n + 1) +", "target_cost(n) +")
mutant("step-cost-asks-for-nothing", "measure/projection.hpp", "tests/measure/projection",
       "(gamma > 0 ? draft_cost(n) : 0)", "draft_cost(n)")
mutant("interval-of-tokens", "measure/acceptance.hpp", "tests/measure/acceptance",
       "variance / (error * error) : drafts_", "tokens_ : drafts_")
mutant("interval-of-the-middle", "measure/acceptance.hpp", "tests/measure/acceptance",
       "(coins * alpha + z * z / 2) / n", "alpha")
mutant("survival-by-drafted", "measure/acceptance.hpp", "tests/measure/acceptance",
       "token_survival() const { return per(asked, token); }", "token_survival() const { return per(drafted, token); }")
mutant("json-not-a-number", "measure/stats_json.hpp", "tests/measure/stats_json", "if (!std::isfinite(number)) {", "if (false) {")
mutant("json-no-comma", "measure/stats_json.hpp", "tests/measure/stats_json", "    text_ += bracket;\n    first_ = false;\n", "    text_ += bracket;\n")
mutant("sums-without-drafts", "measure/acceptance.hpp", "tests/measure/stats", "    drafts_ += other.drafts_;\n", "")
mutant("costs-asked-for-nothing", "measure/stats.hpp", "tests/measure/stats",
       "drafts_every_step_ = step.asked > 0;", "drafts_every_step_ = step.drafted > 0;")
mutant("projection-nothing-of-nothing", "measure/projection.hpp", "tests/measure/projection",
       "if (!(last < before)) return last;", "if (!(last <= before)) return last;")
mutant("costs-below-flat", "measure/cost_curve.hpp", "tests/measure/cost_curve",
       "if (next < 0) return value(above);", "return value(above);")
mutant("costs-below-free", "measure/cost_curve.hpp", "tests/measure/cost_curve",
       "return std::clamp(on_line(above, next, size), least, value(above));",
       "return std::min(on_line(above, next, size), value(above));")
mutant("estimates-of-empty-drafts-alone", "loop/step_base.hpp", "tests/measure/acceptance",
       "if (told) stats_.acceptance", "if (told || last_.drafted == 0) stats_.acceptance")
mutant("sums-of-times-kept-apart", "measure/stats.hpp", "tests/measure/stats", "    draft_cost += other.draft_cost;\n", "")
mutant("sums-of-squares-kept-apart", "measure/acceptance.hpp", "tests/measure/stats",
       "    product_ += other.product_;\n", "")

mutant = promise("costs that have faded are guessed, and those that have not are known")
mutant("costs-fade-late", "measure/cost_curve.hpp", "tests/measure/cost_curve", "faded = 0.1;", "faded = 0.01;")
mutant("costs-fade-early", "measure/cost_curve.hpp", "tests/measure/cost_curve", "faded = 0.1;", "faded = 0.2;")
mutant("fading-mean-limit-grows", "measure/cost_curve.hpp", "tests/measure/cost_curve",
       "if (weight_ > values) fade(values / weight_);", "fade(values / weight_);")

mutant = promise("a running survival holds what is seen against what the positions before suggest")
mutant("running-guess-too-heavy", "measure/running_survival.hpp", "tests/measure/running_survival",
       "guess_weight = 3;", "guess_weight = 30;")
mutant("running-survival-not-falling", "measure/running_survival.hpp", "tests/measure/running_survival",
       "here * std::min(1.0, here / before)", "here")
mutant("running-limit-of-proposals-alone", "measure/running_survival.hpp", "tests/measure/running_survival",
       "    for (FadingMean& mean : survived_) mean.limit(steps);\n", "")

mutant = promise("what no step, call or draft can be is named, and counted nowhere")
mutant("step-unlooked-at", "measure/running_survival.hpp", "tests/measure/running_survival", "    detail::check_step(step);\n", "")
mutant("counted-unlooked-at", "measure/stats.hpp", "tests/measure/stats", "    detail::check_step(step);\n", "")
mutant("accepted-more-than-drafted", "measure/step_record.hpp", "tests/measure/stats tests/measure/running_survival",
       "step.accepted < 0 || step.accepted > step.drafted", "step.accepted < 0")
mutant("survival-too-short", "measure/running_survival.hpp", "tests/measure/running_survival",
       "if (std::ssize(step.survival) < step.drafted)", "if (false)")
mutant("probabilities-beyond-the-draft", "measure/acceptance.hpp", "tests/measure/acceptance",
       "if (std::ssize(p) > length)", "if (false)")
mutant("probabilities-of-one-side", "measure/acceptance.hpp", "tests/measure/acceptance", "if (p.size() != q.size())", "if (false)")
mutant("cost-of-no-number", "measure/cost_curve.hpp", "tests/measure/cost_curve", "if (!(cost >= 0 && std::isfinite(cost)))", "if (cost < 0)")
mutant("size-zero-never-measured", "measure/cost_curve.hpp", "tests/measure/cost_curve", "return size >= 0 && size < sizes() && known(size);", "return size > 0 && size < sizes() && known(size);")
mutant("lengths-without-end", "measure/projection.hpp", "tests/measure/projection", "  detail::check_drafted(\"most\", most);\n", "  if (most < 0) detail::check_drafted(\"most\", most);\n  most = std::min<Index>(most, 16);\n")
mutant("fading-of-no-number", "measure/cost_curve.hpp", "tests/measure/cost_curve tests/measure/running_survival",
       "if (!(decay >= 0 && decay <= 1))", "if (decay < 0 || decay > 1)")

mutant = promise("statistics of trees count what was come to")
mutant("ranks-believed", "measure/step_record.hpp", "tests/measure/stats",
       "if (step.tree.depth >= 0) return check_tree(step);", "")
mutant("offers-of-the-eldest", "measure/stats.hpp", "tests/measure/stats",
       "for (const Index children : tree.offered) detail::count(offered_by_rank, children);",
       "for (const Index children : tree.offered) detail::count(offered_by_rank, std::min<Index>(children, 1));")
