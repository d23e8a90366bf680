# SPDX-License-Identifier: MIT
"""Tests of the rules, the expectations and the audit of the module specdec."""

import copy
import resource
import unittest

import numpy as np
import specdec
import torch

P, Q = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])  # the toy models of the paper on block verification


def random_rows(generator, *shape):
    rows = generator.random(shape) + 0.05
    return rows / rows.sum(-1, keepdims=True)


def drafts(generator, count, gamma, vocab_size):
    """Rows, and tokens that were drawn from the draft's rows."""
    target, draft = random_rows(generator, count, gamma + 1, vocab_size), random_rows(generator, count, gamma, vocab_size)
    tokens = (draft.cumsum(-1) < generator.random((count, gamma, 1))).sum(-1)
    return target, draft, np.minimum(tokens, vocab_size - 1)


class Rules(unittest.TestCase):
    def setUp(self):
        self.target, self.draft, self.tokens = drafts(np.random.default_rng(1), 200, 3, 5)

    def test_one_row_in_so_many_verifications_is_summed(self):
        cut = 0.5 * self.target[0]
        before = specdec.check_every(0)
        self.addCleanup(specdec.check_every, before)
        for seed in range(200):
            specdec.verify("block", cut, self.draft[0], self.tokens[0], seed)
        self.assertEqual(specdec.check_every(1), 0)
        with self.assertRaisesRegex(specdec.InvalidDistribution, "target row 0: the probabilities sum to 0.5"):
            specdec.verify("block", cut, self.draft[0], self.tokens[0], 1)
        specdec.check_every(1)
        specdec.verify("block", np.log(cut), self.draft[0], self.tokens[0], 1, temperature=1)
        self.assertRaisesRegex(ValueError, "negative", specdec.check_every, -1)

    def test_same_numbers_same_verdict(self):
        for seed, (target, draft, tokens) in enumerate(zip(self.target, self.draft, self.tokens)):
            for rule in "token", "block", "argmax", "sample-match":
                verdict = specdec.verify(rule, target, draft, tokens, seed)
                as_tensors = specdec.verify(rule, torch.tensor(target), torch.tensor(draft), torch.tensor(tokens), seed)
                as_logits = specdec.verify(rule, np.log(target), np.log(draft), tokens.astype(np.int32), seed, temperature=1)
                as_floats = specdec.verify(rule, target.astype(np.float32), draft.astype(np.float32), tokens, seed)
                self.assertEqual(verdict, as_tensors)
                self.assertEqual(verdict, as_logits)
                self.assertEqual(verdict, as_floats)

    def test_verdict_of_c(self):
        """The call of examples/engine/verify_from_c.c, and what it prints."""
        draft = np.array([[0.2, 0.5, 0.2, 0.1], [0.3, 0.2, 0.4, 0.1], [0.1, 0.2, 0.6, 0.1]], np.float32)
        target = np.array([[0.1, 0.6, 0.2, 0.1], [0.5, 0.1, 0.3, 0.1], [0.2, 0.2, 0.1, 0.5], [0.7, 0.1, 0.1, 0.1]], np.float32)
        self.assertEqual(specdec.verify("block", target, draft, np.array([1, 0, 2]), 42)[:2], (2, 3))

    def test_argmax(self):
        for target, tokens in zip(self.target, self.tokens):
            best = target.argmax(1)
            accepted = int((best[:3] == tokens).cumprod().sum())
            verdict = specdec.verify("argmax", target, None, tokens, 0)
            self.assertEqual(verdict, (accepted, best[accepted], 0))
            impossible = np.zeros((3, 5))  # argmax and sample-match do not look at the draft's rows
            self.assertEqual(verdict, specdec.verify("argmax", target, impossible, tokens, 0))
            self.assertEqual(specdec.verify("sample-match", target, None, tokens, 1),
                             specdec.verify("sample-match", target, impossible, tokens, 1))

    def test_offset_goes_on(self):
        target, draft, tokens = self.target[0], self.draft[0], self.tokens[0]
        first = specdec.verify("sample-match", target, draft, tokens, 7)
        self.assertEqual(first.offset, first.accepted + 1)  # one number for each row that was drawn from
        self.assertEqual(specdec.verify("sample-match", target, draft, tokens, seed=7, offset=0), first)
        tokens_by_offset = {specdec.verify("sample-match", target, draft, tokens, 7, offset).token for offset in range(50)}
        self.assertGreater(len(tokens_by_offset), 2)

    def test_steps(self):
        """A step has random numbers of its own, whatever the offset is: other ones than a generator and another step have."""
        target, draft, tokens = self.target[0], self.draft[0], self.tokens[0]
        for rule in "token", "block", "sample-match":
            verdicts = [specdec.verify(rule, target, draft, tokens, 7, step=step)[:2] for step in range(60)]
            again = [specdec.verify(rule, target, draft, tokens, 7, offset=5, step=step) for step in range(60)]
            self.assertEqual([verdict[:2] for verdict in again], verdicts)
            self.assertEqual({verdict.offset for verdict in again}, {5})
            self.assertGreater(len(set(verdicts)), 3)
        count, gamma = 20000, 2
        generator = np.random.default_rng(2)
        tokens = generator.choice(2, p=Q, size=(count, gamma))
        accepted = np.array([specdec.verify("block", np.tile(P, (3, 1)), np.tile(Q, (2, 1)), x, 1, step=step).accepted
                             for step, x in enumerate(tokens)])
        self.assertLess(abs(accepted.mean() - 11 / 9), 5 * accepted.std() / count**0.5)

    def test_mean_of_accepted_tokens(self):
        count, gamma = 20000, 2
        generator = np.random.default_rng(2)
        tokens = generator.choice(2, p=Q, size=(count, gamma))
        target, draft = np.tile(P, (count, gamma + 1, 1)), np.tile(Q, (count, gamma, 1))
        for rule, expected in ("token", 10 / 9), ("block", 11 / 9):
            accepted = specdec.verify_batch(rule, target, draft, tokens, range(count)).accepted
            self.assertLess(abs(accepted.mean() - expected), 5 * accepted.std() / count**0.5)

    def test_tree_without_branches_is_a_line(self):
        for seed, (target, draft, tokens) in enumerate(zip(self.target, self.draft, self.tokens)):
            line = specdec.verify("block", target, draft, tokens, seed)
            tree = specdec.verify_tree("traversal", target, draft, tokens, np.arange(-1, 2), seed)
            self.assertEqual(tree, (list(range(line.accepted)), line.token, line.offset))

    def test_tree_takes_the_branch_of_the_target(self):
        target = np.eye(4)[[2, 0, 3, 1]]  # 2 after the context, then 3 after tokens[1] = 2
        tokens, parents = np.array([1, 2, 3]), np.array([-1, -1, 1])
        for rule in "traversal", "recursive-rejection":
            verdict = specdec.verify_tree(rule, target, None, tokens, parents, 0)
            self.assertEqual((verdict.path, verdict.token), ([1, 2], 1))
        verdict = specdec.verify_tree("k-seq", target, np.full((3, 4), 0.25), tokens, parents, 0)
        self.assertEqual(target[verdict.path[-1] + 1 if verdict.path else 0].argmax(), verdict.token)
        with self.assertRaisesRegex(ValueError, "K-SEQ judges independent draws from one row"):
            specdec.verify_tree("k-seq", target, None, tokens, parents, 0)

    def test_greedy_block_remembers(self):
        text, owes = specdec.GreedyBlock(), 0
        for seed, (target, draft, tokens) in enumerate(zip(self.target, self.draft, self.tokens)):
            verdict = text.verify(target, draft, tokens, seed)
            if text.min_draft_length > 0:
                owes += 1
                self.assertLess(verdict.accepted + text.min_draft_length, 3)
                with self.assertRaisesRegex(ValueError, "tokens has 0 drafted tokens, but greedy block"):
                    text.verify(target[:1], draft[:0], tokens[:0], 0)
        self.assertGreater(owes, 10)


