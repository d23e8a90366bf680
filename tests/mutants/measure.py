# SPDX-License-Identifier: MIT
"""Mutants of formulae and statistics."""

from mutants import promise

mutant = promise("what drafting is worth is told by the formulae, limits included")
mutant("worth-tokens-cancelled", "analysis/speed_up.hpp", "tests/analysis/speed_up",
       "std::expm1(n * std::log(alpha))", "(std::pow(alpha, n) - 1)")

mutant = promise("expected acceptance is that of the verifiers")
mutant("survival-greedy-clipped", "analysis/survival.hpp", "tests/analysis/survival",
       "return bounded(before * bounded(p / q));", "return std::min(1.0, before * bounded(p / q));")
mutant("block-survival-clipped-twice", "verify/rules/block.hpp", "tests/measure/acceptance",
       "std::min(1.0, before * (p / q))", "before * std::min(1.0, p / q)")

mutant = promise("keyed agreement is the sum of its definition")
mutant("agreement-without-what-is-alone", "analysis/keyed_agreement.hpp", "tests/analysis/keyed_agreement",
       "p_sum = common.p_alone, q_sum", "p_sum = 0, q_sum")

mutant = promise("statistics count by position, and project other draft lengths from that")
mutant("projection-one-token-late", "measure/projection.hpp", "tests/measure/projection",
       "continued(survival, gamma - 1)", "continued(survival, gamma)")
mutant("survival-by-drafted", "measure/acceptance.hpp", "tests/measure/acceptance",
       "token_survival() const { return per(asked, token); }", "token_survival() const { return per(drafted, token); }")

mutant = promise("the error of a rate takes into account that tokens of one draft depend on each other")
mutant("rate-without-covariance", "measure/acceptance.hpp", "tests/measure/acceptance", "- 2 * alpha * product_ ", "")

mutant = promise("a running survival never rises")
mutant("running-survival-not-falling", "measure/running_survival.hpp", "tests/measure/running_survival",
       "here * std::min(1.0, here / before)", "here")
