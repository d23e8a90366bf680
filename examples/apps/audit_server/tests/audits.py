# SPDX-License-Identifier: MIT
"""Tests of audit_server.py: a fake server, right or with a planted mistake, is acquitted or convicted in all modes."""

import contextlib
import io
import itertools
import json
import math
import pathlib
import random
import re
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import specdec

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import audit_server  # noqa: E402
import candidates  # noqa: E402
import false_alarms  # noqa: E402
import fake_server  # noqa: E402
import reports  # noqa: E402
from http_json import Server, ServerError, field  # noqa: E402
from openai_server import OpenAiServer  # noqa: E402
from json_lines import read_lines  # noqa: E402
from kept import text_line  # noqa: E402
from llama_server import SEED, LlamaServer  # noqa: E402
from pair_bets import Gambler, PairBets  # noqa: E402
from places import EDGES, Place, words_of  # noqa: E402
from samples import read_prompts  # noqa: E402
from single_bets import SingleBet  # noqa: E402
from text_bets import TextBets, least  # noqa: E402

LENIENT = 0.1  # the mistake: drafts of this probability are accepted
OPENAI = ["--api", "openai", "--end-token", fake_server.END, "--off-field", "speculative.n_max=0"]


def run(*given):
    """Status and output of the program."""
    out, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
        status = audit_server.main([str(word) for word in given])
    return status, out.getvalue() + wrong.getvalue()


def write_lines(lines):
    file = tempfile.NamedTemporaryFile("w", suffix=".jsonl")
    file.writelines(json.dumps(line) + "\n" for line in lines)
    file.flush()
    return file


class Rescoring(unittest.TestCase):
    def test_llama(self):
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient:
            status, words = run("rescore", right, "--texts", 25, "--tokens", 12)
            self.assertEqual(status, 0, words)
            self.assertNotIn("DID NOT SPECULATE", words)
            self.assertRegex(words, r"\d+ of 25 texts stopped before their limit")
            status, words = run("rescore", lenient, "--texts", 60, "--tokens", 12)
            self.assertEqual(status, 1, words)
            self.assertIn("come too often", words)

    def test_part_of_the_vocabulary(self):
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient:
            self.assertEqual(run("rescore", right, "--texts", 12, "--tokens", 12, "--top", 5)[0], 0)
            self.assertEqual(run("rescore", lenient, "--texts", 60, "--tokens", 12, "--top", 5)[0], 1)

    def test_reference(self):
        """With the draft model's server beside it."""
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient, \
                fake_server.running(name="draft") as draft:
            asked = [*OPENAI, "--tokens", 12, "--top", 5, "--reference", draft]
            for drafts, expected in ("drawn", r"ratio 10\^[1-9]"), ("likeliest", "the reference likes"):
                self.assertEqual(run("rescore", right, *asked, "--texts", 25, "--drafts", drafts)[0], 0)
                status, words = run("rescore", lenient, *asked, "--texts", 60, "--drafts", drafts)
                self.assertEqual(status, 1, words)
                self.assertRegex(words, expected)

    def test_openai(self):
        asked = [*OPENAI, "--tokens", 12]
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient:
            for by, texts in ("prompt", 80), ("next", 60):
                self.assertEqual(run("rescore", right, *asked, "--texts", 20, "--top", 5, "--by", by)[0], 0)
                self.assertEqual(run("rescore", lenient, *asked, "--texts", texts, "--top", 5, "--by", by)[0], 1)
            status, words = run("rescore", right, "--api", "openai", "--texts", 30)
            self.assertEqual(status, 2)
            self.assertIn("--end-token", words)

    def test_without_speculation(self):
        with fake_server.running() as right:
            status, words = run("rescore", right, "--texts", 2, "--tokens", 4, "--field", "speculative.n_max=0")
            self.assertEqual(status, 0)
            self.assertIn("THE SERVER DID NOT SPECULATE", words)

    def test_places_have_their_lists(self):
        """Each list is the row after its prefix, also where the server draws a part of a character."""
        with fake_server.running() as url:
            text = [*range(1, fake_server.VOCABULARY)]
            for place, listed in enumerate(LlamaServer(Server(url)).score([1, 2], text)):
                row = fake_server.row([1, 2, *text[:place]])
                self.assertTrue(listed.whole)
                for i, p in enumerate(row):
                    self.assertAlmostEqual(listed.probabilities[i], p)

    def test_requests_that_score(self):
        """The first computes the prompt anew, the others go on in its slot, and none has the seed of a text."""
        bodies = []
        with fake_server.running(bodies=bodies) as url:
            for _ in LlamaServer(Server(url), top=5).score([1, 2], [3, 4, 5]):
                pass
        first, *others = [body for body in bodies if body["seed"] == SEED]
        self.assertEqual([body["prompt"] for body in (first, *others)], [[1, 2], [1, 2, 3], [1, 2, 3, 4]])
        self.assertFalse(first["cache_prompt"])
        for body in others:
            self.assertEqual((body["cache_prompt"], body["id_slot"]), (True, fake_server.SLOT))
        self.assertTrue(all(body["seed"] >= SEED for body in bodies))

    def test_other_end_token(self):
        """A text that was ended by a token which is not the one named: nothing is made up."""
        with fake_server.running() as url:
            server = OpenAiServer(Server(url), end_token=fake_server.END)
            choice = {"token_ids": [3, 4], "finish_reason": "stop"}
            for written, expected in (3, [3, 4, fake_server.END]), (2, None), (None, None):
                server._post = lambda *_, **__: {**choice, "usage": {"completion_tokens": written}}
                if expected:
                    self.assertEqual(server.sample([1], 9, 1, True).tokens, expected)
                else:
                    self.assertRaisesRegex(ServerError, "another token than --end-token 0", server.sample, [1], 9, 1, True)

    def test_server_that_dies(self):
        """The evidence so far is told. A conviction stays one."""
        for least, most, expected in (None, 60, 2), (LENIENT, 400, 1):
            with self.subTest(least), fake_server.running(least, most=most) as url:
                status, words = run("rescore", url, "--texts", 90, "--tokens", 12, "--alpha", 1e-2, "--go-on")
                self.assertEqual(status, expected, words)
                self.assertIn("all places: evidence", words)
                self.assertIn("status 500", words)

    def test_no_token_is_no_evidence(self):
        self.assertAlmostEqual(TextBets().evidence, 0)

    def test_false_alarms(self):
        """Of 60 audits of right texts, 1 in 100 may ever reach 100."""
        reached = sum(false_alarms.audit(seed, 150, "whole", "likeliest").largest_evidence >= 2 for seed in range(60))
        self.assertLessEqual(reached, 3)


