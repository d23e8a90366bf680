# SPDX-License-Identifier: MIT
"""Mutants of the kernels, of random numbers, of the race and of keyed draws."""

from mutants import promise

mutant = promise("a kernel gives the same right result to the last bit at every width of the machine")
mutant("kernel-rounds-once-at-some-widths", "kernels/machine_width.hpp", "tests/kernels/machine_width",
       '#define SPECDEC_UNFUSED _Pragma("clang fp contract(off) reassociate(off)")', "#define SPECDEC_UNFUSED")
mutant("pair-sum-of-first-numbers", "kernels/reductions.hpp", "tests/rows/read/overlap tests/rows/read/residual",
       "static_cast<double>(q[start + i])", "static_cast<double>(q[i])")
mutant("exponential-of-a-worse-polynomial", "kernels/exponentials.hpp", "tests/kernels/exponentials",
       "0x1.3ceab6p-7F", "0x1.4p-7F")

mutant = promise("an exponential number has all the bits of its uniform one")
mutant("arrival-of-few-bits", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "const double u = (number_of(bits) + 0.5) * 0x1p-64;", "const double u = 1 - (number_of(~bits) + 0.5) * 0x1p-64;")

mutant = promise("any generator's bits become fair numbers below one")
mutant("uniform-reaches-one", "chance/random.hpp", "tests/chance/random",
       "(random_bits64(generator) >> 11) * 0x1p-53", "(random_bits64(generator)) * 0x1p-64")
mutant("bits-minimum-forgotten", "chance/random.hpp", "tests/chance/random tests/law_concepts",
       "static_cast<std::uint64_t>(generator() - Generator::min())", "static_cast<std::uint64_t>(generator())")

mutant = promise("a Philox gives the published numbers of its stream and offset")
mutant("philox-stream-cut", "chance/philox.hpp", "tests/chance/philox", "low(stream_), high(stream_)}", "low(stream_), 0}")

mutant = promise("a race has its closed form's law, and ends")
mutant("race-weight-forgotten", "chance/race.hpp", "tests/chance/race",
       "chance.coin(residual / std::max(w * p,", "chance.coin(residual / std::max(p,")
mutant("race-lost-at-the-end", "chance/race.hpp", "tests/chance/race",
       "auto end = round_of(most);", "if (most >= 0) return std::nullopt;\n  auto end = round_of(most);")
mutant("settle-normaliser", "chance/race.hpp", "tests/chance/race", "rest.mass() / (rest.mass() + lost)", "rest.mass()")

mutant = promise("a keyed draw is what its numbers say, at its own place")
mutant("keyed-place-forgotten", "chance/keyed.hpp", "tests/chance/keyed",
       "SplitMix64(seed_)() + static_cast<std::uint64_t>(position_ + place)", "SplitMix64(seed_)()")

mutant("arrival-passed-over", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "more_than_rounding = 1 + 0x1p-20", "more_than_rounding = 1 - 0x1p-2")
mutant("arrival-of-the-state-before", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "static_cast<std::uint64_t>(first + 1) * splitmix_step", "static_cast<std::uint64_t>(first) * splitmix_step")
mutant("arrival-of-a-negative-number", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "std::bit_cast<Bits>(Scalar{2})", "std::bit_cast<Bits>(Scalar{-2})")

mutant = promise("numbers at addresses give the law, on a device, too, however a race ends")
mutant("address-lost-part-forgotten", "chance/race_rounds.hpp", "tests/more/device/addressed_chance",
       "return w < 1 ? (1 - w) + w * share : share;", "return share;")
mutant("device-race-never-settled", "more/device/drafted.hpp", "tests/more/device/requests", "return end.winner;", "return std::nullopt;")

mutant = promise("a device keeps the tokens that the host keeps")
mutant("device-cut-drops-equals", "more/device/cut.hpp", "tests/more/device/cut",
       "if (l >= cut) team.at(mine, lane) += weight(l);\n      });\n      next",
       "if (l > cut) team.at(mine, lane) += weight(l);\n      });\n      next")
mutant("device-top-p-of-all-tokens", "more/device/cut.hpp", "tests/more/device/cut",
       "cut > -infinity ? static_cast<double>(detail::weight_from(crew, row, cut, mass))", "false ? 0.0")
