"""Mutants of random bits, coins, draws and the race."""

from mutants import promise

mutant = promise("uniform01 is a multiple of 2^-53 in [0, 1), from 64 fair bits of any generator")
mutant("uniform-fewer-bits", "chance/random.hpp", "tests/chance/random", ">> 11) * 0x1p-53", ">> 22) * 0x1p-42")
mutant("uniform-reaches-one", "chance/random.hpp", "tests/chance/random",
       "(random_bits64(generator) >> 11) * 0x1p-53", "(random_bits64(generator)) * 0x1p-64")
mutant("bits-low-half-first", "chance/random.hpp", "tests/chance/random",
       "bits = (bits << width) | fresh;", "bits |= fresh << filled;")
mutant("bits-of-any-range", "chance/random.hpp", "tests/chance/random",
       "while ((fresh >> width) != 0) fresh = word();", "")
mutant("bits-minimum-forgotten", "chance/random.hpp", "tests/chance/random tests/law_concepts",
       "static_cast<std::uint64_t>(generator() - Generator::min())", "static_cast<std::uint64_t>(generator())")

mutant = promise("a generator of any kind gives a batch the bits that it gives alone")
mutant("any-generator-words", "chance/any_generator.hpp", "tests/chance/any_generator",
       "return random_bits64(generator); }", "return static_cast<std::uint64_t>(generator()); }")

mutant = promise("a Philox gives the published numbers, from any of them on")
mutant("philox-nine-rounds", "chance/philox.hpp", "tests/chance/philox", "round < 10;", "round < 9;")
mutant("philox-high-half-first", "chance/philox.hpp", "tests/chance/philox", "offset_++ % 2 == 0 ? 0 : 2", "offset_++ % 2 == 0 ? 2 : 0")
mutant("philox-stream-cut", "chance/philox.hpp", "tests/chance/philox", "low(stream_), high(stream_)}", "low(stream_), 0}")
mutant("philox-offset-cut", "chance/philox.hpp", "tests/chance/philox", "block({low(n), high(n),", "block({low(n), 0,")
mutant("philox-discards-blocks", "chance/philox.hpp", "tests/chance/philox", "{ offset_ += count; }", "{ offset_ += 2 * count; }")

mutant = promise("a coin falls with its probability")
mutant("coin-inverted", "chance/chance.hpp", "tests/chance/chance", "uniform01(*generator_) < p", "uniform01(*generator_) > p")
mutant("coin-closed", "chance/chance.hpp", "tests/chance/chance tests/verify/token tests/verify/block",
       "uniform01(*generator_) < p", "uniform01(*generator_) <= p")
mutant("coin-nearly-certain", "chance/chance.hpp", "tests/chance/chance",
       "if (h >= 1) return true;", "if (h > 0.99) return true;")
mutant("coin-nan-is-no", "chance/chance.hpp", "tests/chance/chance", "if (h <= 0) return false;", "if (!(h > 0)) return false;")

mutant = promise("a race has its closed form's law, and ends")
mutant("race-weight-forgotten", "chance/race.hpp", "tests/chance/race",
       "residual(w, p, 1.0, q, y) / weight", "residual(1.0, p, 1.0, q, y) / p.probability(y)")
mutant("race-weight-in-one-place", "chance/race.hpp", "tests/chance/race", "std::max(w * p.prob", "std::max(p.prob")
mutant("race-never-lost", "chance/race.hpp", "tests/chance/race",
       "if (!chance.coin(w)) return std::nullopt;", "if (w <= 0) return std::nullopt;")
mutant("race-lost-at-the-end", "chance/race.hpp", "tests/chance/race",
       "return detail::settle_race(chance, w, p, q);", "return std::nullopt;")
mutant("race-without-end", "chance/race.hpp", "tests/chance/race", "round < rounds;", ";", endless=True)
mutant("settle-normaliser", "chance/race.hpp", "tests/chance/race", "rest.mass() / (rest.mass() + lost)", "rest.mass()")
mutant("settle-weight-forgotten", "chance/race.hpp", "tests/chance/race",
       "const ResidualRow<P, Q> rest(w, p, 1.0, q);", "const ResidualRow<P, Q> rest(1.0, p, 1.0, q);")
mutant("settle-always-won", "chance/race.hpp", "tests/chance/race",
       "const double lost = std::max(1 - w, 0.0);", "const double lost = 0;")
mutant("settle-no-mass", "chance/race.hpp", "tests/chance/race", "if (lost > 0) return std::nullopt;", "")
mutant("race-of-many-rounds", "chance/race.hpp", "tests/chance/race", "max_race_rounds = 64;", "max_race_rounds = 100000;")

mutant = promise("a keyed draw is what its numbers say, at its place, on rows of any kind")
mutant("keyed-place-forgotten", "chance/keyed.hpp", "tests/chance/keyed",
       "SplitMix64(seed_)() + static_cast<std::uint64_t>(position_ + place)", "SplitMix64(seed_)()")
mutant("keyed-seed-beside-place", "chance/keyed.hpp", "tests/chance/keyed",
       "SplitMix64(SplitMix64(seed_)() + static_cast", "SplitMix64(seed_ + static_cast")
mutant("keyed-stays", "chance/keyed.hpp", "tests/chance/keyed", "    ++position_;\n", "")
mutant("keyed-place-of-a-draw-forgotten", "chance/keyed.hpp", "tests/chance/keyed", "static_cast<std::uint64_t>(position_ + place)", "static_cast<std::uint64_t>(position_)")
mutant("keyed-rest-of-a-row-lost", "rows/read/first_arrival.hpp", "tests/chance/keyed",
       "if (whole == count) return;", "if (whole > 0) return;")
mutant("keyed-rest-from-the-start", "rows/read/first_arrival.hpp", "tests/chance/keyed",
       "ConsecutiveTokens{first + whole}", "ConsecutiveTokens{first}")
mutant("keyed-list-without-gaps", "rows/read/first_arrival.hpp", "tests/chance/keyed",
       "const bool consecutive = ids(count - 1) - ids(0) == count - 1;", "const bool consecutive = true;")
mutant("keyed-ranks-count-from-zero", "rows/read/first_arrival.hpp", "tests/chance/keyed",
       "mine.look_at(part, first);", "mine.look_at(part);")
mutant("keyed-last-rank-wins", "ranks/sharded.hpp", "tests/chance/keyed",
       "exchange_.from(r, 0) < exchange_.from(first, 0)", "exchange_.from(r, 0) > exchange_.from(first, 0)")
mutant("keyed-bad-numbers-pass", "rows/read/first_arrival.hpp", "tests/chance/keyed",
       "if (first_.has_bad_row) refuse(p, ids, from);", "")
mutant("keyed-rank-that-fails-left-out", "ranks/sharded.hpp", "tests/chance/keyed",
       'detail::invalid_distribution("rank ", r, " could not draw from its part of a row");', "continue;")
