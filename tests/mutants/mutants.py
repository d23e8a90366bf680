"""The mutants, by the promise that each one breaks.

A mutant replaces `old`, which its header (in include/specdec/, or bench/...) must hold exactly once, by `new`;
`tests` are the sources among which one must notice, the likeliest first. To add one: break a promise in the smallest
way that still compiles. Mutants that only cost time are not listed: no test here measures time.
"""

from dataclasses import dataclass


@dataclass
class Mutant:
    promise: str
    name: str
    header: str
    tests: tuple
    old: str
    new: str


MUTANTS = []


def promise(text):
    """What the mutants added next break."""

    def mutant(name, header, tests, old, new):
        MUTANTS.append(Mutant(text, name, header, tuple(tests.split()), old, new))

    return mutant


mutant = promise("uniform01 is a multiple of 2^-53 in [0, 1), from 64 fair bits of any generator")
mutant("uniform-fewer-bits", "core/random.hpp", "tests/core/random", ">> 11) * 0x1p-53", ">> 22) * 0x1p-42")
mutant("uniform-reaches-one", "core/random.hpp", "tests/core/random",
       "(random_bits64(generator) >> 11) * 0x1p-53", "(random_bits64(generator)) * 0x1p-64")
mutant("bits-low-half-first", "core/random.hpp", "tests/core/random",
       "bits = (bits << width) | fresh;", "bits |= fresh << filled;")
mutant("bits-of-any-range", "core/random.hpp", "tests/core/random",
       "while ((fresh >> width) != 0) fresh = word();", "")
mutant("bits-minimum-forgotten", "core/random.hpp", "tests/core/random tests/law_concepts",
       "static_cast<std::uint64_t>(generator() - Generator::min())", "static_cast<std::uint64_t>(generator())")

mutant = promise("a coin falls with its probability")
mutant("coin-inverted", "core/chance.hpp", "tests/core/chance", "uniform01(*generator_) < p", "uniform01(*generator_) > p")
mutant("coin-closed", "core/chance.hpp", "tests/core/chance tests/verify/token tests/verify/block",
       "uniform01(*generator_) < p", "uniform01(*generator_) <= p")
mutant("coin-nearly-certain", "core/chance.hpp", "tests/core/chance",
       "if (h >= 1) return true;", "if (h > 0.99) return true;")
mutant("coin-nan-is-no", "core/chance.hpp", "tests/core/chance", "if (h <= 0) return false;", "if (!(h > 0)) return false;")

mutant = promise("a draw is the inverse distribution function of its row; never a token of probability 0")
mutant("draw-block-search", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "std::upper_bound(", "std::lower_bound(")
mutant("draw-stops-reading-late", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "total() <= u) extend();", "total() < u) extend();")
mutant("draw-token-search", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "x < end && sum <= u; ++x)", "x < end && sum < u; ++x)")
mutant("draw-zero-mass", "core/prefix_sampler.hpp", "tests/core/prefix_sampler", "if (!(mass > 0)) continue;", "")
mutant("draw-short-row", "core/prefix_sampler.hpp", "tests/core/prefix_sampler", "if (u >= total()) u = wrap(u);", "")
mutant("draw-short-row-head", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "const double v = (u - total()) / (1 - total()) * total();", "const double v = 0;")
mutant("draw-offset-forgotten", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "search(block, u - (block == 0 ? 0.0 : sums_[static_cast<std::size_t>(block - 1)]))", "search(block, u)")
mutant("draw-without-mass", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       'if (!(total() > 0)) throw InvalidDistribution("the probabilities sum to 0");', "")
mutant("draw-from-too-much", "core/prefix_sampler.hpp", "tests/core/prefix_sampler", "if (total() + sum > most)", "if (false)")
mutant("draw-nan-block", "core/prefix_sampler.hpp", "tests/core/prefix_sampler tests/verify/drafted_block",
       "if (!(sum >= 0) || !std::isfinite(sum))", "if (sum < 0)")

mutant = promise("a view reads any layout; argmax takes the lowest id and refuses NaN")
mutant("view-strides-swapped", "core/numbers.hpp", "tests/core/dense",
       "down_(M::IsRowMajor ? matrix.outerStride() : matrix.innerStride())", "down_(M::IsRowMajor ? matrix.innerStride() : matrix.outerStride())")
mutant("view-stride-forgotten", "core/numbers.hpp", "tests/core/dense",
       "data_ + start * step(), count", "data_ + start, count")
mutant("one-hot-everywhere", "core/one_hot.hpp", "tests/core/one_hot tests/law_lossless",
       "return x == token_ ? 1.0 : 0.0;", "return 1.0;")

mutant = promise("a residual is (a·p − b·q)+, and NaN stays in sight")
mutant("residual-absolute", "core/residual.hpp", "tests/core/residual",
       "0.5 * (difference + difference.abs()).sum()", "difference.abs().sum()")
mutant("residual-absolute-by-token", "core/residual.hpp", "tests/core/residual",
       "return d < 0 ? 0 : d;", "return std::abs(d);")
mutant("residual-unclipped", "core/residual.hpp", "tests/core/residual tests/core/race",
       "return std::max(difference, 0.0);", "return difference;")
mutant("residual-not-normalised", "core/residual.hpp", "tests/core/residual tests/core/race",
       "return residual(a_, p_, b_, q_, x) / mass_;", "return residual(a_, p_, b_, q_, x);")
mutant("residual-nan-is-nothing", "core/residual.hpp", "tests/core/residual tests/verify/drafted_block",
       "if (!std::isfinite(difference))", "if (false)")

mutant = promise("a race has its closed form's law, and ends")
mutant("race-weight-forgotten", "core/race.hpp", "tests/core/race",
       "residual(w, p, 1.0, q, y) / weight", "residual(1.0, p, 1.0, q, y) / p.probability(y)")
mutant("race-weight-in-one-place", "core/race.hpp", "tests/core/race", "std::max(w * p.prob", "std::max(p.prob")
mutant("race-never-lost", "core/race.hpp", "tests/core/race",
       "if (!chance.coin(w)) return std::nullopt;", "if (w <= 0) return std::nullopt;")
mutant("race-lost-at-the-end", "core/race.hpp", "tests/core/race",
       "return detail::settle_race(chance, w, p, q);", "return std::nullopt;")
