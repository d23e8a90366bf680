#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of check_engine.py: right rules are acquitted, mistakes convicted, and broken engines named.

    runner.py --without-numpy    all but those about arrays
    runner.py                    with numpy only those about arrays: the rest is the same
"""

import contextlib
import importlib.util
import io
import itertools
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from fractions import Fraction

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent
sys.path[:0] = [str(HERE), str(FOLDER), str(FOLDER / "engines")]
if "--without-numpy" in sys.argv:
    sys.argv.remove("--without-numpy")
    sys.modules["numpy"] = None

import check_engine  # noqa: E402
import mistaken_rules  # noqa: E402
import mistakes  # noqa: E402
import right_rules  # noqa: E402

without_arrays = unittest.skipIf(check_engine.numpy, "is about no arrays: --without-numpy runs it")
VECTORS = check_engine.read_vectors(FOLDER / "vectors.json")


def engine(**doors):
    return types.SimpleNamespace(**{"RULES": ["token"], **doors})


def checked(what, *options):
    """(exit status, what was printed, findings)"""
    runner, found = check_engine.Runner(VECTORS, what, check_engine.arguments(["", *options])), []
    findings = runner.findings
    runner.findings = lambda: (found.append(finding) or finding for finding in findings())
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = check_engine.report(runner)
    return status, printed.getvalue(), found


def statuses(findings):
    return {finding.status for finding in findings}


class Right(unittest.TestCase):
    @without_arrays
    def test_laws_in_fractions(self):
        """The independent proof of vectors.json: the papers' rules have its laws, to the last digit."""
        status, printed, found = checked(right_rules, "--mode", "exact")
        self.assertEqual((status, statuses(found)), (0, {"acquitted"}), printed)
        self.assertLessEqual({case["rule"] for case in VECTORS["cases"].values()} - {"any", "text"}, {f.rule for f in found})

    @without_arrays
    def test_nothing_is_rounded_in_fractions(self):
        for name in "token/by-hand", "block/top-k-zeros", "traversal/pair":
            given = VECTORS["cases"][name]
            case = check_engine.Case(given, fractions=True)
            found, left = check_engine.law_of(lambda u: check_engine.outcome_of(case, right_rules.verify_uniforms(case, u)), 10_000)
            self.assertEqual((found, left), (given["law"], 0))

    def test_samples(self):
        status, printed, found = checked(right_rules, "--samples", "10" if check_engine.numpy else "25")
        self.assertEqual(status, 0, printed)
        self.assertEqual(statuses(found), {"acquitted"})
        self.assertIn("ACQUITTED", printed)

    @without_arrays
    def test_batches(self):
        status, printed, found = checked(right_rules, "--mode", "batched", "--samples", "100")
        self.assertEqual((status, statuses(found)), (0, {"acquitted"}), printed)

    def test_floats(self):
        """Thresholds of floats, and plain numbers whose thresholds are found by bisection."""
        for numbers in "floats", "plain":
            status, printed, found = checked(right_rules, "--mode", "exact", "--numbers", numbers, "--rule", "token", "--case", "token/t")
            self.assertEqual((status, statuses(found)), (0, {"acquitted"}), printed)

    @without_arrays
    def test_only_texts(self):
        """An engine that cannot be asked for one verification."""
        status, printed, found = checked(engine(generate=right_rules.generate), "--samples", "100")
        self.assertEqual((status, {f.rule for f in found}), (0, {"text"}), printed)
        self.assertEqual({f.rule for f in checked(right_rules, "--samples", "1", "--rule", "match")[2]}, {"match"})

    def test_numpy(self):
        """Engines that hand whole arrays to numpy, also with numbers of which nothing is known yet."""
        numpy = check_engine.numpy
        if numpy is None:
            self.skipTest("needs numpy")
        for token_at in (lambda sums, u: numpy.searchsorted(sums, u, side="right"), lambda sums, u: (sums > u).argmax(),
                         lambda sums, u: (u >= sums).sum()):
            def rule(case, u, token_at=token_at):
                coins, number = [next(u) for _ in case.tokens], next(u)
                for i, (coin, x) in enumerate(zip(coins, case.tokens)):
                    if not coin < case.target[i, x] / case.draft[i, x]:
                        q = numpy.pad(case.draft[i], (0, case.vocab_size - case.draft_vocab_size))
                        rest = numpy.maximum(case.target[i] - q, 0, dtype=float)
                        return i, token_at(rest.cumsum() / rest.sum(), number)
                return case.gamma, token_at(case.target[-1].cumsum(), number)
            status, printed, found = checked(engine(verify_uniforms=rule), "--mode", "exact", "--case", "token/r")
            self.assertEqual((status, statuses(found)), (0, {"acquitted"}), printed)

    def test_torch(self):
        """The rejection sampler of examples/engine/python, and PyTorch's own sampler."""
        if check_engine.numpy is None or not importlib.util.find_spec("torch"):
            self.skipTest("needs numpy and torch")
        import torch_engine
        for options in ("--case", "token/r"), ("--case", "match/"), ("--mode", "batched"):
            status, printed, found = checked(torch_engine, "--samples", "100", *options)
            self.assertEqual((status, statuses(found)), (0, {"acquitted"}), printed)

    def test_rows_of_tables(self):
        given = {**VECTORS["cases"]["text/both-depend-on-two-tokens"], "id": "text/x"}
        case = check_engine.Case({**given, "draft": {"order": 0, "rows": [[1, 2, 1]]}}, fractions=True)
        weights = given["target"]["rows"][2 * 3 + 1]
        self.assertEqual(case.target_row([0, 2, 1]), tuple(Fraction(w, sum(weights)) for w in weights))
        self.assertEqual(case.draft_row([0, 2, 1]), (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)))
        with self.assertRaises(IndexError):
            case.target_row([1])

    @without_arrays
    def test_another_rule(self):
        """An engine with a rule of its own offers "any"."""
        own = engine(RULES=["any"], verify=lambda case, seed: right_rules.token(case, right_rules.numbers_of(seed)))
        status, printed, found = checked(own, "--samples", "300")
        self.assertEqual((status, {f.rule for f in found}), (0, {"any"}), printed)


