"""Mutants of logits, and what is done to a target's rows before a token is drawn from them."""

from mutants import promise

mutant = promise("logits are a distribution at their temperature, above their cut")
mutant("logits-temperature-upside-down", "core/logits.hpp", "tests/core/logits",
       "inverse_temperature_(1 / temperature)", "inverse_temperature_(temperature)")
mutant("logits-below-cut", "core/logits.hpp", "tests/core/logits", "if (l < cut_) return 0;", "")
mutant("logits-sums-not-rescaled", "core/logits.hpp", "tests/core/logits",
       "sums_[s] *= static_cast<Scalar>(factor);", "(void)s;")
mutant("logits-normaliser-upside-down", "core/logits.hpp", "tests/core/logits",
       "inverse_temperature_ - normaliser.value)", "inverse_temperature_ + normaliser.value)")
mutant("logits-sum-behind-the-end", "core/logits.hpp", "tests/core/logits", "if (count > 0 && state_", "if (state_")
mutant("logits-any-temperature", "core/logits.hpp", "tests/core/logits", "if (!(temperature >= 0)) detail", "if (false) detail")
mutant("top-k-one-short", "sample/top_k.hpp", "tests/sample/chain",
       "static_cast<double>(k_))", "static_cast<double>(k_ - 1))")
mutant("top-p-less", "sample/top_p.hpp", "tests/sample/chain", "p_ * total, total)", "0.99 * p_ * total, total)")
mutant("min-p-without-temperature", "sample/min_p.hpp", "tests/sample/chain",
       "row.temperature() * std::log(p_)", "std::log(p_)")
mutant("hook-context-too-long", "sample/processed_model.hpp", "tests/sample/processed_model",
       "context_.size() - static_cast<std::size_t>(rows - 1 - i)", "context_.size() + 0 * static_cast<std::size_t>(i)")
mutant("hook-context-not-rolled-back", "sample/processed_model.hpp", "tests/sample/processed_model",
       "truncate(static_cast<Index>(before));", "")