class Batches(unittest.TestCase):
    def setUp(self):
        self.target, self.draft, self.tokens = drafts(np.random.default_rng(3), 60, 4, 6)
        self.lengths = np.arange(60) % 5
        self.tokens[np.arange(4) >= self.lengths[:, None]] = -1
        self.seeds, self.offsets = np.arange(60) + 5, np.arange(60) % 7

    def test_each_as_alone(self):
        for rule in "token", "block", "argmax", "sample-match":
            many = specdec.verify_batch(rule, self.target, self.draft, self.tokens, self.seeds, self.offsets)
            self.assertEqual(many.errors, {})
            for i, n in enumerate(self.lengths):
                alone = specdec.verify(rule, self.target[i, : n + 1], self.draft[i, :n], self.tokens[i, :n],
                                       int(self.seeds[i]), int(self.offsets[i]))
                self.assertEqual((many.accepted[i], many.token[i], many.offsets[i]), alone)
                emitted = [*self.tokens[i, : alone.accepted], alone.token]
                self.assertEqual(list(many.emitted[i]), emitted + [-1] * (5 - len(emitted)))

    def test_an_error_is_one_drafts_alone(self):
        self.target[7, 0] = np.nan
        many = specdec.verify_batch("block", self.target, self.draft, self.tokens, self.seeds)
        right = specdec.verify_batch("block", np.delete(self.target, 7, 0), np.delete(self.draft, 7, 0),
                                     np.delete(self.tokens, 7, 0), np.delete(self.seeds, 7))
        self.assertEqual(list(many.errors), [7])
        self.assertRegex(many.errors[7], "specdec: target row 0: the probability of token . is nan")
        self.assertEqual((many.accepted[7], many.token[7], many.offsets[7], list(many.emitted[7])), (-1, -1, 0, [-1] * 5))
        np.testing.assert_array_equal(np.delete(many.emitted, 7, 0), right.emitted)

    def test_each_draft_has_a_rule_and_a_temperature(self):
        """As requests of a server have. Draft rows belong to the temperature, too, and a greedy request has temperature 0."""
        count = len(self.tokens)
        rules = [("token", "block", "argmax", "sample-match")[i % 4] for i in range(count)]
        temperatures = [(1.0, 0.5, 0.0)[i % 3] for i in range(count)]
        logits, draft_logits = np.log(self.target).astype(np.float32), np.log(self.draft).astype(np.float32)
        draft_logits[2::4] = np.nan  # argmax does not look at them
        chosen = draft_logits.argmax(-1)
        tokens = np.where((np.array(temperatures) == 0)[:, None] & (self.tokens >= 0), chosen, self.tokens)
        for given in temperatures, np.array(temperatures), torch.tensor(temperatures):
            many = specdec.verify_batch(rules, logits, draft_logits, tokens, self.seeds, temperature=given)
            self.assertEqual(many.errors, {})
            for i in range(count):
                n = (tokens[i] >= 0).sum()
                alone = specdec.verify(rules[i], logits[i, :n + 1], draft_logits[i, :n], tokens[i, :n], self.seeds[i],
                                       temperature=temperatures[i])
                self.assertEqual((many.accepted[i], many.token[i], many.offsets[i]), alone)

    def test_a_failed_draft_keeps_its_offset(self):
        """Its first row has drawn before the second, which is no distribution."""
        for b in 8, 9:
            self.target[b, 0], self.tokens[b, 0] = np.eye(6)[3], 3
        self.target[8, 1] = np.nan
        self.tokens[8, 1:] = self.tokens[9, 1:] = -1
        many = specdec.verify_batch("sample-match", self.target, self.draft, self.tokens, self.seeds, self.offsets)
        self.assertEqual(list(many.errors), [8])
        self.assertRegex(many.errors[8], "target row 1")
        self.assertEqual(many.offsets[8], self.offsets[8])
        self.assertEqual(many.offsets[9], self.offsets[9] + 2)

    def test_padding(self):
        """A draft ends before its first negative id, and an error counts the tokens of its own draft."""
        self.tokens[1], self.tokens[2], self.tokens[3] = [-1] * 4, [-1, 0, -1, -1], [1, 9, -7, -1]
        many = specdec.verify_batch("block", self.target, self.draft, self.tokens, self.seeds)
        self.assertEqual(many.errors, {2: "specdec: tokens[1] = 0 comes after padding, tokens[0] = -1",
                                       3: "specdec: tokens[1] = 9 is outside the vocabulary 0..5"})
        self.assertEqual(many.accepted[1], 0)

    def test_trees_as_alone(self):
        parents = np.array([-1, -1, 0, 1]) + np.zeros((60, 1), np.int64)
        self.draft[:, 1] = self.draft[:, 0]  # siblings are draws from one row
        target, draft = self.target, self.draft
        for rule in "traversal", "recursive-rejection", "k-seq":
            many = specdec.verify_batch(rule, target, draft, self.tokens, self.seeds, self.offsets, parents=parents)
            self.assertEqual(many.errors, {})
            for i, n in enumerate(self.lengths):
                alone = specdec.verify_tree(rule, target[i, : n + 1], draft[i, :n], self.tokens[i, :n], parents[i, :n],
                                            int(self.seeds[i]), int(self.offsets[i]))
                path = [k for k in many.path[i] if k >= 0]
                self.assertEqual((path, many.token[i], many.offsets[i]), alone)
                self.assertEqual(many.accepted[i], len(path))
                emitted = [*self.tokens[i, path], alone.token]
                self.assertEqual(list(many.emitted[i]), emitted + [-1] * (5 - len(emitted)))
        parents[9, 2] = 3
        some = specdec.verify_batch("k-seq", target, draft, self.tokens, self.seeds, self.offsets, parents=parents)
        self.assertRegex(some.errors.pop(9), r"specdec: parents\[2\] = 3 is outside -1..1")
        self.assertEqual(some.errors, {})
        self.assertEqual((some.accepted[9], list(some.path[9])), (-1, [-1] * 4))
        np.testing.assert_array_equal(np.delete(some.emitted, 9, 0), np.delete(many.emitted, 9, 0))
        # As many numbers in another shape are other trees.
        for given, shape in (parents[1:], r"\(59, 4\)"), (parents.reshape(4, 60), r"\(4, 60\)"):
            with self.assertRaisesRegex(ValueError, rf"parents has the shape {shape}, expected \(60, 4\), the shape of tokens"):
                specdec.verify_batch("traversal", target, draft, self.tokens, self.seeds, parents=given)
        with self.assertRaisesRegex(ValueError, "rule = 'block' is no rule for trees"):
            specdec.verify_batch("block", target, draft, self.tokens, self.seeds, parents=parents)

    def test_errors(self):
        def refused(message, target=self.target, draft=self.draft, tokens=self.tokens, seeds=self.seeds, offsets=[]):
            with self.assertRaisesRegex(ValueError, message):
                specdec.verify_batch("block", target, draft, tokens, seeds, offsets)

        refused(r"target has the shape \(60, 4, 6\), expected \(60, 5, V\)", target=self.target[:, :4].copy())
        refused(r"draft has the shape \(59, 4, 6\), expected \(60, 4, V\)", draft=self.draft[:59])
        refused(r"tokens has the shape \(4,\), expected 2 dimensions", tokens=self.tokens[0])
        refused("seeds has 59 entries for 60 drafts", seeds=self.seeds[:59])
        refused("offsets has 1 entries for 60 drafts", offsets=[0])