class Wrong(unittest.TestCase):
    @without_arrays
    def test_every_mistake_is_convicted(self):
        for name, what in mistakes.ENGINES.items():
            with self.subTest(name):
                self.assertEqual(self.first_conviction(what).status, "convicted")

    def first_conviction(self, what):
        """Looks at all cases shortly, and then at telling ones for long: most mistakes need few samples in some case."""
        texts = "text/coin", "text/both-depend"
        telling = [("--case", name) for name in (texts if hasattr(what, "generate") else ["token/tiny-q"] if "token" in what.RULES else [])]
        for options in ("--samples", "40"), *telling, ("--samples", "400"), ():
            for finding in check_engine.Runner(VECTORS, what, check_engine.arguments(["", *options])).findings():
                if finding.status != "acquitted":
                    return finding
        return finding

    @without_arrays
    def test_mistakes_are_named(self):
        """By their laws, which are in the file, and so are not those of the rules in mistakes.py."""
        self.assertLessEqual({mistake["name"] for mistake in VECTORS["mistakes"]}, set(mistakes.ENGINES))
        for mistake in VECTORS["mistakes"]:
            with self.subTest(mistake["name"]):
                status, printed, found = checked(mistakes.ENGINES[mistake["name"]], "--mode", "exact")
                self.assertIn(mistake["name"], re.findall("law of a known mistake, and no case contradicts it: (.*?)[.] ", printed))
                self.assertEqual({finding.label for finding in found if finding.fits.get(mistake["name"])}, set(mistake["laws"]))
                for finding in found:
                    if finding.label in mistake["laws"]:
                        self.assertEqual(named(finding), near(mistake, finding.label, 4e-6))
        # Two mistakes with one law in eleven cases. In the twelfth u = 0 has the right law, which is not that of the other mistake.
        for options in ("--mode", "exact"), ("--samples", "60"):
            _, printed, _ = checked(mistakes.ENGINES["u is always 0"], *options, "--rule", "token")
            self.assertEqual(re.findall("no case contradicts it: (.*?)[.] ", printed), ["u is always 0"])

    @without_arrays
    def test_mistakes_are_named_by_samples(self):
        for name in "u is always 0", "the replacement from the next row", "a block that stops at the first failed coin":
            with self.subTest(name):
                mistake = next(mistake for mistake in VECTORS["mistakes"] if mistake["name"] == name)
                case = max(mistake["laws"], key=lambda one: distance(mistake["laws"][one], VECTORS["cases"][one]["law"]))
                _, printed, found = checked(mistakes.ENGINES[name], "--samples", "2000", "--case", case)
                self.assertLessEqual(named(found[0]), near(mistake, case, 0.2))
                self.assertRegex(printed, f"this is the law of a known mistake: (.*, or: )?{re.escape(name)}[,\n]")

    @without_arrays
    def test_exactly(self):
        """Some that have no fingerprint in the file."""
        for name in "rejected siblings are forgotten", "the last of equal tokens":
            with self.subTest(name):
                status, printed, _ = checked(mistakes.ENGINES[name], "--mode", "exact")
                self.assertEqual(status, 1, printed)

    @without_arrays
    def test_names_of_the_gallery(self):
        gallery = FOLDER.parent / "prove" / "field_bugs.md"
        if gallery.exists():
            text = gallery.read_text(encoding="utf-8")
            for name in list(mistakes.ENGINES)[:22]:
                self.assertIn(f"\n{name[:43]} ", text)

    @without_arrays
    def test_a_cache_that_keeps_a_rejected_token(self):
        """Only rows that depend on two tokens tell: after the emitted one the caches are alike again."""
        _, printed, found = checked(mistakes.ENGINES["a rejected token stays in the cache"], "--samples", "400")
        convicted = {finding.label for finding in found if finding.status == "convicted"}
        orders = {name: case["target"]["order"] for name, case in VECTORS["cases"].items() if case["rule"] == "text"}
        self.assertEqual(convicted, {name for name, order in orders.items() if order == 2}, printed)
        for name in convicted:
            self.assertIn("cache", VECTORS["cases"][name]["shows"])

    @without_arrays
    def test_rows_of_neighbours(self):
        status, printed, _ = checked(mistakes.IN_BATCHES, "--mode", "batched", "--samples", "100")
        self.assertEqual(status, 1, printed)

    @without_arrays
    def test_a_number_that_is_a_threshold(self):
        """u <= p/q accepts a token with p = 0 if u is 0: no sampling finds this."""
        rule = mistaken_rules.token_with(accepts=lambda u, p, q: u * q <= p)
        status, printed, _ = checked(mistakes.judging(rule, "token"), "--mode", "exact")
        self.assertEqual(status, 1)
        self.assertIn("equal to a threshold", printed)
        self.assertEqual(checked(mistakes.judging(rule, "token"), "--samples", "40")[0], 0)

    @without_arrays
    def test_what_the_law_rules_out_convicts_however_rare_it_is(self):
        """The tolerance is for what may come. Rounding makes nothing possible: a right rule in floats is acquitted."""
        rule = mistaken_rules.token_with(accepts=lambda u, p, q: u * q < p + 1e-9)
        for numbers in "floats", "plain":
            options = "--mode", "exact", "--numbers", numbers, "--case", "token/ruled-out"
            status, printed, _ = checked(mistakes.judging(rule, "token"), *options)
            self.assertEqual(status, 1, printed)
            self.assertRegex(printed, r"has probability [0-9.]+e-\d+, expected 0: ")
        lines = [x for rule in right_rules.RULES[:6] for x in ("--rule", rule)]
        status, printed, found = checked(right_rules, "--mode", "exact", "--numbers", "floats", *lines)
        self.assertEqual((status, statuses(found)), (0, {"acquitted"}), printed)

    def test_words(self):
        _, printed, _ = checked(engine(verify=lambda case, seed: (case.gamma, 0)), "--case", "token/by-hand")
        self.assertRegex(printed, r"CONVICTED token/by-hand\n  it shows: .*\n  weights of the rows: target .*, draft .*, tokens .*\n  convicted after \d+ samples, by a wealth of 10\^\d")
        self.assertRegex(printed, r"too often: .* came \d+ times in \d+, expected \d+\.\d\n  too rarely: .* = .* came 0 times")
        self.assertIn("\nCONVICTED\n", printed)


