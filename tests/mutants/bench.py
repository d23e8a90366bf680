"""Mutants of the acceptance laboratory."""

from mutants import promise

mutant = promise("synthetic rows overlap as much as is dialled, differ by context, and are what their family says")
mutant("dial-backwards", "bench/acceptance/dial.hpp", "bench/tests/families",
       "(found > wanted ? low : high) = middle;", "(found < wanted ? low : high) = middle;")
mutant("dial-over-a-jump", "bench/acceptance/dial.hpp", "bench/tests/families",
       "if (std::abs(overlap_at(high) - wanted) > dial_tolerance)", "if (false)")
mutant("pool-target-at-temperature-1", "bench/acceptance/pool.hpp", "bench/tests/families", "cool(p), cool(q);", "cool(q);")
mutant("pool-draft-not-truncated", "bench/acceptance/pool.hpp", "bench/tests/families",
       "family.finish(p), family.finish(q);", "family.finish(p);")
mutant("pool-one-seed-for-all", "bench/acceptance/pool.hpp", "bench/tests/families",
       "mixed(setting_.seed, static_cast<std::uint64_t>(i))", "mixed(setting_.seed, 1)")
mutant("hashed-model-first-tokens", "bench/acceptance/hashed_model.hpp", "bench/tests/families",
       "context.last(used)", "context.first(used)")
mutant("hashed-model-sum-of-tokens", "bench/acceptance/hashed_model.hpp", "bench/tests/families",
       "hash = mixed(hash, static_cast<std::uint64_t>(x))", "hash += static_cast<std::uint64_t>(x)")
mutant("markov-wrong-parent", "bench/acceptance/markov.hpp", "bench/tests/families",
       "target.row(i).array() *= draft.row(i % states).array();",
       "target.row(i).array() *= draft.row(i / (vocab_size + 1)).array();")

mutant = promise("the laboratory measures what is to be expected, states its error, and flags a rule that changes the text")
mutant("drafts-without-context", "bench/acceptance/one_step.hpp", "bench/tests/acceptance_lab",
       "context.push_back(out.tokens.back());", "")
mutant("verdicts-all-alike", "bench/acceptance/one_step.hpp", "bench/tests/acceptance_lab",
       "std::fill_n(survival.begin(), verdict.accepted, 1.0);", "std::fill_n(survival.begin(), 1, 1.0);")
mutant("generations-all-alike", "bench/acceptance/whole_loop.hpp", "bench/tests/acceptance_lab",
       "SplitMix64 generator(mixed(seed, static_cast<std::uint64_t>(k)));", "SplitMix64 generator(seed);")
mutant("gain-unpaired", "bench/acceptance/estimate.hpp", "bench/tests/acceptance_lab", "b[i] - ratio * a[i]", "b[i] - a[i]")
mutant("error-of-the-sample", "bench/acceptance/estimate.hpp", "bench/tests/acceptance_lab",
       "squares / (n * (n - 1))", "squares / (n * n)")
mutant("exact-without-its-token", "bench/acceptance/exact.hpp", "bench/tests/acceptance_lab", "return 1 + specdec::", "return specdec::")
mutant("law-of-another-reference", "bench/acceptance/law.hpp", "bench/tests/acceptance_lab", ", .reference = rule.reference", "")
mutant("lossy-not-flagged", "bench/acceptance/law.hpp", "bench/tests/acceptance_lab", "if (report.lossless) return", "if (true) return")