class Comparison(unittest.TestCase):
    def test_servers(self):
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient:
            self.assertEqual(run("compare", right, "--texts", 100, "--tokens", 12)[0], 0)
            status, words = run("compare", lenient, "--texts", 300, "--tokens", 12)
            self.assertEqual(status, 1, words)
            self.assertIn("texts with speculation are", words)

    def test_two_servers(self):
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient:
            self.assertEqual(run("compare", lenient, "--off-url", right, "--texts", 300, "--tokens", 12)[0], 1)

    def test_scores(self):
        """What the server says of both texts tells them apart sooner."""
        asked = ["--score", *OPENAI, "--tokens", 12, "--top", 10, "--texts", 80]
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient:
            self.assertEqual(run("compare", right, *asked)[0], 0)
            status, words = run("compare", lenient, *asked)
            self.assertEqual(status, 1, words)
            self.assertIn("have likelier tokens", words)

    def test_order(self):
        """Either text is written first, and either is scored first: the second may find another state of the server."""
        bodies, scored = [], []

        class Scorer:
            def score(self, prompt, text):
                scored.append(text)
                return [candidates.Candidates({token: 0.5}, False) for token in text]

        with fake_server.running(bodies=bodies) as url:
            run("compare", url, "--texts", 20, "--tokens", 4)
        written = [body.get("speculative.n_max", 1) > 0 for body in bodies if body.get("return_tokens")]
        self.assertEqual({*zip(written[::2], written[1::2])}, {(True, False), (False, True)})
        coin = random.Random(1)
        for _ in range(20):
            scores = audit_server.scores_of(Scorer(), [], {True: [1], False: [2, 3]}, coin)
            self.assertEqual(scores, [math.log(0.5)] * 2)
        self.assertEqual({len(text) for text in scored[::2]}, {1, 2})
        scored.clear()
        self.assertEqual(audit_server.scores_of(Scorer(), [], {True: [1], False: [1]}, coin), [0.0, 0.0])
        self.assertEqual(scored, [])

    def test_server_that_dies(self):
        with fake_server.running(most=60) as url:
            status, words = run("compare", url, "--texts", 90, "--tokens", 4)
        self.assertEqual(status, 2)
        self.assertRegex(words, r"1\d pairs, evidence")

    def test_no_bet(self):
        gambler = Gambler()
        for difference in 0, math.nan:
            gambler.take(difference)
        self.assertEqual((gambler.larger, gambler.smaller, gambler.log_wealth), (0, 0, 0))

    def test_factors_are_fair(self):
        """Whatever was seen, the mean of the next factor over both signs is 1."""
        source = random.Random(1)
        gambler = Gambler()
        for _ in range(200):
            factors = []
            for sign in -1, 1:
                twin = Gambler()
                twin.larger, twin.smaller = gambler.larger, gambler.smaller
                twin.take(sign)
                factors.append(math.exp(twin.log_wealth))
            self.assertAlmostEqual(sum(factors) / 2, 1)
            gambler.take(source.choice((-1, -1, 1, 0)))

    def test_false_alarms(self):
        """Of 60 comparisons of texts of one law, 1 in 100 may ever reach 100."""
        reached = 0
        for seed in range(60):
            bets = PairBets()
            source = random.Random(seed)
            for _ in range(30):
                texts = [fake_server.Text([1, 2], 10, source.random(), True, None, "target").tokens[:6] for _ in range(2)]
                bets.add([1, 2], *texts)
            reached += bets.largest_evidence >= 2
        self.assertLessEqual(reached, 3)


