# SPDX-License-Identifier: MIT
"""Mutants of formulae and statistics."""

from mutants import promise

mutant = promise("what drafting is worth is told by the formulae, limits included")
mutant("worth-tokens-cancelled", "more/analysis/speed_up.hpp", "tests/more/analysis/speed_up",
       "std::expm1(n * std::log(alpha))", "(std::pow(alpha, n) - 1)")

mutant = promise("expected acceptance is that of the verifiers")
mutant("survival-greedy-clipped", "more/analysis/survival.hpp", "tests/more/analysis/survival",
       "return bounded(before * bounded(p / q));", "return std::min(1.0, before * bounded(p / q));")
mutant("block-survival-clipped-twice", "verify/rules/block.hpp", "tests/more/analysis/acceptance",
       "std::min(1.0, before * (p / q))", "before * std::min(1.0, p / q)")

mutant = promise("keyed agreement is the sum of its definition")
mutant("agreement-without-what-is-alone", "more/analysis/row_acceptance.hpp", "tests/more/analysis/keyed_agreement",
       "else p_sum += p_x;", "else p_sum += 0 * p_x;")

mutant = promise("statistics count by position, and project other draft lengths from that")
mutant("projection-one-token-late", "more/analysis/projection.hpp", "tests/more/analysis/projection",
       "continued(survival, gamma - 1,", "continued(survival, gamma,")
mutant("survival-after-the-end", "measure/stats.hpp", "tests/measure/stats",
       "std::min({asked, step.accepted + 1, step_emitted})", "std::min({asked, step.accepted + 1})")
mutant("survival-of-all-drafts", "more/analysis/acceptance.hpp", "tests/more/analysis/acceptance",
       "token_reached_[i] += token_survival;", "token_reached_[i] += 1;")
mutant("projection-from-one-call", "more/analysis/projection.hpp", "tests/more/analysis/projection",
       "measures.target_cost.without_rare(few)", "measures.target_cost")

mutant = promise("the error of a rate takes into account that tokens of one draft depend on each other")
mutant("rate-without-covariance", "more/analysis/acceptance.hpp", "tests/more/analysis/acceptance", "- 2 * alpha * product ", "")

mutant = promise("a verdict is a part of what a step costs, and no length, nor none, stays without probes")
mutant("verdicts-cost-nothing", "more/lengths/step_costs.hpp", "tests/more/lengths/step_costs",
       "step.target_time + step.verify_time", "step.target_time")
mutant("probes-of-what-loses-least-alone", "more/lengths/cost_optimal_length.hpp", "tests/more/lengths/cost_optimal_length",
       "(1 + line(length).taken) * std::clamp", "std::clamp")
mutant("no-probe-without-a-draft", "more/lengths/early_stopping_length.hpp", "tests/more/lengths/early_stopping_length",
       "drafts_ && number % 4 == 3 ? 0 :", "")

mutant = promise("a running survival never rises")
mutant("running-survival-not-falling", "more/lengths/running_survival.hpp", "tests/more/lengths/running_survival",
       "here * std::min(1.0, here / before)", "here")