class Expectations(unittest.TestCase):
    def test_toy_models(self):
        for rule, expected in ("token", 10 / 9), ("block", 11 / 9), ("greedy-block", 12 / 9):
            lower, upper = specdec.expected_accepted(rule, P, Q, 2)
            self.assertLessEqual(lower, expected + 1e-12)
            self.assertGreaterEqual(upper, expected - 1e-12)
            self.assertLess(upper - lower, 1e-4)

    def test_mean_of_survival(self):
        target, draft = np.tile(P, (3, 1)), np.tile(Q, (2, 1))
        for rule, expected in ("token", 10 / 9), ("block", 11 / 9), ("greedy-block", 12 / 9):
            mean = sum(Q[x] * Q[y] * specdec.survival(rule, target, draft, np.array([x, y])).sum()
                       for x in range(2) for y in range(2))
            self.assertAlmostEqual(mean, expected, places=12)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "rule = 'argmax' has no expected acceptance"):
            specdec.expected_accepted("argmax", P, Q, 2)
        with self.assertRaisesRegex(ValueError, "gamma = -1"):
            specdec.expected_accepted("block", P, Q, -1)


class Memory(unittest.TestCase):
    def test_nothing_is_copied(self):
        megabytes, vocab_size = 200, 25_000_000
        for zeros in lambda *shape: np.zeros(shape, np.float32), lambda *shape: torch.zeros(shape):
            target, draft = zeros(2, vocab_size), zeros(1, vocab_size)
            target[:, 3], draft[0, 3] = 1, 1
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            verdict = specdec.verify("token", target, draft, np.array([3]), 1)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.assertEqual(verdict[:2], (1, 3))
            self.assertLess(after - before, megabytes * 1024 / 4)  # a copy of target alone would take all of it

    def test_rows_are_read_where_they_lie(self):
        target, tokens = torch.eye(3)[[0, 1]], torch.tensor([2])
        for row, token in (0, 0), (1, 2), (1, 0):
            target[0] = torch.eye(3)[row + (token == 2)]
            tokens[0] = token
            accepted = int(target[0].argmax() == token)
            expected = int(target[accepted].argmax())
            self.assertEqual(specdec.verify("argmax", target, None, tokens, 0)[:2], (accepted, expected))