class Independence(unittest.TestCase):
    """Texts that repeat one another, though each has the model's law, are no verdict, and the report names the cause."""

    def test_a_server_that_ignores_the_seed(self):
        with fake_server.running(seed=7) as url:
            for mode, *asked in ["rescore"], ["rescore", *OPENAI, "--top", 5], ["compare"]:
                with self.subTest([mode, *asked]), fake_server.running(seed=8) as other:
                    if mode == "compare":
                        asked = ["--off-url", other]
                    status, words = run(mode, url, *asked, "--texts", 100, "--tokens", 12)
                    self.assertEqual(status, 2, words)
                    self.assertIn("the texts are not independent", words)
                    self.assertIn("NO VERDICT", words)
                    self.assertNotIn("CONVICTED", words)

    def test_only_the_texts_with_speculation_repeat(self):
        """Then speculation tells them apart, so it is convicted, and the report says what they do."""
        bets = PairBets()
        for n in range(60):
            bets.add([1], [5, 6, 7], [n, n + 1, n + 2])
        self.assertFalse(bets.depends(1e-6))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(reports.report_pairs(bets, 1e-6, []), 1)
        self.assertIn("with speculation 59 of 59 texts are equal", out.getvalue())

    def test_a_temperature_near_0(self):
        """Texts of both kinds that are all equal tell nothing apart, and need no excuse."""
        bets = PairBets()
        for _ in range(20):
            bets.add([1], [5, 6, 7], [5, 6, 7])
        self.assertFalse(bets.depends(1e-6))
        self.assertFalse(PairBets().off_texts.most())

    def test_one_kind_is_convicted(self):
        """A file whose pairs are no verdict, and whose text convicts."""
        lines = [{"on": [1, 1, 1], "off": [2]}] * 8 + [{"tokens": [3], "vocabulary": 2, "candidates": [{"1": -0.5, "2": -0.93}]}]
        with write_lines(lines) as file:
            status, words = run("lines", file.name, "--alpha", 10 ** -1.2)
        self.assertEqual(status, 1, words)
        self.assertIn("NO VERDICT", words)

    def test_law_of_repeats(self):
        """Of audits of right texts, 1 in 100 may ever find so many repeats that it reaches 100; and likely tokens that come too often are
        no repeats."""
        found = [false_alarms.audit(seed, 150, "whole").largest_again for seed in range(60)]
        self.assertLessEqual(sum(evidence >= 2 for evidence in found), 3)
        with fake_server.running(LENIENT) as lenient, tempfile.NamedTemporaryFile("w") as prompts:
            prompts.write("[1, 2]\n")
            prompts.flush()
            status, words = run("rescore", lenient, "--texts", 60, "--tokens", 12, "--prompts", prompts.name)
            self.assertEqual(status, 1, words)

    def test_far_more_than_all_other_bets(self):
        bets = TextBets()
        for again, evidence, depends in (7, 3, True), (7, 4, False), (5, 1, False):
            bets.largest_again, bets.largest_evidence = again, evidence
            self.assertEqual(bets.depends(1e-6), depends)

    def test_earlier_texts_only(self):
        """What is expected is what an earlier text of this prompt has here, as long as the text is that one."""
        bets = TextBets()
        listed = candidates.listed([(1, 0.05), (2, 0.95)], "a list", 2)
        bets.add_text([7], [1, 1, 1, 1], [listed] * 4)
        self.assertEqual(bets.again.expected, 0)
        bets.add_text([8], [1, 1], [listed] * 2)
        self.assertEqual(bets.again.expected, 0)
        bets.add_text([7], [1, 2, 1, 1], [listed] * 4)  # from its second token on it is another text
        self.assertEqual((bets.again.came, bets.again.expected), (1, 0.1))
        bets.add_text([7], [1, 2, 1, 1], [listed] * 4)  # a likely token is no bet
        self.assertEqual(bets.again.came, 4)
        self.assertAlmostEqual(bets.again.expected, 0.25)
        before = bets.again.log_wealth
        bets.add_text([7], [2], [candidates.listed([(1, 0.05), (3, 0.95)], "a list", 2)])  # a run begins anew with each text
        self.assertAlmostEqual(bets.again.log_wealth - before, math.log(0.5 / 0.95), 2)


class SingleTokens(unittest.TestCase):
    LISTED = candidates.listed([(1, 0.6), (2, 0.35), (3, 0.05)], "a list", 3)

    def evidence(self, share, reference=None, texts=400):
        """Of texts in which token 3 comes with probability `share`, and the others as often as they should beside it."""
        source, bets = random.Random(1), TextBets(named=[3])
        for _ in range(texts):
            bets.add(source.choices([1, 2, 3], [0.6 / 0.95 * (1 - share), 0.35 / 0.95 * (1 - share), share])[0], self.LISTED, reference)
        return bets

    def test_end_token(self):
        """One that comes twice as often as it should: no other bet sees it so soon."""
        self.assertLess(self.evidence(0.05).largest_evidence, 1)
        bets = self.evidence(0.12)
        self.assertGreater(bets.named[3].evidence, 5)
        self.assertLess(bets.all.evidence, 2)
        self.assertIn("token 3 comes too often", bets.won)
        self.assertIn("token 3 comes too seldom", self.evidence(0.0).won)

    def test_with_a_reference(self):
        """A token that comes half way as often as the draft model says."""
        draft = candidates.listed([(1, 0.6), (2, 0.2), (3, 0.2)], "a list", 3)
        bets = self.evidence(0.125, draft)
        self.assertGreater(bets.named[3].by_reference.evidence, bets.named[3].by_counts.evidence)
        self.assertLess(self.evidence(0.05, draft).named[3].by_reference.evidence, 0)

    def test_tolerance(self):
        """A p that is wrong by e^tolerance at most leaves the mean factor at 1 at most, and nearly there."""
        for tolerance, p, q in itertools.product((1e-3, 0.1), (1e-4, 0.3, 0.8), (1e-5, 0.2, 0.85)):
            means = []
            for right in p * math.exp(-tolerance), p, p * math.exp(tolerance):
                factors = [math.exp(SingleBet(tolerance).after(p, comes, q).log_wealth) for comes in (False, True)]
                means.append((1 - right) * factors[0] + right * factors[1])
            self.assertLessEqual(max(means), 1 + 1e-12)
            self.assertGreater(max(means), 1 - 10 * tolerance**2)

    def test_ends_are_named_after_their_text(self):
        bets = TextBets()
        bets.add_text([1], [2, 3], [self.LISTED] * 2, end=3)
        self.assertEqual(bets.named[3].by_counts.expected, 0)
        bets.add_text([1], [2, 3], [self.LISTED] * 2, end=3)
        self.assertAlmostEqual(bets.named[3].by_counts.expected, 0.1)
        bets.add_text([1], [2], [None])
        self.assertEqual((bets.left_out, [*bets.named]), (1, [3]))

    def test_ends_of_texts_are_named(self):
        with fake_server.running() as url:
            for asked in ["--texts", 40], ["--texts", 40, *OPENAI, "--token", 5]:
                words = run("rescore", url, "--tokens", 12, *asked)[1]
                self.assertRegex(words, r"token 0: 10\^.* came \d+ times")
            self.assertIn("token 5: 10^", words)