mutant("race-without-end", "core/race.hpp", "tests/core/race", "round < rounds;", ";")
mutant("settle-normaliser", "core/race.hpp", "tests/core/race", "rest.mass() / (rest.mass() + lost)", "rest.mass()")
mutant("settle-weight-forgotten", "core/race.hpp", "tests/core/race",
       "const ResidualRow<P, Q> rest(w, p, 1.0, q);", "const ResidualRow<P, Q> rest(1.0, p, 1.0, q);")
mutant("settle-always-won", "core/race.hpp", "tests/core/race",
       "const double lost = std::max(1 - w, 0.0);", "const double lost = 0;")
mutant("settle-no-mass", "core/race.hpp", "tests/core/race", "if (lost > 0) return std::nullopt;", "")

mutant = promise("the enumerator takes every branch with its probability")
mutant("enumerate-race-normaliser", "testing/enumerator.hpp", "tests/core/race tests/law_lossless", ") / all;", ") / 1.0;")
mutant("enumerate-coin-inverted", "testing/enumerator.hpp", "tests/testing/enumerator tests/core/race tests/law_lossless",
       "i == 0 ? p : 1 - p", "i == 0 ? 1 - p : p")
mutant("enumerate-last-choice-only", "testing/enumerator.hpp", "tests/testing/enumerator",
       "probability_ *= choice.probability;", "probability_ = choice.probability;")
mutant("enumerate-branch-skipped", "testing/enumerator.hpp", "tests/testing/enumerator",
       "possible_from(choice.outcome + 1)", "possible_from(choice.outcome + 2)")

mutant = promise("the proof harness tells a wrong law from a right one")
mutant("harness-blind", "testing/check_lossless.hpp", "tests/testing/check_lossless",
       "if (found.size <= check.tolerance) continue;", "if (found.size <= 1) continue;")
mutant("harness-forgives-missing-outputs", "testing/law.hpp", "tests/testing/law",
       "for (const auto& [tokens, p] : right) compare(tokens);", "")
mutant("harness-forgives-surplus-outputs", "testing/law.hpp", "tests/testing/law",
       "for (const auto& [tokens, p] : left) compare(tokens);", "")
mutant("harness-merges-hidden-state", "testing/law.hpp", "tests/testing/law", "return std::is_empty_v<V>;", "return true;")
mutant("enumerator-trusts-replays", "testing/enumerator.hpp", "tests/testing/enumerator",
       "if (depth_ != path_.size())", "if (false)")
mutant("chi-square-rare-dropped", "testing/chi_square.hpp", "tests/testing/chi_square",
       "!too_many && ", "(too_many || true) && ")
mutant("chi-square-impossible", "testing/chi_square.hpp", "tests/testing/chi_square", "report.impossible == 0 && ", "")
mutant("chi-square-blind", "testing/chi_square.hpp", "tests/testing/chi_square",
       "report.statistic <= report.threshold", "true")

mutant = promise("bad input is named, never guessed around")
mutant("undrawn-token-accepted", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "if (!q(i).possible(token(i))) drawn_probability(i);", "if (false) drawn_probability(i);")
mutant("token-id-one-too-far", "core/token_ids.hpp", "tests/verify/drafted_block",
       "tokens[i] >= vocab_size)", "tokens[i] > vocab_size)")
mutant("negative-id", "core/token_ids.hpp", "tests/verify/drafted_block",
       "tokens[i] < 0 || ", "")
mutant("token-ids-unchecked", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "check_tokens(\"tokens\", tokens_, vocab_size());", "")
mutant("target-row-missing", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "if (target_.matrix().rows() != gamma() + 1)", "if (target_.matrix().rows() > gamma() + 1)")
mutant("vocabularies-differ", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "return std::max<Index>(known, draft_.matrix().vocab_size());", "return known;")
mutant("nan-probability", "core/named_row.hpp", "tests/verify/drafted_block",
       "if (!(value >= 0) || !std::isfinite(value))", "if (value < 0)")
mutant("negative-probability", "core/named_row.hpp", "tests/verify/drafted_block",
       "if (!(value >= 0) || !std::isfinite(value))", "if (!std::isfinite(value))")
mutant("weight-overflow", "verify/drafted_block.hpp", "tests/verify/drafted_block tests/verify/block tests/verify/greedy_block",
       "return std::min(weight, largest_weight);", "return weight;")
mutant("validate-short-rows", "core/validate.hpp", "tests/core/validate",
       "if (!(std::abs(sum - 1) <= tolerance))", "if (!(sum - 1 <= tolerance))")

mutant = promise("lossless: what all rules share")
mutant("ratio-upside-down", "verify/drafted_block.hpp", "tests/verify/token tests/law_lossless",
       "specdec::probability(p(i), token(i)) / drawn_probability(i)", "drawn_probability(i) / specdec::probability(p(i), token(i))")
mutant("ratio-epsilon", "verify/drafted_block.hpp", "tests/law_lossless",
       "/ drawn_probability(i))", "/ (drawn_probability(i) + 1e-5))")
mutant("race-at-previous-target-row", "verify/drafted_block.hpp", "tests/verify/block tests/law_lossless",
       "  const auto p = block.p(i);\n  return", "  const auto p = block.p(i > 0 && i < block.gamma() ? i - 1 : i);\n  return")
mutant("race-at-previous-draft-row", "verify/drafted_block.hpp", "tests/verify/block tests/law_lossless",
       "block.q(i)); });", "block.q(i > 0 ? i - 1 : 0)); });")
mutant("bonus-from-previous-row", "verify/drafted_block.hpp", "tests/verify/block tests/law_lossless",
       "  const auto p = block.p(i);\n  return", "  const auto p = block.p(i > 0 && i == block.gamma() ? i - 1 : i);\n  return")

mutant = promise("lossless: token verification")
mutant("token-correction-from-target", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "*detail::race_at(chance, 1.0, block, i)", "chance.draw(block.p(i))")
mutant("token-correction-from-next-row", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "*detail::race_at(chance, 1.0, block, i)", "*chance.race(1.0, block.p(i + 1), block.q(i))")
mutant("token-bonus-from-previous-row", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "block.p(block.gamma())", "block.p(std::max<Index>(block.gamma() - 1, 0))")
mutant("token-stop-goes-on", "verify/token.hpp", "tests/verify/token tests/law_lossless",
       "return {i, *detail", "return {std::min(i + 1, block.gamma()), *detail")