class Errors(unittest.TestCase):
    def setUp(self):
        target, draft, tokens = drafts(np.random.default_rng(4), 1, 2, 3)
        self.target, self.draft, self.tokens = target[0], draft[0], tokens[0]

    def refused(self, message, kind=ValueError, rule="block", seed=1, temperature=None, **given):
        rows = {"target": self.target, "draft": self.draft, "tokens": self.tokens, **given}
        with self.assertRaisesRegex(kind, message):
            specdec.verify(rule, *rows.values(), seed, temperature=temperature)

    def test_shapes(self):
        self.refused("target has 2 rows, expected gamma . 1 = 3", target=self.target[:2])
        self.refused("draft has 1 rows?, expected gamma = 2", draft=self.draft[:1])
        self.refused(r"target has the shape \(3,\), expected 2 dimensions", target=self.target[0])
        self.refused(r"tokens has the shape \(1, 2\), expected 1 dimension", tokens=self.tokens[None])

    def test_types(self):
        self.refused("target has numbers of type float16, expected float32 or float64", target=self.target.astype(np.float16))
        self.refused("draft has numbers of type >f4", draft=self.draft.astype(">f4"))
        self.refused("tokens has numbers of type uint8, expected int32 or int64", tokens=self.tokens.astype(np.uint8))
        self.refused("target is a list, expected a numpy array or a tensor", TypeError, target=self.target.tolist())
        self.refused("draft is a str, expected a numpy array", TypeError, draft="rows")
        self.refused("target cannot be seen as a numpy array: .*gradient",
                     target=torch.tensor(self.target, requires_grad=True))
        self.refused("target cannot be seen as a numpy array", target=torch.tensor(self.target).bfloat16())

    def test_types_of_numbers(self):
        """One sentence that names the argument, not the signatures of pybind11."""
        def refused(message, kind, f, *given, **more):
            with self.assertRaises(kind) as caught:
                f(*given, **more)
            self.assertEqual(str(caught.exception), "specdec: " + message)

        large, line = "an integer from 0 to 18446744073709551615", ("block", self.target, self.draft, self.tokens)
        many = ("block", self.target[None], self.draft[None], self.tokens[None])
        for value, kind, words in ("a", TypeError, "is a str"), (1.0, TypeError, "is a float"), (None, TypeError, "is a NoneType"), \
                (-1, ValueError, "= -1"), (2**64, ValueError, "= 18446744073709551616"):
            refused(f"seed {words}, expected {large}", kind, specdec.verify, *line, value)
            refused(f"seed {words}, expected {large}", kind, specdec.GreedyBlock().verify, *line[1:], value)
            refused(f"seed {words}, expected {large}", kind, specdec.verify_tree, "traversal", *line[1:], np.array([-1, 0]), value)
            refused(f"seeds[0] {words}, expected {large}", kind, specdec.verify_batch, *many, [value])
            refused(f"steps[1] {words}, expected {large}", kind, specdec.AskingBatch, "block", many[3], [1], [0, value])
        refused(f"step = -1, expected None or {large}", ValueError, specdec.verify, *line, 1, step=-1)
        refused("rule is an int, expected a str", TypeError, specdec.verify, 3, *line[1:], 1)
        refused(f"seeds is an int, expected a list, each entry {large}", TypeError, specdec.verify_batch, *many, 5)
        refused(f"offsets is a str, expected a list, each entry {large}", TypeError, specdec.verify_batch, *many, [5], "0")
        refused("rule is an int, expected a str, or a list with a str for each draft", TypeError, specdec.verify_batch, 3, *many[1:], [1])
        for entries, words in (["block", None], "a NoneType"), (("block", 3), "an int"):
            refused(f"rule[1] is {words}, expected a str", TypeError, specdec.verify_batch, entries, *many[1:], [1])
        refused("rule[1] is a str, expected a GreedyBlock", TypeError, specdec.AskingBatch, [specdec.GreedyBlock(), "block"],
                np.zeros((2, 1), int), [1, 2], [0, 0])
        refused("rule has 2 entries for 1 drafts", ValueError, specdec.verify_batch, ["block", "token"], *many[1:], [1])
        refused("temperature is a str, expected None, a number, or a list with a number for each draft", TypeError,
                specdec.verify_batch, *many, [1], temperature="1")
        refused("temperature has 2 entries for 1 drafts", ValueError, specdec.verify_batch, *many, [1], temperature=[1, 0])
        two = ("block", *(np.concatenate([rows, rows]) for rows in many[1:]), [1, 2])
        refused("temperature[1] = -1 is not a finite number >= 0", ValueError, specdec.verify_batch, *two, temperature=[1, -1])
        for entries, words in (["1", "x"], "[0] is a str"), (["1"], "[0] is a str"), ([1.0, 1j], "[1] is a complex"), \
                ((1.0, None), "[1] is a NoneType"), ([[1.0], [1.0]], "[0] is a list"), (np.array([1, "x"], object), "[1] is a str"):
            refused(f"temperature{words}, expected a number", TypeError, specdec.verify_batch, *two, temperature=entries)
        one_number = [specdec.verify_batch(*two, temperature=value).emitted.tolist()
                      for value in (1, np.array(1.0), torch.tensor(1.0), [1, 1], torch.ones(2))]
        self.assertEqual(one_number, one_number[:1] * 5)
        for name, words in ("oracle", "is no rule for lines: there are 'token', 'block', 'argmax' and 'sample-match'"), \
                ("greedy-block", "remembers its text: use a specdec.GreedyBlock for each text"):
            refused(f"rule[1] = '{name}' {words}", ValueError, specdec.verify_batch, ["block", name], *two[1:])
        refused("rule[1] = 'block' is no rule for trees: there are 'traversal', 'recursive-rejection' and 'k-seq'", ValueError,
                specdec.verify_batch, ["traversal", "block"], *two[1:], parents=np.array([[-1, 0]] * 2))
        for f, given in (specdec.verify, (*line, 1)), (specdec.survival, line), \
                (specdec.DraftAudit().add, line[2:]), (specdec.TextAudit().add, line[2:]):
            refused("temperature is a list, expected None or one number for all rows", TypeError, f, *given, temperature=[1.0])
        refused("gamma is a str, expected an integer from -9223372036854775808 to 9223372036854775807", TypeError,
                specdec.expected_accepted, "block", P, Q, "2")
        refused("rule is an int, expected the name of a rule, or a list of GreedyBlock objects", TypeError,
                specdec.AskingBatch, 3, many[3], [1], [0])
        refused("f is an int, expected a function", TypeError, specdec.check_sampler, 3)
        refused("false_alarm is a str, expected a number", TypeError, specdec.DraftAudit, false_alarm="0")
        refused("p is a str, expected a number or an array of numbers", TypeError, specdec.TextAudit().add_numbers, "x", 0.5)
        refused("alpha is a list, expected a number", TypeError, specdec.TextAudit().convicts, [0.5])
        refused("other is an int, expected a TextAudit", TypeError, specdec.TextAudit().merge, 3)
        given = specdec.verify(*line, np.uint64(3), np.int32(2), temperature=np.float32(1)), specdec.verify(*line, 3, 2, temperature=1)
        self.assertEqual(*given)

    def test_layout(self):
        for name, rows in ("target", self.target), ("draft", self.draft):
            self.refused(f"{name} does not lie in one piece", **{name: np.asfortranarray(rows)})
            self.refused(f"{name} does not lie in one piece", **{name: torch.tensor(rows).T.contiguous().T})
        self.refused("tokens does not lie in one piece", tokens=np.repeat(self.tokens, 2)[::2])
        bytes_ = np.zeros(self.target.nbytes + 1, np.uint8)
        skewed = bytes_[1:].view(np.float64).reshape(self.target.shape)
        self.refused("target does not lie in one piece", target=skewed)

    def test_masked_arrays(self):
        """Their numbers lie where others do, but some of them are said to be none."""
        def refused(name, f, *given, **more):
            with self.assertRaisesRegex(ValueError, f"specdec: {name} is a masked array, but masks are not read"):
                f(*given, **more)

        def masked(numbers):
            return np.ma.masked_array(numbers, np.arange(np.size(numbers)) == 1)

        rows = {"target": self.target, "draft": self.draft, "tokens": self.tokens}
        for name, array in rows.items():
            given = {**rows, name: np.ma.masked_array(array)}
            refused(name, specdec.verify, "block", *given.values(), 1)
        many = [np.stack([array] * 2) for array in rows.values()]
        refused("temperature", specdec.verify_batch, "block", *many, [1, 2], temperature=masked([1.0, 0.5]))
        refused("parents", specdec.verify_batch, "traversal", *many, [1, 2], parents=np.ma.masked_array(np.full((2, 2), -1)))
        refused("rows", specdec.DraftAudit().add, np.ma.masked_array(self.draft), self.tokens)
        refused("p", specdec.TextAudit().add_numbers, masked([0.5, 0.5]), [0.1, 0.1])
        refused("r", specdec.TextAudit().add_numbers, [0.5, 0.5], masked([0.1, 0.1]))
        batch = specdec.AskingBatch("block", self.tokens[None], [1], [0])
        refused("answers", batch.answer, np.ma.masked_array(np.zeros((2, 4))))

    def test_values(self):
        self.refused(r"tokens\[1\] = 3 is outside the vocabulary 0..2", tokens=np.array([0, 3]))
        self.refused(r"tokens\[0\] = 1 has probability 0 in draft row 0", tokens=np.array([1, 0]), draft=np.eye(3)[[0, 0]])
        self.refused("target row 0: the probability of token . is nan", target=np.full((3, 3), np.nan))
        self.refused("target row 0", specdec.InvalidDistribution, target=np.full((3, 3), np.nan))
        self.refused("temperature = -1 is not a finite number >= 0", temperature=-1)
        self.refused("rule = 'oracle' is no rule for lines", rule="oracle")
        self.refused("rule = 'greedy-block' remembers its text", rule="greedy-block")
        with self.assertRaisesRegex(ValueError, "rule = 'block' is no rule for trees"):
            specdec.verify_tree("block", self.target, self.draft, self.tokens, np.array([-1, 0]), 1)
        with self.assertRaisesRegex(ValueError, r"parents\[0\] = 1"):
            specdec.verify_tree("traversal", self.target, self.draft, self.tokens, np.array([1, 0]), 1)