class Reports(unittest.TestCase):
    def test_what_won(self):
        """A conviction says what has won, also where it was won by bets on a group, and never that nothing speaks against the server."""
        group = candidates.listed([(1, 0.3), (2, 0.3), (3, 0.4)], "a list", 3)
        other = candidates.listed([(1, 0.5), (2, 0.5)], "a list", 2)
        source, bets = random.Random(2), TextBets()
        while not bets.convicts(1e-6):
            bets.add(3, group)
            for _ in range(30):
                bets.add(source.choice([1, 2]), other)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(reports.report_text(bets, 1e-6, []), 1)
        self.assertIn("where a likely token has 0.25 to 0.5, the bet by rank has won most: likely tokens come too often", out.getvalue())
        self.assertNotIn("nothing speaks", out.getvalue())

    def test_little_won_by_many(self):
        """A conviction at a large alpha has words, too, and less than 10 is nothing."""
        little = unittest.mock.Mock(impossible=0, by_rank=0.9, by_id=-1, by_ratio=0, by_two_numbers=0)
        self.assertIn("no single bet has won much", words_of(little))
        little.by_ratio, little.fault = 1.1, "a fault"
        self.assertEqual(words_of(little), "the bet by the ratio to the reference has won most: a fault")
        bets = TextBets()
        bets.add(1, candidates.listed([(1, 0.5), (2, 0.5)], "a list", 2))
        self.assertEqual(bets.found(1e-6), "nothing speaks against the server")
        pairs = PairBets()
        while not pairs.convicts(0.3):
            pairs.add([1], [1, 1], [pairs.pairs])
        self.assertIn("texts with speculation", pairs.found(0.3))
        self.assertEqual(pairs.found(1e-6), "nothing speaks against the server")

    def test_what_was_reached_stays(self):
        """E falls after a conviction, and the report says still what had won."""
        pairs = PairBets()
        for n in range(40):
            pairs.add([1], [n, n, n], [n])
        self.assertTrue(pairs.convicts(1e-6))
        reached, won = pairs.largest_evidence, pairs.won
        source = random.Random(1)
        for n in range(100):
            pairs.add([1], *source.sample([[n], [n, n, n]], 2))
        self.assertLess(pairs.evidence, reached)
        self.assertEqual((pairs.largest_evidence, pairs.found(1e-6)), (reached, won))
        self.assertTrue(pairs.convicts(1e-6))

    def test_shares_of_the_wealth(self):
        """E is the mean of what the gamblers have. Groups bet at different places, so their wealth is multiplied."""
        lists = [candidates.listed([(1, p), (2, 1 - p)], "a list", 2) for p in (0.6, 0.9)]
        one = [specdec.TextAudit(tolerance=1e-3, seed=1, stream=stream) for stream in range(len(EDGES) + 2)]
        bets, source = TextBets(named=[2]), random.Random(5)
        for _ in range(80):
            for k, listed in enumerate(lists):
                token = source.choices([1, 2], [(0.9, 0.1), (0.6, 0.4)][k])[0]
                bets.add(token, listed)
                for audit in one[0], one[3 + k]:
                    audit.add(np.array([[*listed.probabilities.values()]]), np.array([token - 1]))
        groups = one[3].evidence + one[4].evidence
        self.assertGreater(min(one[3].evidence, one[4].evidence), 0)
        mean = 5 / 16 * (10 ** one[0].evidence + 10 ** groups) + 1 / 8 * (1 + 10 ** bets.named[2].evidence) + 1 / 8
        self.assertAlmostEqual(bets.evidence, math.log10(mean))
        for named in range(6):
            shares = [share for share, _ in TextBets(named=range(named)).shares()]
            self.assertAlmostEqual(sum(shares), 1)
            self.assertGreater(min(shares), 0)
        self.assertAlmostEqual(sum(share for share, _ in PairBets().shares()), 1)

    def test_lists_of_one_token(self):
        with write_lines([{"token": 1, "candidates": {"1": -1}}]) as file:
            status, words = run("lines", file.name)
        self.assertEqual(status, 2)
        self.assertIn("none of 1 lists has two tokens", words)


