"""Mutants of what is to be expected of a rule."""

from mutants import promise

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

mutant = promise("expected acceptance is that of the verifiers")
mutant("survival-greedy-clipped", "analysis/survival.hpp", "tests/analysis/survival",
       "return bounded(before * bounded(p / q));", "return std::min(1.0, before * bounded(p / q));")
mutant("survival-greedy-above-one", "analysis/survival.hpp", "tests/analysis/survival", "return std::min(1.0, weight);", "return weight;")
mutant("survival-length", "analysis/survival.hpp", "tests/analysis/survival", "beyond.begin() + length, 0.0)", "beyond.begin() + std::max<Index>(length - 1, 0), 0.0)")
mutant("survival-of-any-draft", "analysis/survival.hpp", "tests/analysis/survival", "detail::draft_rows_for<Rule>", "detail::DraftRows::unused")
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

mutant = promise("keyed agreement is the sum of its definition")
mutant("agreement-without-what-is-alone", "analysis/keyed_agreement.hpp", "tests/analysis/keyed_agreement",
       "p_sum = common.p_alone, q_sum", "p_sum = 0, q_sum")
mutant("agreement-unsorted", "analysis/keyed_agreement.hpp", "tests/analysis/keyed_agreement",
       "  std::ranges::sort(common.tokens, {}, &detail::CommonTokens::Numbers::ratio);\n", "")
mutant("agreement-beyond-p-forgotten", "analysis/keyed_agreement.hpp", "tests/analysis/keyed_agreement",
       "== 0) q_alone +=", "== 0 && x < p.vocab_size()) q_alone +=")