class Audits(unittest.TestCase):
    def audit(self, change=lambda rows: rows, temperature=None):
        generator, audit = np.random.default_rng(5), specdec.DraftAudit()
        for _ in range(300):
            _, draft, tokens = drafts(generator, 1, 4, 20)
            audit.add(change(draft[0]), tokens[0], temperature=temperature)
        return audit.report()

    def test_honest(self):
        for report in self.audit(), self.audit(np.log, temperature=1):
            self.assertTrue(report and report.acquitted and not report.convicted)
            self.assertEqual((report.tokens, report.informative), (1200, 1200))
            self.assertIn("acquitted: 1200 drafted tokens", str(report))

    def test_convicted(self):
        report = self.audit(lambda rows: rows**0.3 / (rows**0.3).sum(-1, keepdims=True))
        self.assertTrue(report.convicted and not report)
        self.assertIn("tokens are likelier than q says", report.fault)
        self.assertIn("CONVICTED", str(report))
        self.assertIn("a row is no distribution", self.audit(lambda rows: rows / 2).fault)

    def test_impossible(self):
        for token in 1, -1, 2**40:
            audit = specdec.DraftAudit()
            audit.add(np.eye(3)[[0]], np.array([token]))
            self.assertIn("a token was drawn where q is 0", audit.report().fault)

    def test_errors(self):
        audit = specdec.DraftAudit()
        with self.assertRaisesRegex(ValueError, "rows has 3 rows for 2 tokens"):
            audit.add(np.eye(3), np.array([0, 1]))
        with self.assertRaisesRegex(ValueError, "rows has the shape"):
            audit.add(np.eye(3)[0], np.array([0]))
        with self.assertRaisesRegex(ValueError, "false_alarm = 2 is outside"):
            specdec.DraftAudit(false_alarm=2)
        self.assertEqual(audit.report().tokens, 0)