class Keeping(unittest.TestCase):
    """Two runs that keep what they saw are the one run that they would have been."""

    def evidence(self, words):
        return float(re.search(r"evidence 10\^(\S+),", words)[1])

    def test_two_runs(self):
        with fake_server.running() as url, fake_server.running(name="draft") as draft, tempfile.TemporaryDirectory() as folder:
            for name, asked in (("rescore", ["rescore", url]), ("top", ["rescore", url, "--top", 5, "--reference", draft]),
                                ("compare", ["compare", url]), ("scores", ["compare", url, "--score", "--top", 5])):
                with self.subTest(name):
                    asked += ["--tokens", 6, "--go-on"]
                    kept = ["--keep", pathlib.Path(folder) / name]
                    once, words = run(*asked, "--texts", 26)
                    run(*asked, *kept, "--texts", 22)
                    twice, more = run(*asked, *kept, "--texts", 4)
                    self.assertEqual((once, self.evidence(words)), (twice, self.evidence(more)))
                    self.assertIn("had 22 of these texts", more)
                    status, read = run("lines", kept[1], *(["--drafts", "likeliest"] if name == "top" else []))
                    self.assertEqual((once, self.evidence(words)), (status, self.evidence(read)))

    def test_a_conviction_is_kept(self):
        with fake_server.running(LENIENT, bodies=(bodies := [])) as url, tempfile.TemporaryDirectory() as folder:
            asked = ["rescore", url, "--tokens", 12, "--keep", pathlib.Path(folder) / "kept"]
            self.assertEqual(run(*asked, "--texts", 60)[0], 1)
            asked_before = sum("return_tokens" in body for body in bodies)
            self.assertEqual(run(*asked, "--texts", 60)[0], 1)
            self.assertEqual(sum("return_tokens" in body for body in bodies), asked_before)

    def test_texts_are_new(self):
        """The seeds and prompts of a second run come after those of the first."""
        with fake_server.running(bodies=(bodies := [])) as url, tempfile.TemporaryDirectory() as folder:
            asked = ["rescore", url, "--tokens", 2, "--top", 5, "--keep", pathlib.Path(folder) / "kept"]
            for texts in 3, 2:
                run(*asked, "--texts", texts)
            texts = [body for body in bodies if body.get("return_tokens")]
            self.assertEqual([body["seed"] for body in texts], [1, 2, 3, 4, 5])
            self.assertEqual(len({str(body["prompt"]) for body in texts}), 3)  # each twice in a row

    def test_other_settings(self):
        with fake_server.running() as url, tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kept"
            self.assertEqual(run("rescore", url, "--texts", 2, "--tokens", 4, "--keep", file)[0], 0)
            for mode, tokens, words in ("rescore", 5, "tokens = 4, not 5"), ("compare", 4, "mode = 'rescore'"):
                status, said = run(mode, url, "--tokens", tokens, "--keep", file)
                self.assertEqual(status, 2)
                self.assertIn(words, said)
            file.write_text('{"token": 1}\n')
            self.assertIn("--keep has not written it", run("rescore", url, "--keep", file)[1])

    def test_lines_of_a_text(self):
        """What is written is what is read: whole lists, places without one, a reference, an end, tokens of probability 0."""
        whole, part = candidates.Candidates({1: 0.5, 2: 0.5, 3: 0.0}, True), candidates.Candidates({1: 0.75, 2: 0.125})
        text = [7], [1, 2, 3], [whole, None, part], [part, part, part], 3
        read = unittest.mock.Mock()
        read_lines([json.dumps(text_line(*text))], lambda: read, None)
        prompt, tokens, lists, references, end = read.add_text.call_args[0]
        self.assertEqual((prompt, tokens, end), ([7], [1, 2, 3], 3))
        self.assertEqual([one and one.whole for one in lists], [True, None, False])
        for one, other in zip([*lists[::2], *references], [whole, part, *[part] * 3]):
            self.assertEqual([*one.probabilities], [*other.probabilities])
            for i, p in other.probabilities.items():
                self.assertAlmostEqual(one.probabilities[i], p)