def named(finding):
    return {name for name, fit in finding.fits.items() if fit}


def near(mistake, case, most):
    """The mistakes whose law of a case differs from that of this one by `most` at most."""
    return {other["name"] for other in VECTORS["mistakes"] if case in other["laws"]
            and distance(other["laws"][case], mistake["laws"][case]) <= most}


def distance(law, other):
    return sum(abs(law.get(o, 0) - float(other.get(o, 0))) for o in {*law, *other})


class BrokenEngines(unittest.TestCase):
    def named(self, words, verify, *options):
        status, printed, found = checked(engine(verify=verify), "--case", "token/by-hand", *options)
        self.assertEqual((status, statuses(found)), (2, {"broken"}), printed)
        self.assertRegex(printed, r"BROKEN token/by-hand\n  " + words + r", with the seed \d+\n")

    @without_arrays
    def test_answers(self):
        self.named(r"the answer is None, expected \(tau, token\)", lambda *_: None)
        self.named(r"the answer is \(1, 0, 0\), expected \(tau, token\)", lambda *_: (1, 0, 0))
        self.named(r"tau is 0\.5, which is no integer", lambda *_: (0.5, 0))
        self.named(r"token is nan, which is no integer", lambda *_: (0, math.nan))
        self.named(r"tau is 2, outside 0\.\.1", lambda *_: (2, 0))
        self.named(r"tau is -1, outside 0\.\.1", lambda *_: (-1, 0))
        self.named(r"token is 2, outside 0\.\.1", lambda *_: (0, 2))

    @without_arrays
    def test_exceptions(self):
        self.named(r"<lambda> raised ZeroDivisionError: .* \(runner\.py:\d+\)", lambda *_: 1 // 0)

    def test_rows_cannot_be_written_to(self):
        def writes(case, seed):
            case.target[0][0] = 0.5
        self.named(r"writes raised (TypeError|ValueError): .*", writes)

    def test_lists_cannot_be_written_to(self):
        """Else what one call does to a list the next one would get, and the engine would be convicted of it."""
        lists = {"tokens", "parents", "prompt", "stop_tokens", "chosen", "steps", "target_weights", "draft_weights"}
        for given in VECTORS["cases"].values():
            case = check_engine.Case(given, "token" if given["rule"] == "any" else None)
            for one in (case, *case.steps, *(drawn for drawn, _ in check_engine.lines(case) if case.is_drawn_here)):
                for name in lists & set(vars(one)):
                    self.assertIsInstance(getattr(one, name), (tuple, type(None)), f"{name} of {case.id}")

        def writes(case, seed):
            case.tokens.append(0)
        self.named(r"writes raised AttributeError: .*", writes)
        drawn = checked(engine(verify=writes), "--case", "any/two-ids")[2]
        self.assertEqual(statuses(drawn), {"broken"})

    @without_arrays
    def test_a_dead_end(self):
        status, printed, _ = checked(mistakes.FAILING, "--samples", "100")
        self.assertEqual(status, 2)
        self.assertIn("raised RuntimeError: no token is allowed (mistaken_rules.py:", printed)

    @without_arrays
    def test_paths(self):
        for path, words in (((1,), "is no path"), ((0, 9), "index of the path is 9"), (3, "expected a path of indices")):
            status, printed, _ = checked(engine(RULES=["traversal"], verify=lambda case, seed: (path, 0)), "--case", "traversal/line")
            self.assertEqual(status, 2)
            self.assertIn(words, printed)

    @without_arrays
    def test_batches(self):
        status, printed, _ = checked(engine(verify_batch=lambda cases, seeds: [(0, 0)]), "--mode", "batched")
        self.assertEqual(status, 2)
        self.assertRegex(printed, r"BROKEN ragged-token\n  the answer is \[\(0, 0\)\], expected \d+ verdicts, with the seeds \d+, ")

    @without_arrays
    def test_exact(self):
        count = itertools.count()
        for words, rule in (
                ("wants a plain number", lambda case, u: (0, int(next(u) * 2))),
                ("compared with another one", lambda case, u: (int(next(u) < next(u)), 0)),
                ("compared with NaN", lambda case, u: (int(next(u) < math.nan), 0)),
                ("other things with the same random numbers", lambda case, u: (int(next(u) < Fraction(1, 2 + next(count))), 0))):
            status, printed, _ = checked(engine(verify_uniforms=rule), "--mode", "exact", "--case", "token/by-hand")
            self.assertEqual(status, 2, printed)
            self.assertIn(words, printed)

    @without_arrays
    def test_a_conviction_stays_one(self):
        def verify(case, seed):
            return None if case.id == "token/by-hand" else (0, 0)
        self.assertEqual(checked(engine(verify=verify), "--case", "token")[0], 1)

    @without_arrays
    def test_cases_that_are_not_taken(self):
        def verify(case, seed):
            if case.vocab_size > 4:
                raise NotImplementedError
            return right_rules.verify(case, seed)
        status, printed, found = checked(engine(verify=verify), "--samples", "50")
        self.assertEqual((status, statuses(found)), (0, {"acquitted", "not taken"}), printed)
        left = sum(finding.status == "not taken" for finding in found)
        self.assertRegex(printed, rf"\nnot taken, {left} cases: NotImplementedError \(runner\.py:\d+\)\n")

    @without_arrays
    def test_why_cases_are_not_taken(self):
        """An exception from deep inside the engine may mean something else."""
        def verify(case, seed):
            raise NotImplementedError("no kernel for float32\non this device" if case.gamma else "nothing is drafted")
        status, printed, _ = checked(engine(verify=verify), "--case", "token/g", "--case", "token/")
        self.assertEqual(status, 2)
        self.assertRegex(printed, r"\nnot taken, 2 cases: nothing is drafted \(runner\.py:\d+\)\n")
        self.assertRegex(printed, r"\nnot taken, \d\d cases: no kernel for float32 \(runner\.py:\d+\)\n")


class Exact(unittest.TestCase):
    def law(self, run):
        return check_engine.law_of(run, 1000)

    @without_arrays
    def test_arithmetic(self):
        half, third = Fraction(1, 2), Fraction(1, 3)
        for question, p in ((lambda u: u < third, third), (lambda u: u * 2 <= third, third / 2), (lambda u: 1 - u < third, third),
                            (lambda u: third > u, third), (lambda u: -u >= -third, third), (lambda u: u / 2 + 1 > half + 1, 0),
                            (lambda u: 3 * (u - half) > 1, half - third), (lambda u: u * 0 < 1, 1), (lambda u: u < 2, 1),
                            (lambda u: u * 0 <= 0, 1), (lambda u: u * 0 > 0, 0), (lambda u: u * 0 - 1 >= 0, 0)):
            found, left = self.law(lambda numbers: question(next(numbers)))
            self.assertEqual(({answer: share for answer, share in found.items() if share}, left),
                             ({answer: share for answer, share in ((True, p), (False, 1 - p)) if share}, 0))

    @without_arrays
    def test_one_number_twice(self):
        def run(numbers):
            u = next(numbers)
            return u < Fraction(1, 2), u < Fraction(3, 4)
        self.assertEqual(self.law(run)[0], {(True, True): Fraction(1, 2), (False, True): Fraction(1, 4), (False, False): Fraction(1, 4)})

    @without_arrays
    def test_what_is_known_of_a_number(self):
        """A number that is not <= 1/2 is not 1/2 either, so nothing is left to chance. One that is not < 1/2 may be."""
        half = Fraction(1, 2)
        for run, answers in ((lambda u: (u <= half, u <= half), {(True, True): half, (False, False): half}),
                             (lambda u: (u < half, u <= half), {(True, True): half, (False, False): half, (False, True): 0})):
            self.assertEqual(self.law(lambda numbers: run(next(numbers)))[0], answers)

    @without_arrays
    def test_loops(self):
        """A loop that repeats by chance: most is followed, and the rest is said."""
        for again in Fraction(1, 10), Fraction(9, 10):
            def run(numbers):
                return sum(1 for _ in itertools.takewhile(lambda u: u < again, numbers))
            found, left = check_engine.law_of(run, 300)
            self.assertEqual(found[2], again**2 * (1 - again))
            self.assertEqual(sum(found.values()) + left, 1)
            self.assertLess(left, 1e-9)

    @without_arrays
    def test_bisection(self):
        def run(numbers):
            return next(numbers) < 0.3 and next(numbers) < 1e-5
        found, left = check_engine.law_by_bisection(run, 1000)
        self.assertAlmostEqual(found[True], 0.3e-5, delta=1e-11)
        self.assertAlmostEqual(found[True] + found[False], 1, delta=1e-11)
        self.assertEqual(left, 0)

    @without_arrays
    def test_bisection_of_numbers_that_matter_rarely(self):
        """Engines that draw all numbers first: which ones count depends on later ones. Nothing is lost, or put in the wrong place."""
        def one(numbers):
            number, coin = next(numbers), next(numbers)
            return (0, number < 0.5) if coin >= 0.999 else (1, 0)

        def two(numbers):
            number, first, second = next(numbers), next(numbers), next(numbers)
            return "first" if first >= 0.9 else ("second", number < 0.98) if second >= 0.99 else "none"
        for run, law in ((one, {(0, True): 0.0005, (0, False): 0.0005, (1, 0): 0.999}),
                         (two, {"first": 0.1, "none": 0.891, ("second", True): 0.00882, ("second", False): 0.00018})):
            found, left = check_engine.law_by_bisection(run, 1000)
            self.assertLess(left, 1e-9)
            self.assertEqual(set(found), set(law))
            for outcome, p in law.items():
                self.assertAlmostEqual(found[outcome], p, delta=1e-9)

    @without_arrays
    def test_bisection_in_float32(self):
        """A number below 1 is below 1 in float32, too."""
        found, left = check_engine.law_by_bisection(lambda numbers: int(2 * struct.unpack("f", struct.pack("f", next(numbers)))[0]), 100)
        self.assertEqual((set(found), left), ({0, 1}, 0))
        self.assertAlmostEqual(found[1], 0.5, delta=1e-7)

    @without_arrays
    def test_bisection_leaves_open_what_has_no_thresholds(self):
        """A sum of numbers: where the one counts depends on the other everywhere."""
        found, left = check_engine.law_by_bisection(lambda numbers: next(numbers) + next(numbers) < 1, 20)
        self.assertGreater(left, 0.001)
        for answer in True, False:
            self.assertLessEqual(abs(found.get(answer, 0) - 0.5), left)
        right = engine(verify_uniforms=lambda case, u: (0, right_rules.draw(case.target[0], iter([(next(u) + next(u)) % 1]))))
        options = "--mode", "exact", "--numbers", "plain", "--case", "token/gamma-0", "--runs", "20"
        self.assertNotIn("convicted", statuses(checked(right, *options)[2]))

    @without_arrays
    def test_bisection_of_an_engine_that_draws_first(self):
        """Right, and acquitted: of tokens it draws the replacements before the coins, which reject rarely."""
        def rule(case, u):
            replacements, coins = [[next(u)] for _ in case.target], [next(u) for _ in case.tokens]
            for i, (coin, x) in enumerate(zip(coins, case.tokens)):
                if not coin * case.draft[i][x] < case.target[i][x]:
                    return i, right_rules.draw(right_rules.residual(1, case.target[i], case.draft[i]), iter(replacements[i]))
            return case.gamma, right_rules.draw(case.target[-1], iter(replacements[-1]))
        for case in "token/rows-of", "token/coin-and-draw":
            status, printed, found = checked(engine(verify_uniforms=rule), "--mode", "exact", "--numbers", "plain", "--case", case)
            self.assertEqual((status, statuses(found)), (0, {"acquitted"}), printed)

    @without_arrays
    def test_bisection_of_a_loop(self):
        found, left = check_engine.law_by_bisection(lambda numbers: sum(1 for _ in itertools.takewhile(lambda u: u < 0.25, numbers)), 1000)
        self.assertAlmostEqual(found[3], 0.25**3 * 0.75, delta=1e-9)
        self.assertLess(left, 1e-9)

    @without_arrays
    def test_too_few_runs(self):
        status, printed, found = checked(right_rules, "--mode", "exact", "--runs", "1", "--rule", "token", "--case", "token/by-hand")
        self.assertEqual((status, statuses(found)), (2, {"left open"}))
        self.assertIn("NOTHING WAS JUDGED", printed)
        self.assertIn("were not followed", printed)


class Bets(unittest.TestCase):
    CASE = "token/by-hand"

    def seat(self, bound=math.inf):
        given = VECTORS["cases"][self.CASE]
        return check_engine.Seat(check_engine.Case(given), given["law"], bound, 10_000), given["law"]

    @without_arrays
    def test_wealth_has_mean_1(self):
        _, law = self.seat()
        mean = 0
        for text in itertools.product(law, repeat=5):
            seat, _ = self.seat()
            for outcome in text:
                seat.add(outcome)
            mean += float(math.prod(law[outcome] for outcome in text)) * math.exp(seat.log_wealth)
        self.assertAlmostEqual(mean, 1, delta=1e-12)

    @without_arrays
    def test_a_gambler_that_lost_for_long_can_win_again(self):
        """Wealth is kept in logarithms: 0 would stay 0."""
        law = {outcome: Fraction(1, 1024) for outcome in range(1024)}
        view = check_engine.View("outcome", lambda outcome: outcome, law)
        for outcome in [*law] * 2:
            view.add(outcome)
        for a, wealth in zip(check_engine.CONCENTRATIONS, view.wealth):
            share, n = a / 1024, 2048
            self.assertAlmostEqual(wealth, math.lgamma(a) - math.lgamma(n + a) + 1024 * (
                math.lgamma(2 + share) - math.lgamma(share)) + n * math.log(1024), delta=1e-6)
        self.assertLess(view.wealth[0], -750)
        for _ in range(2000):
            view.add(0)
        self.assertGreater(view.wealth[0], 0)

    @without_arrays
    def test_a_mistake_is_ruled_out_for_all_cases_together(self):
        """What would rule it out in one case comes by chance in one of many."""
        given = VECTORS["cases"][self.CASE]
        right = {outcome: float(p) for outcome, p in given["law"].items()}
        rarest, may_be = min(right, key=right.get), {}
        for cases in 1, 100:
            seat = check_engine.Seat(check_engine.Case(given), right, math.inf, 10_000, cases)
            for count in range(20):
                may_be[cases, count] = seat.may_be(right)
                seat.add(rarest)
        self.assertEqual([[may_be[cases, count] for cases in (1, 100)] for count in (0, 19)], [[True, True], [False, False]])
        self.assertIn([False, True], [[may_be[1, count], may_be[100, count]] for count in range(20)])

    @without_arrays
    def test_stops_at_the_bound(self):
        seat, law = self.seat(bound=1000.0)
        rarest = min(law, key=law.get)
        while not seat.is_done():
            seat.add(rarest)
        self.assertGreaterEqual(seat.log_wealth, math.log(1000))
        self.assertEqual(seat.views[0].samples, seat.convicted_at + check_engine.AFTER_CONVICTION)

    @without_arrays
    def test_the_bound_counts_all_cases(self):
        runner = check_engine.Runner(VECTORS, right_rules, check_engine.arguments(["", "--false-alarms", "0.01"]))
        lines = [case for case in VECTORS["cases"].values() if case["rule"] == "any"]
        self.assertEqual(runner.bound, 100 * (len(VECTORS["cases"]) + 2 * len(lines)))  # each of them by token, block and match
        runner = check_engine.Runner(VECTORS, right_rules, check_engine.arguments(["", "--false-alarms", "0.01", "--mode", "batched"]))
        self.assertEqual(runner.bound, 100 * sum(len(batch["cases"]) for batch in VECTORS["batches"]))

    @without_arrays
    def test_a_run_can_be_repeated(self):
        what, options = mistakes.ENGINES["the replacement from the next row"], ("--case", "token/relaxed")
        printed = checked(what, *options)[1]
        self.assertEqual(checked(what, *options)[1], printed)
        self.assertNotEqual(checked(what, *options, "--seed", "2")[1], printed)

    def test_false_alarms(self):
        """The bets of many runs at once: over all texts their mean wealth is 1, and they are those of the runner."""
        if check_engine.numpy is None:
            self.skipTest("needs numpy")
        import false_alarms
        seat, law = self.seat()
        texts = list(itertools.product(range(len(law)), repeat=5))
        gambles = false_alarms.Gambles(seat.case, law, len(texts))
        for outcomes in zip(*texts):
            gambles.add(check_engine.numpy.array(outcomes))
        chances = [float(math.prod(list(law.values())[k] for k in text)) for text in texts]
        self.assertAlmostEqual(math.fsum(chances * gambles.wealth()), 1, delta=1e-12)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(false_alarms.main(["2", "--samples", "2"]), 0)
        self.assertIn("2 right runs of", printed.getvalue())
        gambles = false_alarms.Gambles(seat.case, law, 2)
        for k in 0, 1, 1, 0, 2, 1:
            gambles.add(check_engine.numpy.array([k, 0]))
            seat.add(list(law)[k])
            self.assertAlmostEqual(gambles.wealth()[0], math.exp(seat.log_wealth), delta=1e-12)


class Alone(unittest.TestCase):
    def run_in(self, folder, *given, python=(sys.executable, "-I")):
        return subprocess.run([*python, "check_engine.py", *given], cwd=folder, capture_output=True, text=True, check=False)

    def test_copies_in_an_empty_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "check_engine.py", "vectors.json":
                shutil.copy(FOLDER / name, folder)
            pathlib.Path(folder, "my_engine.py").write_text(ENGINE, encoding="utf-8")
            done = self.run_in(folder, "my_engine.py", "--samples", "300", "--case", "token/r")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertIn("not offered: argmax, block", done.stdout)
            pathlib.Path(folder, "my_engine.py").write_text(ENGINE.replace("p[x] / q[x]", "1"), encoding="utf-8")
            self.assertEqual(self.run_in(folder, "my_engine.py", "--case", "token/r").returncode, 1)

    def main_in(self, folder, *given):
        """(exit status, output, errors), in this process: it takes no time"""
        given = ["check_engine.py", *(str(pathlib.Path(folder, word)) if word.endswith((".py", ".json")) else word for word in given)]
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as errors, \
                unittest.mock.patch("sys.argv", given), unittest.mock.patch("sys.path", [*sys.path]):
            try:
                status = check_engine.main()
            except SystemExit as left:
                status = left.code
        return status, printed.getvalue(), errors.getvalue()

    @without_arrays
    def test_usage(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("no_rules.py", "def verify(case, seed): pass"), ("no_door.py", "RULES = ['token']"),
                               ("other.py", "RULES = ['token', 'blok']\ndef verify(case, seed): pass"), ("raises.py", "import nothing_like_this")):
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            pathlib.Path(folder, "old.json").write_text("{}", encoding="utf-8")
            pathlib.Path(folder, "bad.json").write_text("{", encoding="utf-8")
            for words, given in (("cannot read", ("no_door.py", "--vectors", "none.json")),
                                 ("cannot read", ("no_door.py", "--vectors", "bad.json")),
                                 ("this runner reads", ("no_door.py", "--vectors", "old.json"))):
                status, _, errors = self.main_in(folder, *given)
                self.assertEqual(status, 2)
                self.assertIn(words, errors)
            for words, given in (("which rules has this engine?", ("no_rules.py",)), ("has no verify,", ("no_door.py",)),
                                 ("no case for the rules token begins with 'x'", ("other.py", "--rule", "token", "--case", "x")),
                                 ("RULES or --rule is ['token', 'blok']; known are token, block,", ("other.py",)),
                                 ("cannot import the engine: ModuleNotFoundError", ("raises.py",)),
                                 ("is no file of Python", ("nothing.py",)), ("has no verify_batch", ("other.py", "--rule", "token", "--mode", "batched")),
                                 ("1 or more", ("other.py", "--samples", "0"))):
                with unittest.mock.patch("check_engine.read_vectors", lambda _: VECTORS):
                    status, printed, errors = self.main_in(folder, *given)
                self.assertEqual((status, printed), (2, ""), given)
                self.assertIn(words, errors)


ENGINE = """
import random

RULES = ["token"]


def verify(case, seed):
    source = random.Random(seed)
    for i, x in enumerate(case.tokens):
        p, q = case.target[i], case.draft[i]
        if source.random() >= p[x] / q[x]:
            q = [*q, *[0] * (len(p) - len(q))]
            return i, source.choices(range(len(p)), [max(a - b, 0) for a, b in zip(p, q)])[0]
    return case.gamma, source.choices(range(case.vocab_size), case.target[-1])[0]
"""


if __name__ == "__main__":
    unittest.main()