class AuditOfTexts(unittest.TestCase):
    def setUp(self):
        self.target, self.draft, _ = drafts(np.random.default_rng(3), 100, 8, 5)
        self.target = np.ascontiguousarray(self.target[:, :8])

    def drawn(self, rows):
        return np.minimum((rows.cumsum(-1) < np.random.default_rng(4).random(rows.shape[:-1] + (1,))).sum(-1), 4)

    def test_right_and_wrong(self):
        for rows, convicted in (self.target, False), (self.draft, True):
            tokens, batch, lines, tensors = self.drawn(rows), *(specdec.TextAudit() for _ in range(3))
            batch.add(self.target, tokens, self.draft)
            for p, q, x in zip(self.target, self.draft, tokens):
                lines.add(p, x, q)
                tensors.add(torch.tensor(p).log(), torch.tensor(x), torch.tensor(q).log(), temperature=1.0)
            self.assertEqual(batch.evidence, lines.evidence)
            self.assertAlmostEqual(batch.evidence, tensors.evidence, places=3)
            self.assertEqual(batch.convicts(1e-4), convicted)
            self.assertEqual(batch.report().convicts(1e-4), convicted)
            self.assertEqual(batch.report().tokens, 800)
        self.assertIn("tokens that the reference likes come too often", batch.report().fault)
        self.assertIn("bets: rank", str(batch.report()))
        self.assertGreater(batch.report().by_ratio, batch.report().by_id)

    def test_copies_go_on_alone(self):
        audit = specdec.TextAudit()
        audit.add(self.target[0, :1], np.array([1]))
        twin = copy.copy(audit)
        twin.add_numbers(0.1, 0.9)
        self.assertEqual((audit.report().tokens, twin.report().tokens), (1, 2))

    def test_padding_and_impossible(self):
        audit = specdec.TextAudit()
        audit.add(np.ascontiguousarray(self.target[:2, :2]), np.array([[1, -1], [0, 2]]))
        self.assertEqual(audit.report().tokens, 3)
        audit.add(self.target[0, :1], np.array([-1]))
        self.assertEqual(audit.report().impossible, 1)
        self.assertTrue(audit.convicts(1e-9))

    def test_numbers_and_merge(self):
        one, two = specdec.TextAudit(stream=1), specdec.TextAudit(stream=2)
        one.add_numbers(np.full(20, 0.1), torch.full((20,), 0.9))
        two.add_numbers(0.1, 0.9)
        before = one.evidence
        one.merge(two)
        self.assertGreater(one.evidence, before)
        self.assertEqual(one.report().tokens, 21)
        with self.assertRaisesRegex(ValueError, "one seed and one stream"):
            one.merge(one)

    def test_errors(self):
        audit = specdec.TextAudit()
        for wanted, arguments in (
            ("rows has 8 entries in dimension 0, tokens has 7", (self.target[0], np.zeros(7, int))),
            ("references has 7 entries", (self.target[0], np.zeros(8, int), self.draft[0, :7])),
            ("rows has the shape", (self.target, np.zeros(8, int))),
        ):
            with self.assertRaisesRegex(ValueError, wanted):
                audit.add(*arguments)
        for p, r, wanted in (
            (np.full((2, 3), 0.5), np.full((3, 2), 0.2), r"r has the shape \(3, 2\), expected \(2, 3\), the shape of p"),
            ([0.5, 0.5], [0.5], r"r has the shape \(1,\), expected \(2,\), the shape of p"),
            (0.5, [0.5], r"r has the shape \(1,\), expected \(\), the shape of p"),
        ):
            with self.assertRaisesRegex(ValueError, wanted):
                audit.add_numbers(p, r)
        for alpha in 0, 1.0, 2.0, float("nan"), -1e-6:
            for asked in audit, audit.report():
                with self.assertRaisesRegex(ValueError, rf"specdec: alpha = {alpha:g} is outside \(0, 1\)"):
                    asked.convicts(alpha)
        with self.assertRaises(TypeError):
            audit.add(self.target[0], [1] * 8)
        self.assertEqual(audit.report().tokens, 0)


if __name__ == "__main__":
    unittest.main()