class Lines(unittest.TestCase):
    def text_lines(self, least):
        for seed in range(60):
            prompt = [1, 1 + seed % 11]
            tokens = fake_server.Text(prompt, 12 + 4, seed, True, least, "target").tokens[:12]
            rows = [[*map(math.log, fake_server.row([*prompt, *tokens[:i]]))] for i in range(len(tokens))]
            yield prompt, tokens, rows

    def forms(self, least):
        """The same texts in each form that is read."""
        yield "texts", [{"prompt": prompt, "tokens": tokens, "candidates": [dict(enumerate(row)) for row in rows]}
                        for prompt, tokens, rows in self.text_lines(least)]
        yield "tokens", [{"token": token, "candidates": [*enumerate(row)]}
                         for _, tokens, rows in self.text_lines(least) for token, row in zip(tokens, rows)]
        yield "vLLM", [{"prompt": prompt, "tokens": tokens, "choices": [{"prompt_logprobs": [None] * len(prompt) + [
            fake_server.ranked([*map(math.exp, row)], token, 5) for token, row in zip(tokens, rows)]}]}
            for prompt, tokens, rows in self.text_lines(least)]
        yield "llama", [{"tokens": tokens, "completion_probabilities": [
            {"id": token, "top_logprobs": [{"id": i, "logprob": x} for i, x in enumerate(row)]} for token, row in zip(tokens, rows)]}
            for _, tokens, rows in self.text_lines(least)]
        yield "references", [{"prompt": prompt, "tokens": tokens, "candidates": [dict(enumerate(row)) for row in rows],
                              "reference": [dict(enumerate(map(math.log, fake_server.row([*prompt, *tokens[:i]], "draft"))))
                                            for i in range(len(tokens))]}
                             for prompt, tokens, rows in self.text_lines(least)]
        yield "two numbers", [{"token": token, "logprob": row[token], "reference_logprob":
                               math.log(fake_server.row([*prompt, *tokens[:i]], "draft")[token])}
                              for prompt, tokens, rows in self.text_lines(least)
                              for i, (token, row) in enumerate(zip(tokens, rows))]

    def test_forms(self):
        for least, expected in (None, 0), (LENIENT, 1):
            for name, lines in self.forms(least):
                alpha = 1e-3 if name == "two numbers" else 1e-6  # two numbers say less than a list
                with self.subTest(name, least=least), write_lines(lines) as file:
                    status, words = run("lines", file.name, "--alpha", alpha)
                    self.assertEqual(status, expected, words)

    def test_pairs(self):
        for least, expected in (None, 0), (0.05, 1):
            lines = [{"prompt": [1, 2], "on": fake_server.Text([1, 2], 16, seed, True, least, "target").tokens[:12],
                      "off": fake_server.Text([1, 2], 16, -seed, False, None, "target").tokens[:12]} for seed in range(1, 250)]
            with write_lines(lines) as file:
                self.assertEqual(run("lines", file.name)[0], expected)

    def test_two_kinds_share_alpha(self):
        pairs = [{"on": [1, 1, i], "off": [2 + i]} for i in range(8)]  # E = 10^1.6
        token = [{"token": 1, "candidates": {"1": -0.7, "2": -0.7}}]
        alpha = 10 ** -1.4
        for lines, expected in (pairs, 1), (pairs + token, 0):
            with self.subTest(len(lines)), write_lines(lines) as file:
                status, words = run("lines", file.name, "--alpha", alpha)
                self.assertEqual(status, expected, words)

    def test_reference_by_hand(self):
        """One that is all on one token has one reading: nobody has added this token."""
        for logarithm, readings in (0, 1), (-0.1, 2):
            read = unittest.mock.Mock()
            read_lines([json.dumps({"token": 1, "candidates": {"1": -0.7, "2": -0.7}, "reference": {"1": logarithm}})], lambda: read, None)
            self.assertEqual(len(read.add.call_args[0][2].readings(1)), readings)

    def test_unreadable_numbers(self):
        with write_lines([{"token": 1, "logprob": 1000, "reference_logprob": -1}]) as file:
            status, words = run("lines", file.name)
        self.assertEqual(status, 2)
        self.assertIn("none of 1 tokens", words)

    def test_speculated_tokens_without_lists(self):
        """What a server lists while it speculates is refused, and not judged in part."""
        with fake_server.running() as url:
            http = Server(url)
            for seed in range(20):
                answer = http.post("/completion", {"prompt": [1, 2], "n_predict": 12, "n_probs": 14, "seed": seed})
                with self.subTest(seed=seed), self.assertRaisesRegex(ServerError, "score the text again"):
                    read_lines([json.dumps(answer)], TextBets, None)

    def test_bad_lines(self):
        for line, words in (
            ("{", "line 1 is no JSON"),
            ("[1]", "line 1 is no object, where a JSON object is wanted"),
            ('{"token": 1, "logprob": -1}', "no field candidates"),
            ('{"tokens": [1]}', "no field choices"),
            ('{"token": 1, "candidates": {"1": -0.1, "2": -0.1}}', "together"),
            ('{"token": 1, "candidates": {"the": 0}}', "by its text"),
            ('{"token": 1, "candidates": [{"token": "the", "logprob": 0}]}', "no field id"),
            ('{"tokens": [1, 2], "candidates": [{"1": 0}]}', "2 tokens, but 1 lists"),
            ('{"on": [1]}', "no field off"),
            ('{"on": 5, "off": [1]}', "the field on does not hold token ids"),
            ('{"token": "1", "candidates": {"1": 0}}', "the field token does not hold token ids"),
            ('{"token": null, "candidates": {"1": 0}}', "the field token does not hold token ids"),
            ('{"token": 1, "candidates": 5}', "the candidates are no list"),
            ('{"tokens": [1], "candidates": 5}', "what is listed for the tokens is no list"),
            ('{"token": 1, "candidates": [{"id": "1", "logprob": 0}]}', "the field id does not hold token ids"),
            ('{"token": 1, "candidates": {"1": null}}', "is no number"),
            ('{"token": 1, "candidates": {"1": {"logprob": -1}, "2": {"logprob": null}}}', "is no number"),
            ('{"token": 1, "candidates": {"top_logprobs": [null]}}', "a candidate of line 1, token 0 is null"),
            ('{"prompt": [1], "tokens": [2], "choices": [{"prompt_logprobs": [null, null]}]}', "token 0 has no list"),
            ('{"token": 1, "candidates": {"1": 1000}}', "together"),
            ('{"token": 1, "candidates": {"1": NaN}}', "negative or NaN"),
            ('{"token": 1, "candidates": [{"id": 1, "prob": 1.5}, {"id": 2, "prob": -0.5}]}', "negative or NaN"),
            ('{"token": 1, "logprob": null, "reference_logprob": 0}', "no field logprob"),
            ('{"choices": [{"text": "the"}]}', r"choices\[0\] has no field logprobs"),
        ):
            with self.subTest(line), self.assertRaisesRegex(ServerError, words):
                read_lines([line], TextBets, PairBets)


