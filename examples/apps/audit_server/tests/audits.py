# SPDX-License-Identifier: MIT
"""Tests of audit_server.py: a fake server, right or with a planted mistake, is acquitted or convicted in all modes."""

import contextlib
import io
import json
import math
import pathlib
import random
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import audit_server  # noqa: E402
import candidates  # noqa: E402
import fake_server  # noqa: E402
from http_json import Server, ServerError, field  # noqa: E402
from openai_server import OpenAiServer  # noqa: E402
from json_lines import read_lines  # noqa: E402
from llama_server import SEED, LlamaServer  # noqa: E402
from pair_bets import Gambler, PairBets  # noqa: E402
from samples import read_prompts  # noqa: E402
from text_bets import TextBets  # noqa: E402

LENIENT = 0.1  # the mistake: drafts of this probability are accepted
OPENAI = ["--api", "openai", "--end-token", fake_server.END, "--off-field", "speculative.n_max=0"]


def run(*given):
    """Status and output of the program."""
    out, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
        status = audit_server.main([str(word) for word in given])
    return status, out.getvalue() + wrong.getvalue()


def listed_after(context, name="target"):
    return candidates.Candidates(dict(enumerate(fake_server.row(context, name))), True)


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
                self.assertIn("together: evidence", words)
                self.assertIn("status 500", words)

    def test_no_token_is_no_evidence(self):
        self.assertAlmostEqual(TextBets().evidence, 0)

    def test_false_alarms(self):
        """Of 60 audits of right texts, 1 in 100 may ever reach 100."""
        reached = 0
        for seed in range(60):
            source, bets = random.Random(seed), TextBets(seed=seed + 1)
            context = [1, 2]
            for _ in range(150):
                token = fake_server.draw(fake_server.row(context), source)
                bets.add(token, listed_after(context), listed_after(context, "draft").greedy())
                context.append(token)
            reached += bets.largest_evidence >= 2
        self.assertLessEqual(reached, 3)


class Comparison(unittest.TestCase):
    def test_servers(self):
        with fake_server.running() as right, fake_server.running(LENIENT) as lenient:
            self.assertEqual(run("compare", right, "--texts", 100, "--tokens", 12)[0], 0)
            status, words = run("compare", lenient, "--texts", 300, "--tokens", 12)
            self.assertEqual(status, 1, words)
            self.assertIn("less surprising", words)

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
                        for prompt, tokens, rows in self.text_lines(least)], 0
        yield "tokens", [{"token": token, "candidates": [*enumerate(row)]}
                         for _, tokens, rows in self.text_lines(least) for token, row in zip(tokens, rows)], 0
        yield "vLLM", [{"prompt": prompt, "tokens": tokens, "choices": [{"prompt_logprobs": [None] * len(prompt) + [
            fake_server.ranked([*map(math.exp, row)], token, 5) for token, row in zip(tokens, rows)]}]}
            for prompt, tokens, rows in self.text_lines(least)], 5
        yield "llama", [{"tokens": tokens, "completion_probabilities": [
            {"id": token, "top_logprobs": [{"id": i, "logprob": x} for i, x in enumerate(row)]} for token, row in zip(tokens, rows)]}
            for _, tokens, rows in self.text_lines(least)], 0
        yield "references", [{"prompt": prompt, "tokens": tokens, "candidates": [dict(enumerate(row)) for row in rows],
                              "reference": [dict(enumerate(map(math.log, fake_server.row([*prompt, *tokens[:i]], "draft"))))
                                            for i in range(len(tokens))]}
                             for prompt, tokens, rows in self.text_lines(least)], 0
        yield "two numbers", [{"token": token, "logprob": row[token], "reference_logprob":
                               math.log(fake_server.row([*prompt, *tokens[:i]], "draft")[token])}
                              for prompt, tokens, rows in self.text_lines(least)
                              for i, (token, row) in enumerate(zip(tokens, rows))], 0

    def test_forms(self):
        for least, expected in (None, 0), (LENIENT, 1):
            for name, lines, top in self.forms(least):
                alpha = 1e-3 if name == "two numbers" else 1e-6  # two numbers say less than a list
                with self.subTest(name, least=least), write_lines(lines) as file:
                    status, words = run("lines", file.name, "--top", top, "--alpha", alpha)
                    self.assertEqual(status, expected, words)

    def test_pairs(self):
        for least, expected in (None, 0), (0.05, 1):
            lines = [{"prompt": [1, 2], "on": fake_server.Text([1, 2], 16, seed, True, least, "target").tokens[:12],
                      "off": fake_server.Text([1, 2], 16, -seed, False, None, "target").tokens[:12]} for seed in range(1, 250)]
            with write_lines(lines) as file:
                self.assertEqual(run("lines", file.name)[0], expected)

    def test_two_kinds_share_alpha(self):
        pairs = [{"on": [1, 1, 1], "off": [2]}] * 8  # E = 10^1.6
        token = [{"token": 1, "candidates": {"1": -0.7, "2": -0.7}}]
        alpha = 10 ** -1.4
        for lines, expected in (pairs, 1), (pairs + token, 0):
            with self.subTest(len(lines)), write_lines(lines) as file:
                status, words = run("lines", file.name, "--alpha", alpha, "--top", 3)
                self.assertEqual(status, expected, words)

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
                    read_lines([json.dumps(answer)], 0, lambda *_: None, None, None)

    def test_bad_lines(self):
        for line, words in (
            ("{", "line 1 is no JSON"),
            ("[1]", "line 1 is no JSON object"),
            ('{"token": 1, "logprob": -1}', "no field candidates"),
            ('{"tokens": [1]}', "no field choices"),
            ('{"token": 1, "candidates": {"1": -1}}', "--top"),
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
            ('{"token": 1, "candidates": {"1": 1000}}', "together"),
            ('{"token": 1, "candidates": {"1": NaN}}', "negative or NaN"),
            ('{"token": 1, "candidates": [{"id": 1, "prob": 1.5}, {"id": 2, "prob": -0.5}]}', "negative or NaN"),
            ('{"token": 1, "logprob": null, "reference_logprob": 0}', "no field logprob"),
            ('{"token": 1, "candidates": {"1": -0.0005}}', "--top"),
            ('{"choices": [{"text": "the"}]}', r"choices\[0\] has no field logprobs"),
        ):
            with self.subTest(line), self.assertRaisesRegex(ServerError, words):
                read_lines([line], 0, lambda *_: None, lambda *_: None, lambda *_: None)


