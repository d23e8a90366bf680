# SPDX-License-Identifier: MIT
"""Tests of check_sampler: right samplers are acquitted, wrong ones convicted, at the stated rate."""

import functools
import unittest

import numpy as np
import specdec
import torch
from rejection_sampler import DRAFT, draw_draft, rejection_sampler


def one_by_one(target, draft, tokens, seed):
    """Token verification of one draft, in numpy."""
    generator = np.random.default_rng(seed)
    for i, x in enumerate(tokens):
        if generator.random() * draft[i, x] >= target[i, x]:
            left = np.maximum(target[i].astype(float) - draft[i], 0)
            return i, generator.choice(len(left), p=left / left.sum())
    return len(tokens), generator.choice(target.shape[1], p=target[-1].astype(float))


def by_rule(rule):
    def sampler(target, draft, tokens, seed):
        return specdec.verify_batch(rule, target, draft, tokens, range(1000 * seed, 1000 * seed + len(tokens)))[:2]

    return sampler


def from_emitted(emitted):
    """(accepted, token) of rows that hold the accepted tokens, the token after them, and then -1."""
    accepted = (emitted >= 0).sum(1) - 1
    return accepted, emitted[range(len(emitted)), accepted]


check = functools.partial(specdec.check_sampler, batch=500)


class Right(unittest.TestCase):
    def test_in_torch(self):
        for seed in 1, 2:
            report = check(rejection_sampler, seed=seed)
            self.assertFalse(report.convicted, report)
            self.assertEqual((bool(report), report.counterexample, report.cases), (True, "", 13))
            self.assertIn("acquitted on 13 cases of 20000 texts each", str(report))
            self.assertTrue(check(rejection_sampler, draw=draw_draft, seed=seed))

    def test_one_by_one(self):
        self.assertTrue(specdec.check_sampler(one_by_one, samples=2000))

    def test_rules_of_the_library(self):
        for rule in "token", "block", "sample-match":
            self.assertTrue(check(by_rule(rule)), rule)

    def test_rows_of_emitted_tokens(self):
        self.assertTrue(check(lambda target, draft, tokens, seed: from_emitted(
            specdec.verify_batch("block", target, draft, tokens, range(1000 * seed, 1000 * seed + 500)).emitted)))

    def test_batch_does_not_divide_samples(self):
        self.assertTrue(specdec.check_sampler(rejection_sampler, batch=333, samples=1000))

    def test_arrays_may_be_written_to(self):
        def writes(target, draft, tokens, seed):
            answer = rejection_sampler(target.copy(), draft.copy(), tokens.copy(), seed)
            target[:], draft[:], tokens[:] = 0, 0, 0
            return answer

        self.assertTrue(check(writes))

    def test_rate_of_false_alarms(self):
        """A rate that can be counted: X² and its bound leave room, so far fewer than 30 of 100 are convicted."""
        alarms = sum(check(by_rule("token"), samples=2000, false_alarm=0.3, seed=seed).convicted for seed in range(100))
        self.assertLess(alarms, 20)


class Wrong(unittest.TestCase):
    def convicted(self, sampler, words="output", **options):
        for seed in 1, 2:
            report = check(sampler, seed=seed, **options)
            self.assertTrue(report.convicted and not report)
            self.assertIn(words, report.counterexample)
            self.assertEqual(str(report), "CONVICTED: " + report.counterexample)

    def test_mistakes_of_engines(self):
        wrong = functools.partial(functools.partial, rejection_sampler)
        self.convicted(wrong(added_to_q=0.05))
        self.convicted(wrong(replacement_row=1))
        self.convicted(wrong(bonus_from="draft"))
        self.convicted(wrong(replacement_noise=DRAFT), draw=draw_draft)
        self.assertTrue(check(wrong(replacement_noise=DRAFT)))  # if the check draws, nothing is shared
        self.convicted(by_rule("argmax"))

    def test_a_small_bias_needs_more_texts(self):
        small = functools.partial(rejection_sampler, added_to_q=0.004)
        self.assertTrue(check(small))
        self.convicted(small, samples=100_000)

    def test_coins_that_drafts_share(self):
        self.convicted(functools.partial(rejection_sampler, coins=lambda shape, seed: torch.full(
            shape, np.random.default_rng(seed).random())))

    def test_rows_of_another_draft(self):
        self.convicted(lambda target, draft, tokens, seed: rejection_sampler(np.roll(target, 1, 0), draft, tokens, seed))

    def test_the_output_that_is_wrong(self):
        def zeros(target, draft, tokens, seed):
            return np.zeros(len(tokens), int), np.zeros(len(tokens), int)

        report = check(zeros)
        self.assertRegex(report.counterexample, r"^output \[0 ...\] has frequency 1, expected 0\.\d+ \(random rows without "
                                                r"zeros, V = 3, gamma = 1\)$")

    def test_impossible_verdicts(self):
        def returns(accepted, token):
            return lambda target, draft, tokens, seed: (np.full(len(tokens), accepted), np.full(len(tokens), token))

        self.convicted(returns(2, 0), "the sampler accepted 2 of 1 tokens")
        self.convicted(returns(-1, 0), "the sampler accepted -1 of 1 tokens")
        self.convicted(returns(0, 3), "the sampler returned token 3, outside the vocabulary 0..2")
        self.convicted(returns(0, 2**32), "outside the vocabulary 0..2")


class Errors(unittest.TestCase):
    def refused(self, message, f=rejection_sampler, kind=ValueError, **options):
        with self.assertRaisesRegex(kind, message):
            specdec.check_sampler(f, **{"batch": 10, **options})

    def test_options(self):
        self.refused("batch = 0, expected 1 at least", batch=0)
        self.refused("samples = 999 is outside 1000..", samples=999)
        self.refused(r"false_alarm = 1 is outside \(0, 1\)", false_alarm=1)
        self.refused(r"false_alarm = nan is outside \(0, 1\)", false_alarm=float("nan"))

    def test_answers(self):
        self.refused(r"the sampler returned a NoneType, expected \(accepted, token\)", lambda *_: None, TypeError)
        self.refused("accepted is a float, expected an integer", lambda *_: (0.5, 1), TypeError, batch=None)
        self.refused("accepted is a list, expected a numpy array", lambda *_: ([0] * 10, [1] * 10), TypeError)
        self.refused("accepted has 9 entries for 10 drafts", lambda *_: (np.zeros(9, int), np.zeros(10, int)))
        self.refused("token has 11 entries for 10 drafts", lambda *_: (np.zeros(10, int), np.zeros(11, int)))
        self.refused("modulo by zero", lambda *_: 1 // 0, ZeroDivisionError)

    def test_draws(self):
        self.refused("draw returned token 3 for draft 0, position 0, where q is 0", draw=lambda rows, i, seed: np.full(10, 3))
        self.refused("draw's answer has 9 entries", draw=lambda rows, i, seed: np.zeros(9, int))
        self.refused("draw's answer is a str, expected an integer", one_by_one, TypeError, batch=None, draw=lambda *_: "x")


if __name__ == "__main__":
    unittest.main()