class Lists(unittest.TestCase):
    ROW = {1: 0.5, 2: 0.3, 3: 0.1, 4: 0.06, 5: 0.04}

    def shown(self, own, token=None):
        """The `own` likeliest tokens, and the token of the text, if it is added."""
        row = [(i, p) for i, p in self.ROW.items() if i <= own or i == token]
        return candidates.listed(row, "a list", 5 if own == 5 else None)

    def test_readings(self):
        """A list is the server's own, unless its unlikeliest token is the text's: then this may have been added."""
        for own in range(1, 5):
            for token in self.ROW:
                listed = self.shown(own, token)
                readings = [[*one.probabilities] for one in listed.readings(token)]
                self.assertIn([*range(1, own + 1)], readings)
                self.assertEqual(len(readings), 1 if token < own else 2)
        self.assertEqual(len(listed.readings(99)), 1)
        self.assertEqual(len(candidates.listed([*self.ROW.items()], "a list", 5).readings(5)), 1)
        tie = candidates.listed([(1, 0.4), (2, 0.3), (3, 0.3)], "a list")
        self.assertEqual([[*one.probabilities] for one in tie.readings(2)], [[1, 2, 3], [1, 3]])

    def test_bets_on_single_tokens_are_fair(self):
        """However many tokens a server lists on its own, and whether it adds one: whatever was seen, no mean factor is over 1. With whole
        lists it is 1."""
        for own, adds, reference in itertools.product(range(1, 6), (True, False), (True, False)):
            with self.subTest(own=own, adds=adds, reference=reference):
                def readings(token):
                    beside = candidates.listed([(4, 0.5), (token, 0.3)], "a list") if reference else None
                    return [Place(token, one, other) for one in self.shown(own, adds and token).readings(token)
                            for other in (beside.readings(token) if beside else [None])]

                bets, source = TextBets(0.0, named=[2, 4]), random.Random(own)
                for _ in range(12):
                    bets.again.begin([7])
                    for _ in range(6):
                        for gambler in bets.unlisted, bets.again, *bets.named.values():
                            mean = math.fsum(p * 10 ** (least(gambler, readings(x)).evidence - gambler.evidence)
                                             for x, p in self.ROW.items())
                            self.assertLessEqual(mean, 1 + 1e-12)
                            if own == len(self.ROW) and not reference:
                                self.assertAlmostEqual(mean, 1)
                        token = source.choices([*self.ROW], self.ROW.values())[0]
                        bets.add(token, self.shown(own, adds and token))

    def test_classes_do_not_depend_on_the_token(self):
        """What is a class of its own, and what the others have together, is the same for all tokens by the server's own list. The reading
        with the token that was added puts it among the others."""
        for own in range(1, 5):
            classes = {str(self.shown(own, token).readings(token)[-1 if token > own else 0].classes()) for token in self.ROW}
            self.assertEqual(len(classes), 1)
            for token in range(own + 1, 6):
                for one in self.shown(own, token).readings(token):
                    self.assertNotIn(token, one.classes()[0])

    def test_short_lists_convict_nobody(self):
        """A right server that lists 5 tokens and adds the text's, with and without a reference of its kind."""
        for seed in range(6):
            for reference in None, "likeliest", "drawn":
                self.assertLess(false_alarms.audit(seed, 250, "short", reference).largest_evidence, 3)

    def test_whole(self):
        """A list is whole if it has the whole vocabulary. What its sum lacks does not tell: a token outside would be impossible."""
        row = [(1, 0.6), (2, 0.4 - 9e-6)]
        self.assertTrue(candidates.listed(row, "a list", 2).whole)
        for vocabulary in 3, None:
            listed = candidates.listed(row, "a list", vocabulary)
            self.assertFalse(listed.whole)
            bets = TextBets()
            bets.add(3, listed)
            self.assertLess(bets.evidence, 1)
        bets = TextBets()
        bets.add(3, candidates.listed(row, "a list", 2))
        self.assertEqual(bets.evidence, math.inf)

    def test_tokens_outside(self):
        """That come although the list leaves little to them convict soon, too."""
        bets = TextBets()
        for n in range(200):
            bets.add(9 if n % 10 == 0 else 1, candidates.listed([(1, 0.6), (2, 0.4 - 9e-6)], "a list"))
        self.assertTrue(bets.convicts(1e-6))
        self.assertIn("no list has", bets.found(1e-6))
        for every in 1000, 5000:  # as many as the tolerance of 1e-3 allows, or none: neither often nor seldom
            bets = TextBets()
            for n in range(1, 3001):
                bets.add(9 if n % every == 0 else 1, candidates.listed([(1, 0.6), (2, 0.4 - 9e-6)], "a list"))
            self.assertLess(bets.unlisted.evidence, 0.1)

    def test_small_rest(self):
        """What is left is a difference: where rounding may have made it, unlikely tokens join it. The unlikeliest always does."""
        ids, rest = candidates.Candidates({1: 0.6, 2: 0.39999, 3: 9e-6, 4: 5e-7}).classes()
        self.assertEqual(ids, [1])
        self.assertAlmostEqual(rest, 0.4)
        self.assertEqual(candidates.Candidates({1: 0.6, 2: 0.3997, 3: 2e-4}).classes()[0], [1, 2])
        self.assertEqual(candidates.Candidates({1: 0.6, 2: 0.4}, True).classes(), ([1, 2], None))
        self.assertEqual(candidates.Candidates({}).classes(), ([], 1.0))
        self.assertEqual(candidates.Candidates({1: 1.0}).log_probability(2), math.log(1e-4))

    def test_temperature(self):
        row = candidates.listed([(1, 0.64), (2, 0.36 - 1e-6)], "a list").at_temperature(0.5)
        self.assertAlmostEqual(row.probabilities[1], 0.64**2 / (0.64**2 + 0.36**2), 5)
        self.assertFalse(row.whole)
        self.assertTrue(candidates.listed([(1, 0.64), (2, 0.36)], "a list", 2).at_temperature(2).whole)
        for p, temperature in (0.5, 0.5), (1 - 1e-6, 2):
            with self.assertRaisesRegex(ServerError, "whole vocabulary"):
                candidates.listed([(1, p)], "a list").at_temperature(temperature)