class Lists(unittest.TestCase):
    def test_added_token_is_no_class(self):
        """The token of the text, added to the likeliest three, is left out of the list: with rank and without, wherever it stands.
        The third goes, too: that it is as likely as one outside cannot be seen."""
        listed = {"5": {"logprob": math.log(0.1), "rank": 4}, "1": {"logprob": math.log(0.5), "rank": 1},
                  "2": {"logprob": math.log(0.3), "rank": 2}, "3": {"logprob": math.log(0.1), "rank": 3}}
        for left_out in [], ["5"]:  # a token of the text that is in the list
            given = {i: entry for i, entry in listed.items() if i not in left_out}
            self.assertEqual(sorted(candidates.from_ranked(given, 3, "a list").probabilities), [1, 2])
            named = {f"token_id:{i}": entry["logprob"] for i, entry in given.items()}
            self.assertEqual(sorted(candidates.from_named(named, 3, "a list").probabilities), [1, 2])

    def test_shorter_list_than_asked_for(self):
        """It is whole only if nothing is missing: else a token that is not in it would be impossible."""
        self.assertFalse(candidates.top_of([(1, 0.5), (2, 0.3)], 5, "a list").whole)
        self.assertFalse(candidates.top_of([(1, 0.6), (2, 0.3995)], 5, "a list").whole)
        self.assertTrue(candidates.top_of([(1, 0.6), (2, 0.4)], 5, "a list").whole)
        self.assertFalse(candidates.top_of([(1, 0.6), (2, 0.3999)], 2, "a list").whole)

    def test_small_rest(self):
        """What is left is a difference: where rounding may have made it, unlikely tokens join it."""
        row = {1: 0.6, 2: 0.39999, 3: 9e-6, 4: 5e-7}
        ids, rest = candidates.Candidates(row, False).classes()
        self.assertEqual(ids, [1])
        self.assertAlmostEqual(rest, 0.4)
        self.assertEqual(candidates.Candidates({1: 0.6, 2: 0.3999, 3: 9e-5}, False).classes()[0], [1, 2])
        self.assertEqual(candidates.Candidates({1: 0.6, 2: 0.4}, True).classes(), ([1, 2], None))
        bets = TextBets()
        bets.add(3, candidates.Candidates({1: 0.999999}, False))
        self.assertLess(bets.evidence, 5)
        self.assertEqual(candidates.Candidates({1: 1.0}, False).log_probability(2), math.log(1e-4))

    def test_temperature(self):
        row = candidates.top_of([(1, 0.64), (2, 0.36)], 0, "a list").at_temperature(0.5)
        self.assertAlmostEqual(row.probabilities[1], 0.64**2 / (0.64**2 + 0.36**2))
        with self.assertRaisesRegex(ServerError, "whole vocabulary"):
            candidates.top_of([(1, 0.5)], 1, "a list").at_temperature(0.5)


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
                audit_server.main(["lines", *map(str, given)])
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

    def test_field(self):
        self.assertEqual(field({"a": [{"b": 1}]}, "a", 0, "b"), 1)
        with self.assertRaisesRegex(ServerError, r"has no field a\[1\]"):
            field({"a": [{"b": 1}]}, "a", 1, "b")


if __name__ == "__main__":
    unittest.main()