mutant = promise("lossless: block verification")
mutant("block-weight-unclipped", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "std::min(1.0, w_.back() * block.ratio(i))", "w_.back() * block.ratio(i)")
mutant("block-weight-not-carried", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_.back() * block.ratio(i)", "block.ratio(i)")
mutant("block-ratio-from-next-row", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_.back() * block.ratio(i)", "w_.back() * block.ratio(std::min(i + 1, gamma - 1))")
mutant("block-weight-forgotten", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "detail::race_at(chance, w_[static_cast<std::size_t>(i)], block, i)", "detail::race_at(chance, 1.0, block, i)")
mutant("block-weight-of-previous", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_[static_cast<std::size_t>(i)]", "w_[static_cast<std::size_t>(i - 1)]")
mutant("block-stale-weights", "verify/block.hpp", "tests/verify/block tests/law_lossless",
       "w_.assign(1, 1.0);", "if (w_.empty()) w_.assign(1, 1.0);")
mutant("block-full-acceptance-skipped", "verify/block.hpp", "tests/verify/block tests/law_lossless tests/law_step",
       "for (Index i = gamma; i > 0; --i)", "for (Index i = gamma - 1; i > 0; --i)")
BLOCK_SCAN = """    for (Index i = gamma; i > 0; --i)
      if (const std::optional<Token> y = detail::race_at(chance, w_[static_cast<std::size_t>(i)], block, i))
        return {i, *y};
"""
mutant("block-stops-at-first-failure", "verify/block.hpp", "tests/verify/block tests/law_lossless", BLOCK_SCAN, """
    std::optional<Verdict> longest;
    for (Index i = 1; i <= gamma; ++i) {
      const std::optional<Token> y = detail::race_at(chance, w_[static_cast<std::size_t>(i)], block, i);
      if (!y) break;
      longest = Verdict{i, *y};
    }
    if (longest) return *longest;
""")
mutant("block-product-of-coins", "verify/block.hpp", "tests/verify/block tests/law_lossless", BLOCK_SCAN, """
    Index kept = 0;
    while (kept < gamma && chance.coin(w_[static_cast<std::size_t>(kept + 1)])) ++kept;
    if (kept > 0) return {kept, *detail::race_at(chance, 1.0, block, kept)};
""")
mutant("block-only-from-three-on", "verify/block.hpp", "tests/verify/block tests/law_step", BLOCK_SCAN, """
    if (gamma < 3) {
      Index kept = 0;
      while (kept < gamma && chance.coin(std::min(1.0, block.ratio(kept)))) ++kept;
      return {kept, *detail::race_at(chance, 1.0, block, kept)};
    }
""" + BLOCK_SCAN)

mutant = promise("lossless: greedy block verification")
mutant("greedy-no-modification", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "if (left > 0 && ratio > 0 && ratio < 1) next_.push_back({ratio, left});", "")
mutant("greedy-modification-not-advanced", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.live[k].ratio * specdec::probability(q, x) / t", "here.live[k].ratio")
mutant("greedy-one-token-too-long", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "left = block.gamma() - stop - 1", "left = block.gamma() - stop")
mutant("greedy-never-ends", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.live[k].left - 1", "here.live[k].left")
mutant("greedy-advanced-by-outer-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "here.levels[k].probability", "here.levels[k + 1].probability")
mutant("greedy-level-mass", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "next.b += m.ratio * next.mass;", "next.b += m.ratio;")
mutant("greedy-clipped", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless tests/law_step",
       "detail::bounded(at(i).g * detail::bounded(", "std::min(1.0, at(i).g * detail::bounded(")
mutant("greedy-race-against-plain-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "t(p, q, at(i).levels.back())", "t(p, q, detail::TargetLevel{})")
mutant("greedy-ratio-of-plain-target", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "const double t = at(i).levels.back().probability(p, q, x);", "const double t = p.probability(x);")
mutant("greedy-weight-not-in-modification", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "(here.g * here.levels.back().probability(p, q, y))", "here.levels.back().probability(p, q, y)")
mutant("greedy-needs-nothing", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "longest = std::max(longest, m.left)", "longest = std::min(longest, m.left)")
mutant("greedy-bonus-from-previous-row", "verify/greedy_block.hpp", "tests/verify/greedy_block tests/law_lossless",
       "detail::race_at(chance, at(gamma).g, block, gamma)",
       "chance.race(at(gamma).g, block.p(gamma > 0 ? gamma - 1 : 0))")

mutant = promise("argmax is greedy decoding, sample-and-match the target's own draws, lenience bounded by 1/l")
mutant("argmax-last-of-equals", "core/numbers.hpp", "tests/core/dense tests/verify/argmax",
       "m <= largest) continue;", "m < largest) continue;")
mutant("argmax-nan", "core/numbers.hpp", "tests/core/dense tests/verify/drafted_block",
       "Eigen::PropagateNaN", "Eigen::PropagateNumbers")
mutant("argmax-keeps-the-draft", "verify/argmax.hpp", "tests/verify/argmax",
       "return {i, best};", "return {i, i == block.gamma() ? best : block.token(i)};")
mutant("match-draws-again", "verify/sample_match.hpp", "tests/verify/sample_match tests/law_lossless",
       "return {i, y};", "return {i, chance.draw(block.p(i))};")
mutant("lenience-inverted", "verify/lenient.hpp", "tests/verify/lenient tests/law_step",
       "block.ratio(i) / lenience_", "block.ratio(i) * lenience_")
mutant("lenience-not-in-correction", "verify/lenient.hpp", "tests/verify/lenient tests/law_step",
       "*detail::race_at(chance, 1 / lenience_, block, i)", "*detail::race_at(chance, 1.0, block, i)")

LOOP = "tests/spec_dec tests/generation tests/law_lossless"
mutant = promise("the loop emits what was verified, up to a stop token or the budget")
mutant("stop-token-in-block-missed", "generation.hpp", LOOP,
       "i <= verdict.accepted && !done()", "i <= verdict.accepted && remaining() > 0")
mutant("budget-one-short", "generation.hpp", LOOP, "remaining() <= 0", "remaining() <= 1")
mutant("budget-overrun", "generation.hpp", LOOP,
       "i <= verdict.accepted && !done()", "i <= verdict.accepted && !stopped_")
mutant("drafts-what-cannot-be-emitted", "generation.hpp", LOOP,
       "std::min(wanted, remaining() - 1)", "std::min(wanted, remaining())")
mutant("verifier-needs-ignored", "generation.hpp", LOOP,
       "std::max(std::min(wanted, remaining() - 1), min_draft_length(verifier_))",
       "std::min(wanted, remaining() - 1)")
mutant("correction-not-emitted", "generation.hpp", LOOP,
       "i < verdict.accepted ? drafted[static_cast<std::size_t>(i)] : verdict.token",
       "i < static_cast<Index>(drafted.size()) ? drafted[static_cast<std::size_t>(i)] : verdict.token")
mutant("overlong-draft-accepted", "generation.hpp", "tests/spec_dec tests/generation",
       "if (static_cast<Index>(drafted.size()) > gamma)", "if (false)")
mutant("verdict-unchecked", "generation.hpp", "tests/spec_dec tests/generation",
       "draft_rows, drafted, chance);\n      check_verdict(verdict, drafted);", "draft_rows, drafted, chance);")

mutant = promise("a bounded context is filled to its end, and never fed past it")
mutant("context-one-short", "generation.hpp", "tests/spec_dec", "remaining() <= 0 || room() < 0;", "remaining() <= 0 || room() <= 0;")
mutant("context-overdrafted", "generation.hpp", "tests/spec_dec", ", min_draft_length(verifier_)), room())", ", min_draft_length(verifier_)), room() + 1)")
mutant("context-end-unreported", "generation.hpp", "tests/spec_dec", "return ran_out ? StopReason::context : stop_reason_;", "return stop_reason_;")
mutant("draft-context-one-short", "draft/model_drafter.hpp", "tests/draft/model_drafter", "most - size + 1 : 0", "most - size : 0")
mutant("draft-context-overfed", "draft/model_drafter.hpp", "tests/draft/model_drafter", "most - size + 1 : 0", "most - size + 2 : 0")
mutant("processed-context-unbounded", "sample/processed_model.hpp", "tests/sample/processed_model",
       "Index context_size() const { return specdec::context_size(model_); }", "")

mutant = promise("after a step both models keep just the tokens that survived; a throw leaves them as before")
TRUNCATE = "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_);\n    stats_"
mutant("target-keeps-one-too-many", "generation.hpp", LOOP, TRUNCATE, TRUNCATE.replace("seen_", "seen_ + 1", 1))
mutant("target-keeps-one-too-few", "generation.hpp", LOOP, TRUNCATE, TRUNCATE.replace("seen_", "seen_ - 1", 1))
mutant("drafter-keeps-all", "generation.hpp", LOOP, TRUNCATE, "    target_->truncate(target_seen_);\n    stats_")
mutant("drafter-keeps-one-too-many", "generation.hpp", LOOP, TRUNCATE,
       "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_ + 1);\n    stats_")
ROLLBACK = "      target_->truncate(target_seen_);\n      drafter_->truncate(size());\n      throw;"
mutant("no-rollback-of-target", "generation.hpp", "tests/spec_dec tests/generation", ROLLBACK,
       "      drafter_->truncate(size());\n      throw;")
mutant("no-rollback-of-drafter", "generation.hpp", "tests/spec_dec tests/generation tests/draft/model_drafter", ROLLBACK,
       "      target_->truncate(target_seen_);\n      throw;")
mutant("stale-contexts-at-start", "generation.hpp", "tests/spec_dec tests/generation",
       "extend(prompt);\n    release();", "extend(prompt);\n    my_turn_ = ++*turn_;")
mutant("turns-forgotten", "generation.hpp", "tests/generation", "if (*turn_ != my_turn_) release();", "")
mutant("release-unnoticed", "generation.hpp", "tests/generation", "my_turn_ = ++*turn_;", "my_turn_ = *turn_;")
LENGTHS = "tests/draft/draft_length tests/law_draft_length"
mutant = promise("the draft is as long as the policy says, which learns what really happened")
mutant("policy-unchecked", "generation.hpp", LENGTHS, "if (wanted < 0 || wanted > options_.gamma)", "if (false)")
mutant("policy-not-told", "generation.hpp", LENGTHS, "    length_->observe(step);\n", "")
mutant("confidence-after-the-draw", "draft/model_drafter.hpp", LENGTHS, "      if (!goes_on(q, i)) break;\n      tokens_.push_back(chance.draw(detail::NamedRow(q, \"draft\", i)));",
       "      const Token drawn = chance.draw(detail::NamedRow(q, \"draft\", i));\n      if (q.probability(drawn) < 0.4) break;\n      tokens_.push_back(drawn);")
mutant("confidence-ignored", "draft/model_drafter.hpp", LENGTHS, "      if (!goes_on(q, i)) break;\n", "")
mutant("schedule-grows-by-one", "draft/draft_length.hpp", LENGTHS, ") + 2", ") + 1")
mutant("schedule-below-one", "draft/draft_length.hpp", LENGTHS, "std::max<Index>(1, length_ - 1)", "length_ - 1")
mutant("survival-of-another-rule", "generation.hpp", LENGTHS, "if constexpr (TellsSurvival<V>) {", "if constexpr (TellsSurvival<Drafter>) {")
mutant("token-survival-unclipped", "verify/token.hpp", "tests/analysis/acceptance", "before * std::min(1.0, p / q)", "before * p / q")
mutant("block-survival-clipped-twice", "verify/block.hpp", "tests/analysis/acceptance", "std::min(1.0, before * (p / q))", "before * std::min(1.0, p / q)")
mutant("expectations-of-costly-rows", "generation.hpp", "tests/analysis/acceptance", "Block::constant_time_probabilities || reads_every_ratio<V>", "true")
mutant("rate-without-covariance", "analysis/acceptance.hpp", "tests/analysis/acceptance", "- 2 * alpha * product_ ", "")
OPTIMAL = "tests/draft/cost_optimal_length"
mutant("never-switched-off", "draft/cost_optimal_length.hpp", OPTIMAL, "return best_from(0, most);", "return best_from(1, most);")
mutant("never-probes", "draft/cost_optimal_length.hpp", OPTIMAL, "++since_probe_ >= least_rest", "false")
mutant("probes-for-free", "draft/cost_optimal_length.hpp", OPTIMAL, "if (earned_ < static_cast<double>(steps)", "if (0 * earned_ > static_cast<double>(steps)")
mutant("prompt-taken-for-a-step", "draft/draft_length.hpp", OPTIMAL, "if (fed != drafted + 1) return;", "")
mutant("catching-up-timed", "draft/draft_length.hpp", OPTIMAL, "asked > 0 && after_a_draft", "asked > 0")
mutant("draft-for-nothing", "draft/cost_optimal_length.hpp", OPTIMAL, "target_cost_(n + 1) + draft_cost_(n)", "target_cost_(n + 1)")
mutant("short-proposals-free", "draft/cost_optimal_length.hpp", OPTIMAL, "(at_least - proposed) * cost(i)", "0 * cost(i)")
mutant("longest-tried-first", "draft/cost_optimal_length.hpp", OPTIMAL, "std::min<Index>(4, most)})", "std::min<Index>(4, most), most})")
mutant("estimates-not-renewed", "draft/cost_optimal_length.hpp", OPTIMAL, "    estimate();\n    schedule(step);", "    schedule(step);")
mutant("gives-up-after-a-bad-start", "draft/running_survival.hpp", OPTIMAL, "positions_[0].survived.add(1);", "positions_[0].survived.add(0);")
mutant("bad-times-outvote-good", "draft/cost_optimal_length.hpp", OPTIMAL,
       "if (now == 0) survival_.limit(few);", "")
mutant("always-proposes", "draft/running_survival.hpp", OPTIMAL + " tests/draft/goodput_length", "position.proposed.add(drafted ? 1 : 0);", "position.proposed.add(1);")
mutant("outliers-believed", "analysis/cost_curve.hpp", OPTIMAL, "std::min(cost, 2 * mean.value())", "cost")

mutant = promise("a model drafter reports the very rows it drew from, and its cache follows the context")
mutant("drafter-rows-unchecked", "draft/model_drafter.hpp", "tests/draft/model_drafter", "      check(rows);\n", "")
mutant("drafter-catch-up-skipped", "draft/model_drafter.hpp", "tests/draft/model_drafter tests/law_lossless",
       "return context.subspan(static_cast<std::size_t>(seen_));", "return context.last(1);")
mutant("drafter-stable-row-of-previous", "core/stored_rows.hpp", "tests/draft/model_drafter tests/law_concepts tests/model/ngram",
       "rows_.push_back(row);", "rows_.push_back(rows_.empty() ? row : rows_.back());")
mutant("drafter-cache-not-cut", "draft/model_drafter.hpp", "tests/draft/model_drafter tests/law_lossless",
       "    model_.truncate(seen_);", "")
mutant("drafter-count-not-cut", "draft/model_drafter.hpp", "tests/draft/model_drafter tests/law_lossless",
       "seen_ = std::min(seen_, length);", "")

mutant = promise("prompt lookup proposes what followed the latest earlier occurrence")
mutant("lookup-matches-itself", "draft/prompt_lookup.hpp", "tests/draft/prompt_lookup",
       "indexed_ < size; ++indexed_", "indexed_ <= size; ++indexed_")
mutant("lookup-first-occurrence", "draft/prompt_lookup.hpp", "tests/draft/prompt_lookup",
       "latest_end(context, ngram(context, indexed_, n)) = indexed_;",
       "if (Index& end = latest_end(context, ngram(context, indexed_, n)); end == 0) end = indexed_;")
mutant("lookup-shortest-match", "draft/prompt_lookup.hpp", "tests/draft/prompt_lookup",
       "for (Index n = std::min(options_.max_ngram, size - 1); n >= options_.min_ngram; --n)",
       "for (Index n = options_.min_ngram; n <= std::min(options_.max_ngram, size - 1); ++n)")
mutant("lookup-remembers-another-text", "draft/prompt_lookup.hpp", "tests/draft/prompt_lookup",
       "if (length >= indexed_) return;", "return;")


mutant = promise("rows of every kind mean what they hold")
mutant("pointers-first-row-only", "core/numbers.hpp", "tests/core/numbers",
       "pointers_[static_cast<std::size_t>(i)], cols_", "pointers_[0] + 0 * i, cols_")
mutant("pointers-stride-forgotten", "core/numbers.hpp", "tests/core/numbers tests/law_rows",
       "return {pointers_[static_cast<std::size_t>(i)], cols_, stride_};", "return {pointers_[static_cast<std::size_t>(i)], cols_};")
mutant("numbers-copied-packed", "core/numbers.hpp", "tests/core/numbers tests/core/row_copy",
       "out[x] = data_[x * step()];", "out[x] = data_[x];")
mutant("dense-sums-in-float", "core/numbers.hpp", "tests/core/residual tests/core/numbers",
       "constexpr Index piece_size = std::floating_point<S> ? 1024 : 256;", "const Index piece_size = std::floating_point<S> ? count : 256;")
mutant("sparse-missing-token-has-neighbour's", "core/sparse.hpp", "tests/core/sparse",
       "return k < support_size() && support(k) == x ? weight(k) : 0.0;", "return k < support_size() ? weight(k) : 0.0;")
mutant("sparse-lower-bound", "core/sparse.hpp", "tests/core/sparse",
       "static_cast<Index>(row.support(first + half)) < x", "static_cast<Index>(row.support(first + half)) <= x")
mutant("sparse-sum-one-too-far", "core/sparse.hpp", "tests/core/sparse",
       "support(k) < start + count; ++k)", "support(k) <= start + count; ++k)")
mutant("sparse-draws-positions", "core/sparse.hpp", "tests/core/sparse",
       "const Token x = row_.support(draw_(u));", "const Token x = draw_(u);")
mutant("sparse-id-cut-to-32-bits", "core/sparse.hpp", "tests/core/sparse tests/core/validate",
       "return std::in_range<Token>(id) ? static_cast<Token>(id) : std::numeric_limits<Token>::max();", "return static_cast<Token>(id);")
mutant("sparse-draw-outside", "core/sparse.hpp", "tests/core/sparse",
       "    check_id(x, row_.vocab_size());\n", "")
mutant("sparse-argmax-outside", "core/sparse.hpp", "tests/core/sparse",
       "    detail::check_id(support(best), vocab_size_);\n", "")
mutant("sparse-argmax-last-of-equals", "core/sparse.hpp", "tests/core/sparse",
       "if (weight(k) > (best < 0 ? 0.0 : weight(best))) best = k;", "if (weight(k) > 0 && weight(k) >= (best < 0 ? 0.0 : weight(best))) best = k;")
mutant("sparse-argmax-nan", "core/sparse.hpp", "tests/core/sparse",
       "if (!(weight(k) >= 0))", "if (weight(k) < 0)")
mutant("row-span-first-row", "core/row_span.hpp", "tests/core/row_span tests/law_rows",
       "return rows_[static_cast<std::size_t>(i)];", "return rows_[0 * static_cast<std::size_t>(i)];")
mutant("copy-first-block-only", "core/row_copy.hpp", "tests/core/row_copy",
       "row.block(start, count);", "row.block(0, count);")
mutant("copy-of-weights-of-first", "core/row_copy.hpp", "tests/core/row_copy",
       "weights_[static_cast<std::size_t>(k)] = row.weight(k);", "weights_[static_cast<std::size_t>(k)] = row.weight(0);")
mutant("copy-is-a-view", "core/row_copy.hpp", "tests/core/row_copy tests/draft/model_drafter",
       "return row.over(copy_.data());", "return row.over(row.logits().data());")
mutant("ids-wide-cut", "core/token_ids.hpp", "tests/core/token_ids",
       "return wide_ ? wide_[i] : std::int64_t{narrow_[i]};", "return wide_ ? static_cast<std::int32_t>(wide_[i]) : narrow_[i];")
mutant("one-hot-sum", "core/one_hot.hpp", "tests/core/one_hot",
       "start <= token_ && token_ < start + count", "start <= token_ && token_ <= start + count")
mutant("residual-draft-tail-lost", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "           a * detail::mass_of(p, common, end - common);", "           0.0;")
mutant("residual-sparse-head-only", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "return mass + a * mass_of(p, start, end - start);", "return mass;")
mutant("residual-gap-weight-forgotten", "core/residual.hpp", "tests/core/residual",
       "mass += a * mass_of(p, start, x - start)", "mass += mass_of(p, start, x - start)")
mutant("residual-sparse-unmerged", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "q.support(j) == p.support(k)) subtrahend = q.weight(j);", "q.support(j) == p.support(k)) subtrahend = 0;")
mutant("residual-sparse-merge-late", "core/residual.hpp", "tests/core/residual tests/law_rows",
       "if constexpr (SparseRowLike<Q>) j = lower_bound(q, start);", "if constexpr (SparseRowLike<Q>) j = lower_bound(q, start + 1);")
mutant("residual-sparse-out-of-order", "core/residual.hpp", "tests/core/sparse",
       "    check_ascending(start, p.support(k));\n", "")
mutant("residual-gap-out-of-order", "core/residual.hpp", "tests/core/sparse",
       "    check_ascending(start, x);\n", "")
mutant("residual-weight-of-padding", "core/residual.hpp", "tests/core/sparse",
       "    detail::check_ascending(0, support(k));\n", "")
mutant("residual-behind-the-end", "core/residual.hpp", "tests/core/residual",
       "return count > 0 ? static_cast<double>(p.sum(start, count)) : 0.0;", "return static_cast<double>(p.sum(start, count));")
mutant("sampled-token-twice", "core/sampled.hpp", "tests/core/sampled",
       "if (std::exchange(fresh, false)) return row.first_draw();", "if (fresh) return row.first_draw();")
mutant("sampled-token-never", "core/sampled.hpp", "tests/core/sampled",
       "if (std::exchange(fresh, false)) return row.first_draw();", "(void)fresh;")
mutant("sampled-token-of-first-row", "core/sampled.hpp", "tests/core/sampled",
       "tokens_[static_cast<std::size_t>(i)]);", "tokens_[0]);")
mutant("sampled-token-unchecked", "core/sampled.hpp", "tests/core/sampled",
       "if (token_ < 0 || !drawable())", "if (token_ < 0)")
mutant("sampled-nan", "core/sampled.hpp", "tests/core/sampled",
       "else return specdec::probability(row, token_) > 0;", "else return specdec::probability(row, token_) != 0;")
mutant("sampled-count", "core/sampled.hpp", "tests/core/sampled",
       "if (std::ssize(tokens) != rows_.rows())", "if (std::ssize(tokens) > rows_.rows())")
mutant("validate-ids-order", "core/validate.hpp", "tests/core/validate",
       "if (x < least)", "if (false)")
mutant("validate-ids-twice", "core/validate.hpp", "tests/core/validate",
       "least = Index{x} + 1;", "least = Index{x};")
mutant("validate-ids-range", "core/validate.hpp", "tests/core/validate",
       "      check_id(x, vocab_size);\n", "")
mutant("validate-row-size", "core/validate.hpp", "tests/core/validate",
       "if (row.vocab_size() != vocab_size)", "if (false)")
mutant("foreign-token-known", "core/distribution.hpp", "tests/verify/drafted_block tests/law_rows",
       "return x < row.vocab_size() ? static_cast<double>(row.probability(x)) : 0.0;", "return static_cast<double>(row.probability(x < row.vocab_size() ? x : 0));")
mutant("foreign-token-refused", "verify/drafted_block.hpp", "tests/verify/drafted_block tests/law_rows",
       "return std::max<Index>(known, draft_.matrix().vocab_size());", "return std::min<Index>(known, draft_.matrix().vocab_size());")
mutant("rows-made-twice", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "made_ |= std::uint64_t{1} << i;", "")
mutant("row-behind-the-few", "verify/drafted_block.hpp", "tests/verify/drafted_block",
       "more_[static_cast<std::size_t>(i - few)]", "more_[0 * static_cast<std::size_t>(i - few)]")
mutant("sampler-search-offset", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "      u -= mass;\n", "")
mutant("sampler-search-without-end", "core/prefix_sampler.hpp", "tests/core/prefix_sampler",
       "if (chosen < 0) chosen = scan(first, end, most);", "")

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

mutant = promise("rows behind a token that the target rules out are not read")
mutant("block-reads-on", "verify/block.hpp", "tests/verify/drafted_block", "w_.back() > 0 ? ", "true ? ")
mutant("greedy-reads-on", "verify/greedy_block.hpp", "tests/verify/drafted_block",
       "if (at(i).g == 0) continue;  // behind", "// behind")
mutant("race-reads-on", "core/race.hpp", "tests/verify/drafted_block", "if (w <= 0) return std::nullopt;", "")

mutant = promise("the n-gram table proposes the most frequent successor of the longest n-gram known, and counts all once")
mutant("table-ties-to-the-first", "draft/ngram_table.hpp", "tests/draft/ngram_table",
       "occurrences >= at(leader).occurrences", "occurrences > at(leader).occurrences")
mutant("table-shortest-n-gram", "draft/ngram_table.hpp", "tests/draft/ngram_table tests/draft/suffix_drafter",
       "for (Index n = std::ssize(ends_) - 1; n >= options_.min_ngram; --n)",
       "for (Index n = options_.min_ngram; n < std::ssize(ends_); ++n)")
mutant("table-min-count-forgotten", "draft/ngram_table.hpp", "tests/draft/ngram_table",
       "trie_.occurrences(next) >= options_.min_count", "trie_.occurrences(next) >= 1")
mutant("table-counts-a-text-twice", "draft/ngram_table.hpp", "tests/draft/ngram_table",
       "if (i > survived && !shown_.contains(text)) continue;", "if (i > survived) continue;")
mutant("table-joins-texts", "draft/ngram_table.hpp", "tests/draft/ngram_table",
       "if (length >= learnt_) return;", "return;")

mutant = promise("the suffix drafter goes on from the longest match, with exact counts")
mutant("suffix-clone-without-counts", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       "add_edge(clone, edge(i).token, edge(i).to, edge(i).count)", "add_edge(clone, edge(i).token, edge(i).to, 0)")
mutant("suffix-clone-without-leader", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       "if (i == state(q).best) at(clone).best = copied;", "at(clone).best = copied;")
mutant("suffix-known-text-entered-again", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       "if (find(end, token) != none) return shorten(end, token);", "")
mutant("suffix-no-clone", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       "if (state(q).length == state(p).length + 1) return q;", "return q;")
mutant("suffix-match-without-limit", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       "length = std::min(length + 1, options_.max_match);", "++length;")
mutant("suffix-match-of-another-time", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       "Index state = automaton_.suffix(end_.match, length);", "Index state = end_.match;")
mutant("suffix-share-of-all-counts", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       ".followed = state(q).followed}", ".followed = 0}")
mutant("suffix-counts-a-text-twice", "draft/suffix_drafter.hpp", "tests/draft/suffix_drafter",
       "if (i <= survived || automaton_.state(state).is_text)", "if (i <= survived)")

mutant = promise("lookahead proposes the target's answers again, each in its place, and pools those that followed one another")
mutant("lookahead-place-before", "draft/lookahead.hpp", "tests/draft/lookahead",
       "begin_ = seen_ + verdict.accepted + 1;", "begin_ = seen_ + verdict.accepted;")
mutant("lookahead-guesses-not-passed-by", "draft/lookahead.hpp", "tests/draft/lookahead",
       "else guesses_.erase(guesses_.begin(), guesses_.begin() + grown);", "")
mutant("lookahead-guesses-of-another-text", "draft/lookahead.hpp", "tests/draft/lookahead",
       "seen_ = std::max<Index>(length, 0);\n    guesses_.clear();", "seen_ = std::max<Index>(length, 0);")
mutant("lookahead-trail-lost", "draft/lookahead.hpp", "tests/draft/lookahead",
       "propose(guesses_[i]);", "propose({guesses_[i].back()});")
mutant("lookahead-pool-drops-the-latest", "draft/lookahead.hpp", "tests/draft/lookahead",
       "== most_) at = rests.begin();", "== most_) at = rests.end() - rest_;")
mutant("lookahead-guess-has-no-say", "draft/lookahead.hpp", "tests/draft/lookahead",
       "pool_.rest(trail.back(), guess(tokens_.size()))", "pool_.rest(trail.back(), std::nullopt)")
mutant("lookahead-bad-row-behind-the-stop", "draft/lookahead.hpp", "tests/draft/lookahead",
       "catch (const InvalidDistribution&)", "catch (const std::bad_alloc&)")

mutant = promise("an audit convicts drafters whose q is not what was drawn from, and no others")
mutant("audit-ties-above", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "(q > value_).select", "(q >= value_).select")
mutant("audit-not-randomised", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "row.position(uniform01(generator))", "row.position(0.5)")
mutant("audit-flat-rows-count", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "return equal_ < (1 - 1e-6) * total_ && powers_[squares] < 0.9;", "return true;")
mutant("audit-no-martingale", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "(exponents[k] - 1) * value + total", "exponents[k] * value + total")
mutant("audit-last-moment-only", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "likelier_ = std::max(likelier_, mixture(std::span(logs_).first(sharper)));",
       "likelier_ = mixture(std::span(logs_).first(sharper));")
mutant("audit-pairs-overlap", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "if (informative++ % 2 == 1)", "if (informative++ > 0)")
mutant("audit-pairs-unread", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "!rejected(report.order) && !rejected(report.pairs)", "!rejected(report.order)")
mutant("audit-impossible-passes", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "if (x < 0 || !(specdec::probability(row, x) > 0)) ++impossible;", "if (x < 0) ++impossible;")
mutant("audit-unnormalised-passes", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "std::abs(total_ - 1) <= 0.01 &&", "")
mutant("audit-kept-after-throw", "testing/draft_audit.hpp", "tests/testing/draft_audit",
       "State next = state_;", "State& next = state_;")

mutant = promise("a chain passes on the first proposal, rolls all members back, and keeps the rows' meaning")
mutant("chain-refuses-short-proposals", "draft/chain_drafter.hpp", "tests/draft/chain_drafter",
       "if (tokens.empty()) return propose", "if (tokens.size() < 2) return propose")
mutant("chain-rolls-back-one", "draft/chain_drafter.hpp", "tests/draft/chain_drafter",
       "(member.truncate(length), ...);", "std::get<0>(std::tie(member...)).truncate(length);")
mutant("chain-policy-not-asked", "draft/chain_drafter.hpp", "tests/draft/chain_drafter",
       "if constexpr (can_draft<M, Source, GoesOn...>)",
       "if constexpr (sizeof...(GoesOn) == 0)")
mutant("chain-members-not-told", "draft/chain_drafter.hpp", "tests/draft/chain_drafter",
       "if constexpr (observes<std::remove_cvref_t<decltype(member)>, Rows>)", "if constexpr (false)")
mutant("variant-list-misplaced", "core/variant_rows.hpp", "tests/core/variant_rows",
       "block[row.support(k) - start] = row.weight(k);", "block[k] = row.weight(k);")
mutant("variant-list-unchecked", "core/variant_rows.hpp", "tests/core/variant_rows",
       "      detail::check_ascending(start, row.support(k));\n", "")
mutant("variant-claims-a-vocabulary", "core/variant_rows.hpp", "tests/core/variant_rows tests/draft/chain_drafter",
       "    else return 0;\n", "    else return Index{1} << 40;\n")

mutant = promise("a sequence resumed from a context is a fresh one there, but for what the models know already")
mutant("resume-stale-verifier", "generation.hpp", "tests/generation", "    verifier_ = std::move(verifier);  // nothing", "    // nothing")
mutant("resume-keeps-context", "generation.hpp", "tests/generation",
       "context_.resize(static_cast<std::size_t>(common));",
       "context_.resize(std::min(context_.size(), static_cast<std::size_t>(common) + 1));")
mutant("resume-forgets-all", "generation.hpp", "tests/generation",
       "target_seen_ = std::min({target_seen_, common, size() - 1});", "target_seen_ = 0;")
mutant("resume-last-token-unfed", "generation.hpp", "tests/generation tests/cascade_drafter",
       "std::min({target_seen_, common, size() - 1})", "std::min(target_seen_, common)")
mutant("resume-keeps-cache", "generation.hpp", "tests/generation",
       "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_);\n  }\n\n  /// Whether",
       "    drafter_->truncate(target_seen_);\n  }\n\n  /// Whether")
mutant("resume-stays-stopped", "generation.hpp", "tests/generation",
       "    options_ = std::move(options);\n    stopped_ = false;\n", "    options_ = std::move(options);\n")
mutant("resume-of-a-view", "generation.hpp", "tests/generation", "extend(TokenIds(feed_));", "extend(context);")
mutant("resume-keeps-drafter", "generation.hpp", "tests/generation",
       "    target_->truncate(target_seen_);\n    drafter_->truncate(target_seen_);\n  }\n\n  /// Whether",
       "    target_->truncate(target_seen_);\n  }\n\n  /// Whether")
mutant("resume-others-models", "generation.hpp", "tests/generation",
       "    if (*turn_ != my_turn_) return;  // the next step takes everything in\n", "")

mutant = promise("a cascade drafts its model's text and reports its model's rows")
mutant("cascade-rows-of-rejected", "cascade_drafter.hpp", "tests/cascade_drafter",
       "i <= verdict.accepted; ++i) recorded->add", "i < rows.rows(); ++i) recorded->add")
mutant("cascade-correction-row-lost", "cascade_drafter.hpp", "tests/cascade_drafter",
       "i <= verdict.accepted; ++i) recorded->add", "i < verdict.accepted; ++i) recorded->add")
mutant("cascade-old-rows-first", "cascade_drafter.hpp", "tests/cascade_drafter", "    inner_->rows.clear();\n", "")
mutant("cascade-never-cleared", "cascade_drafter.hpp", "tests/cascade_drafter",
       "if (length == 0 && inner_->sequence)", "if (length < 0 && inner_->sequence)")
mutant("cascade-policy-one-late", "cascade_drafter.hpp", "tests/cascade_drafter",
       "return drafted(sequence, asked);\n    }", "return drafted(sequence, asked + 1);\n    }")
mutant("stored-rows-one-copy", "core/stored_rows.hpp", "tests/cascade_drafter tests/draft/model_drafter",
       "copies_[rows_.size()].assign(row)", "copies_[0].assign(row)")

mutant = promise("entropy is that of the whole row, and a policy stops before a row that has more than it allows")
mutant("entropy-noughts", "core/entropy.hpp", "tests/core/entropy", "(p == 0).select(p, p * p.log())", "(p * p.log())")
mutant("entropy-listed-noughts", "core/entropy.hpp", "tests/core/entropy",
       "row.weight(k);\n      if (p != 0) sum", "row.weight(k);\n      sum")
mutant("entropy-first-block", "core/entropy.hpp", "tests/core/entropy",
       "row.block(start, std::min(", "row.block(0, std::min(")
mutant("entropy-policy-inverted", "draft/draft_length.hpp", "tests/draft/draft_length",
       "return entropy(row) <= most_;", "return entropy(row) > most_;")

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

mutant = promise("the goodput of a batch: what its calls and drafts cost, and what comes of them")
GOODPUT = "tests/draft/goodput_length"
mutant("goodput-of-one", "draft/goodput_length.hpp", GOODPUT,
       "static_cast<Index>(sequences * fed + 0.5)", "static_cast<Index>(fed + 0.5)")
mutant("goodput-drafts-free", "draft/goodput_length.hpp", GOODPUT,
       "static_cast<double>(gamma) * drafted_token", "0 * drafted_token")
mutant("goodput-all-proposed", "draft/goodput_length.hpp", GOODPUT, "fed += proposed;", "fed += 0 * proposed + 1;")
mutant("goodput-never-probes", "draft/goodput_length.hpp", GOODPUT, "? probe : 0;", "? 0 : 0;")
mutant("goodput-probes-for-all", "draft/goodput_length.hpp", GOODPUT, " / static_cast<double>(batch_);", ";")
mutant("goodput-earns-for-good", "draft/goodput_length.hpp", GOODPUT, "      earned_ = 0;\n", "")
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
mutant("survival-walk-mass", "analysis/enumerated_survival.hpp", "tests/analysis/survival",
       "visit(depth + 1, mass * x.q, next);", "visit(depth + 1, mass, next);")
mutant("survival-walk-context", "analysis/enumerated_survival.hpp", "tests/analysis/survival", "source.truncate(0);", "")
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
mutant("sums-without-drafts", "analysis/acceptance.hpp", "tests/stats", "    drafts_ += other.drafts_;\n", "")
mutant("costs-asked-for-nothing", "stats.hpp", "tests/stats",
       "drafts_every_step_ = step.asked > 0;", "drafts_every_step_ = step.drafted > 0;")
mutant("projection-nothing-of-nothing", "analysis/projection.hpp", "tests/analysis/projection",
       "if (!(last < before)) return last;", "if (!(last <= before)) return last;")
mutant("costs-below-flat", "analysis/cost_curve.hpp", "tests/draft/cost_optimal_length tests/stats",
       "if (next < 0) return value(above);", "return value(above);")
mutant("costs-below-free", "analysis/cost_curve.hpp", "tests/draft/cost_optimal_length",
       "return std::clamp(on_line(above, next, size), least, value(above));",
       "return std::min(on_line(above, next, size), value(above));")
mutant("estimates-of-empty-drafts-alone", "generation.hpp", "tests/analysis/acceptance",
       "if (looked_up_) stats_.acceptance", "if (looked_up_ || drafted.empty()) stats_.acceptance")
mutant("goodput-no-first-drafts", "draft/goodput_length.hpp", "tests/draft/goodput_length",
       "first_drafts = 8,", "first_drafts = 0,")
mutant("goodput-cut-tokens", "draft/goodput_length.hpp", "tests/draft/goodput_length", "sequences * fed + 0.5", "sequences * fed")
mutant("goodput-longest-of-equals", "draft/goodput_length.hpp", "tests/draft/goodput_length",
       "!(e.goodput() > goodput)", "!(e.goodput() >= goodput)")
mutant("goodput-window-of-sequences", "draft/goodput_length.hpp", "tests/draft/goodput_length",
       "window_ * static_cast<double>(sequences)", "window_")
mutant("survival-fades-unasked", "draft/running_survival.hpp", "tests/draft/goodput_length",
       "    if (step.asked == 0) return;\n", "")