class Errors(unittest.TestCase):
    def test_no_traceback(self):
        """It would end with 1, which is a conviction."""
        with write_lines([{"choices": [{"logprobs": 5}]}]) as file:
            status, words = run("lines", file.name)
        self.assertEqual(status, 2)
        self.assertIn("another form than expected (TypeError", words)

    def test_answers_of_other_forms(self):
        class Http:
            def __init__(self, answer):
                self.answer = answer

            def post(self, *_):
                return self.answer

        def server(**answer):
            return LlamaServer(Http(answer), top=5)

        self.assertIsNone(server(tokens=[1], timings=5).sample([1], 1, 1, True).speculated)
        self.assertIsNone(server(generation_settings=None).draft_max())
        for tokens in "17", ["17"], [None]:
            with self.subTest(tokens), self.assertRaisesRegex(ServerError, "tokens does not hold token ids"):
                server(tokens=tokens).sample([1], 1, 1, True)
        with unittest.mock.patch("urllib.request.urlopen", lambda *_, **__: io.StringIO("[1]")), \
                self.assertRaisesRegex(ServerError, "the answer is no JSON object"):
            Server("http://127.0.0.1").get("/")

    def test_prompts(self):
        with tempfile.TemporaryDirectory() as folder, fake_server.running() as url:
            path = pathlib.Path(folder) / "prompts"
            path.write_text("[INST] hello\n[3, 4]\n17\n")
            server = LlamaServer(Server(url), top=5)
            self.assertEqual(read_prompts(server, path), [server.tokens_of("[INST] hello"), [3, 4], server.tokens_of("17")])
            path.write_text('["3"]\n')
            self.assertRaisesRegex(ServerError, "does not hold token ids", read_prompts, server, path)

    def test_arguments(self):
        for given, words in ((("--tolerance", -1), "0 or more, up to 1"), (("--alpha", 0), "over 0, up to 1"),
                             (("--top", 1), "2 or more")):
            wrong = io.StringIO()
            with self.subTest(given), contextlib.redirect_stderr(wrong), self.assertRaises(SystemExit) as ended:
                audit_server.main(["rescore", "http://127.0.0.1:9", *map(str, given)])
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(words, wrong.getvalue())

    def test_no_server(self):
        status, words = run("rescore", "http://127.0.0.1:9")
        self.assertEqual(status, 2)
        self.assertIn("Does the server run there?", words)

    def test_missing_fields(self):
        for name, words, more in (
            ("data", "/v1/models has no field data", []),
            ("tokens", "no field tokens", []),
            ("completion_probabilities", "/completion has no field completion_probabilities", []),
            ("choices", "/v1/completions has no field choices", OPENAI),
            ("token_ids", "choices[0] has no field logprobs", OPENAI),
            ("prompt_logprobs", "choices[0] has no field prompt_logprobs", OPENAI),
            ("logprobs", "choices[0] has no field logprobs", [*OPENAI, "--by", "next"]),
        ):
            with self.subTest(name), fake_server.running(without=[name, "logprobs"] if name == "token_ids" else [name]) as url:
                status, said = run("rescore", url, "--texts", 1, *more)
                self.assertEqual(status, 2)
                self.assertIn(words, said)

    def test_null_in_prompt_logprobs(self):
        with fake_server.running(null=True) as url:
            status, words = run("rescore", url, "--texts", 1, "--tokens", 4, *OPENAI)
        self.assertEqual(status, 2)
        self.assertRegex(words, r"choices\[0\].prompt_logprobs\[\d+\] is null, though it belongs to a token of the text")

    def test_field(self):
        self.assertEqual(field({"a": [{"b": 1}]}, "a", 0, "b"), 1)
        with self.assertRaisesRegex(ServerError, r"has no field a\[1\]"):
            field({"a": [{"b": 1}]}, "a", 1, "b")


if __name__ == "__main__":
    unittest.main()
