# SPDX-License-Identifier: MIT
"""Tests of tensor_rows.py: verdicts equal those of specdec.verify over the same rows and random numbers, and the law holds."""

import functools
import sys
import unittest

import numpy as np
import specdec
import tensor_rows
import torch
from tensor_rows import ListedRows, Rows

LINES = "token", "block", "argmax", "sample-match"
TREES = "traversal", "recursive-rejection", "k-seq"


def random_rows(generator, *shape, power=1):
    rows = generator.random(shape) ** power + 1e-9
    return rows / rows.sum(-1, keepdims=True)


def drawn(generator, rows):
    return np.minimum((rows.cumsum(-1) < generator.random(rows.shape[:-1] + (1,))).sum(-1), rows.shape[-1] - 1)


def tensor(rows):
    return Rows(torch.tensor(rows))


def listed(rows):
    """The same rows, as lists whose tokens have an order of their own, and which end with padding."""
    order = torch.arange(rows.shape[-1]).roll(1).expand(rows.shape)
    padding = [(-1, 9.0)] * 2
    ids, numbers = (torch.cat((a, torch.tensor(b, dtype=a.dtype).expand(*rows.shape[:-1], 2)), -1)
                    for a, b in zip((order, torch.tensor(rows).gather(-1, order)), zip(*padding)))
    return ListedRows(ids, numbers, rows.shape[-1])


class Drafts:
    """A batch of lines. Draft b has b % (gamma + 1) tokens."""

    def __init__(self, seed=1, count=60, gamma=4, vocab_size=6, noise=2.0):
        generator = np.random.default_rng(seed)
        self.draft = random_rows(generator, count, gamma, vocab_size, power=4)
        change = random_rows(generator, count, gamma + 1, vocab_size, power=noise)
        self.target = np.concatenate((self.draft, change[:, -1:]), 1) * change
        self.target /= self.target.sum(-1, keepdims=True)
        self.tokens = drawn(generator, self.draft)
        self.lengths = np.arange(count) % (gamma + 1)
        self.tokens[np.arange(gamma) >= self.lengths[:, None]] = -1
        self.seeds, self.steps = np.arange(count) // 3, np.arange(count)

    def together(self, rule):
        return tensor_rows.verify(rule, tensor(self.target), tensor(self.draft), self.tokens, self.seeds, self.steps)

    def alone(self, rule, b, draft=True, **more):
        n = self.lengths[b]
        return specdec.verify(rule, self.target[b, : n + 1], self.draft[b, :n] if draft else None, self.tokens[b, :n],
                              int(self.seeds[b]), step=int(self.steps[b]), **more)


class SameVerdicts(unittest.TestCase):
    def same(self, many, alone, count):
        self.assertEqual(many.errors, {})
        for b in range(count):
            self.assertEqual((many.accepted[b], many.token[b]), alone(b)[:2], b)

    def test_lines(self):
        for vocab_size in 1, 2, 6, 1024, 2500:
            drafts = Drafts(vocab_size, vocab_size=vocab_size)
            for rule in LINES:
                many = drafts.together(rule)
                self.same(many, lambda b: drafts.alone(rule, b), 60)
                for b, n in enumerate(many.accepted):
                    emitted = [*drafts.tokens[b, :n], many.token[b]]
                    self.assertEqual(list(many.emitted[b]), emitted + [-1] * (5 - len(emitted)))

    def test_many_lines(self):
        drafts = Drafts(7, 3000, gamma=6, vocab_size=50)
        for rule in "token", "block":
            many = drafts.together(rule)
            self.same(many, lambda b: drafts.alone(rule, b), 3000)

    def test_rows_of_floats(self):
        """Sums of float32 round otherwise: a few draws are another token than that of specdec.verify."""
        generator, count = np.random.default_rng(1), 300
        target = random_rows(generator, count, 2, 8000, power=4).astype(np.float32)
        tokens = target[:, :1].argmax(-1)
        many = tensor_rows.verify("sample-match", tensor(target), None, tokens, range(count), [0] * count)
        alone = [specdec.verify("sample-match", target[b], None, tokens[b], b, step=0)[:2] for b in range(count)]
        self.assertEqual(many.errors, {})
        others = sum(pair != single for pair, single in zip(zip(many.accepted, many.token), alone))
        self.assertLessEqual(others, count // 50)

    def test_one_after_another(self):
        drafts = Drafts()
        target = np.concatenate([rows[: n + 1] for rows, n in zip(drafts.target, drafts.lengths)])
        draft = np.concatenate([rows[:n] for rows, n in zip(drafts.draft, drafts.lengths)])
        tokens = np.concatenate([ids[:n] for ids, n in zip(drafts.tokens, drafts.lengths)])
        offsets = np.concatenate(([0], drafts.lengths.cumsum()))
        many = tensor_rows.verify("block", tensor(target), tensor(draft), tokens, drafts.seeds, drafts.steps, offsets=offsets)
        self.same(many, lambda b: drafts.alone("block", b), 60)
        self.assertEqual(many.emitted.shape, (60, 5))

    def test_chosen_tokens(self):
        drafts = Drafts()
        for rule in "token", "block":
            many = tensor_rows.verify(rule, tensor(drafts.target), None, drafts.tokens, drafts.seeds, drafts.steps)
            self.same(many, lambda b: drafts.alone(rule, b, draft=False), 60)

    def test_races_that_end_by_a_sum(self):
        """Residuals are so small that few races end within 64 rounds."""
        sums = 0

        def counted(questions, target, draft):
            nonlocal sums
            sums += questions.counts[3]
            return tensor_rows.answers(questions, tensor(target), draft)

        near, bare = [0, 0.3, 0.3, 0.4], [0.001, 0.3, 0.3, 0.399]
        for target, draft, tokens, count, least in (
            ([near, near], [bare], [0], 200, 100),
            ([[0, 0.2997, 0.3003, 0.4], near, near], [bare, bare], [1, 0], 200, 50),  # of weight 0.999
            (np.tile([0.008, 0.012, 0, 0.98], (2, 1)), None, [3], 2000, 3),
        ):
            target, tokens, seeds = np.tile(target, (count, 1, 1)), np.tile(tokens, (count, 1)), range(count)
            draft = None if draft is None else np.tile(draft, (count, 1, 1))
            for rule in "token", "block":
                for rows in [None] if draft is None else [tensor(draft), listed(draft)]:
                    batch, sums = specdec.AskingBatch(rule, tokens, seeds, [0] * count, chosen=draft is None), 0
                    while questions := batch.questions():
                        batch.answer(counted(questions, target, rows).numpy())
                    self.same(batch.verdicts(), lambda b: specdec.verify(rule, target[b], draft if draft is None else draft[b],
                                                                         tokens[b], b, step=0), count)
                    self.assertGreater(sums, least)

    def test_a_race_of_what_siblings_leave_that_ends_by_a_sum(self):
        """tokens[0] is accepted with weight 1 - 1e-5. Its two children have p = 0, and leave a residual of 0.0009."""
        target, draft = np.zeros((4, 4)), np.zeros((3, 4))
        target[0], draft[0] = [0.5 - 5e-6, 0.5 + 5e-6, 0, 0], [0.5, 0.5, 0, 0]
        target[1], draft[1], draft[2] = [0, 0, 0.5, 0.5], [0.01, 0, 0.495, 0.495], [0.0014, 0, 0.5, 0.4986]
        target[2:] = 0.25
        count, tokens, parents = 50, np.array([0, 0, 0]), np.array([-1, 0, 0])
        many = tensor_rows.verify("traversal", tensor(np.tile(target, (count, 1, 1))), tensor(np.tile(draft, (count, 1, 1))),
                                  np.tile(tokens, (count, 1)), range(count), [0] * count, parents=np.tile(parents, (count, 1)))
        self.assertEqual(many.errors, {})
        for b in range(count):
            alone = specdec.verify_tree("traversal", target, draft, tokens, parents, b, step=0)
            self.assertEqual(([k for k in many.path[b] if k >= 0], many.token[b]), alone[:2])
        self.assertEqual(set(many.token) & {2, 3}, {3})

    def test_greedy_block_remembers(self):
        count = 40
        texts, alone = ([specdec.GreedyBlock() for _ in range(count)] for _ in range(2))
        owed = 0
        for step in range(6):
            drafts = Drafts(step, count)
            drafts.lengths[:] = 4
            generator = np.random.default_rng(step)
            drafts.tokens = drawn(generator, drafts.draft)
            many = tensor_rows.verify(texts, tensor(drafts.target), tensor(drafts.draft), drafts.tokens, range(count), [step] * count)
            self.same(many, lambda b: alone[b].verify(drafts.target[b], drafts.draft[b], drafts.tokens[b], b, step=step), count)
            self.assertEqual([text.min_draft_length for text in texts], [text.min_draft_length for text in alone])
            owed += sum(text.min_draft_length > 0 for text in texts)
        self.assertGreater(owed, 20)

    def test_trees(self):
        count, generator = 100, np.random.default_rng(5)
        parents = np.array([-1, -1, 0, 0, 0, 1]) + np.zeros((count, 1), int)
        draft = random_rows(generator, count, 6, 5)
        for k, elder in (1, 0), (3, 2), (4, 2):
            draft[:, k] = draft[:, elder]  # siblings are draws from one row
        target, tokens = random_rows(generator, count, 7, 5), drawn(generator, draft)
        for rule in TREES:
            many = tensor_rows.verify(rule, tensor(target), tensor(draft), tokens, range(count), [3] * count, parents=parents)
            self.assertEqual(many.errors, {})
            for b in range(count):
                alone = specdec.verify_tree(rule, target[b], draft[b], tokens[b], parents[b], b, step=3)
                self.assertEqual(([k for k in many.path[b] if k >= 0], many.token[b]), alone[:2])

    def test_trees_of_chosen_tokens(self):
        count, generator = 100, np.random.default_rng(6)
        tokens, parents = np.array([0, 1, 2, 0, 1]), np.array([-1, -1, -1, 1, 1])
        target = random_rows(generator, count, 6, 4, power=3)
        every = np.tile(tokens, (count, 1)), np.tile(parents, (count, 1))
        for rule in TREES[:2]:
            many = tensor_rows.verify(rule, tensor(target), None, every[0], range(count), [0] * count, parents=every[1])
            self.assertEqual(many.errors, {})
            for b in range(count):
                alone = specdec.verify_tree(rule, target[b], None, tokens, parents, b, step=0)
                self.assertEqual(([k for k in many.path[b] if k >= 0], many.token[b]), alone[:2])

    def test_listed_draft_rows(self):
        drafts = Drafts(vocab_size=8)
        ids = drafts.draft.argsort(-1)[..., 3:].copy()
        listed = np.take_along_axis(drafts.draft, ids, -1)
        listed /= listed.sum(-1, keepdims=True)
        dense = np.zeros_like(drafts.draft)
        np.put_along_axis(dense, ids, listed, -1)
        chosen = np.random.default_rng(1).integers(5, size=drafts.tokens.shape)
        tokens = np.where(drafts.tokens < 0, -1, np.take_along_axis(ids, chosen[..., None], -1)[..., 0])
        by = functools.partial(tensor_rows.verify, tokens=tokens, seeds=drafts.seeds, steps=drafts.steps)
        for rule in "token", "block":
            lists = by(rule, tensor(drafts.target), ListedRows(torch.tensor(ids), torch.tensor(listed), 8))
            np.testing.assert_array_equal(lists.emitted, by(rule, tensor(drafts.target), tensor(dense)).emitted)


class RowsOfTensors(unittest.TestCase):
    def test_draws(self):
        generator = np.random.default_rng(1)
        for vocab_size in 1, 3, 1023, 1024, 1025, 5000:
            rows = random_rows(generator, 4, vocab_size, power=6) * (generator.random((4, vocab_size)) < 0.5)
            rows[:, vocab_size // 2] += 0.01
            rows /= rows.sum(-1, keepdims=True)
            u = np.concatenate((generator.random(500), [0, 1 - 2**-53]))
            for i, row in enumerate(rows):
                found = tensor(rows).draw(torch.full((502,), i), torch.tensor(u)).numpy()
                sums = row.cumsum()
                self.assertTrue((row[found] > 0).all())
                self.assertTrue((sums[found] > u - 1e-12).all() and (sums[found] - row[found] <= u + 1e-12).all())

    def test_logits(self):
        logits = torch.randn((3, 2, 50), generator=torch.Generator().manual_seed(1))
        logits[0, 0, 7] = -torch.inf
        temperature = torch.tensor([[0.5, 1.0], [0.0, 2.0], [1.0, 0.0]])
        rows = Rows.of_logits(logits, temperature).all.unflatten(0, (3, 2))
        for i in range(3):
            for j in range(2):
                t = temperature[i, j]
                likeliest = torch.nn.functional.one_hot(logits[i, j].argmax(), 50).float()
                expected = (logits[i, j] / t).softmax(0) if t > 0 else likeliest
                torch.testing.assert_close(rows[i, j], expected)
        halves = logits.bfloat16()
        expected = (halves.double() / 0.7).softmax(-1).flatten(0, 1).float()
        torch.testing.assert_close(Rows.of_logits(halves, 0.7).all, expected)

    def test_rows_of_halves(self):
        rows = torch.rand((2, 3000), generator=torch.Generator().manual_seed(1)).softmax(1).bfloat16()
        torch.testing.assert_close(Rows(rows).sums_of_segments().sum(1), rows.double().sum(1).float())

    def test_what_is_copied(self):
        """Questions and answers are a few numbers, and their rounds are few: the rows stay where they are."""
        drafts = Drafts(3, 500, gamma=4, vocab_size=3000)
        for rule, most, most_asked in ("argmax", 1, 1500), ("sample-match", 1, 1500), ("token", 4, 4000), ("block", 4, 5000):
            batch = specdec.AskingBatch(rule, drafts.tokens, drafts.seeds, drafts.steps)
            target, draft, rounds, asked = tensor(drafts.target), tensor(drafts.draft), 0, 0
            while questions := batch.questions():
                rounds, asked = rounds + 1, asked + len(questions.numbers)
                batch.answer(tensor_rows.answers(questions, target, draft).numpy())
            self.assertLessEqual(rounds, most, rule)
            self.assertLessEqual(asked, most_asked, rule)


class Errors(unittest.TestCase):
    def test_an_error_is_one_drafts_alone(self):
        drafts = Drafts()
        right = drafts.together("block")
        drafts.target[4, :2] = np.nan
        drafts.target[9, :] = 0
        drafts.draft[14, 1, drafts.tokens[14, 1]] = 0
        drafts.tokens[19, 0] = 99
        drafts.tokens[24] = [1, -1, 2, 3]
        drafts.draft[29, :] = np.nan
        many = drafts.together("block")
        self.assertEqual(list(many.errors), [4, 9, 14, 19, 24, 29])
        for b, words in (4, "target row 0: the probability of token . is nan"), (9, "row has no mass"), \
                (14, r"tokens\[1\] = . has probability 0 in draft row 1"), (19, r"tokens\[0\] = 99 has probability 0"), \
                (24, "comes after padding"), (29, "draft row 0: the probability of token . is nan"):
            self.assertRegex(many.errors[b], words)
            self.assertEqual((many.accepted[b], many.token[b], set(many.emitted[b])), (-1, -1, {-1}))
        others = np.delete(np.arange(60), list(many.errors))
        np.testing.assert_array_equal(many.emitted[others], right.emitted[others])

    def test_a_nan_does_not_reach_other_drafts(self):
        """The questions of a round have as many rows to subtract as the one that has most. Others are padded with 0 times row 0."""
        count, generator = 60, np.random.default_rng(8)
        parents = np.tile([[-1, -1, -1], [-1, 0, 1], [-1, -1, 0]], (count // 3, 1))
        draft = np.repeat(random_rows(generator, count, 1, 4), 3, 1)
        target, tokens = random_rows(generator, count, 4, 4, power=3), drawn(generator, draft)
        for rule in TREES:
            by = functools.partial(tensor_rows.verify, rule, tensor(target), tokens=tokens, seeds=range(count), steps=[0] * count,
                                   parents=parents)
            right = by(draft=tensor(draft))
            wrong = draft.copy()
            wrong[0] = np.nan
            many = by(draft=tensor(wrong))
            self.assertEqual((right.errors, list(many.errors)), ({}, [0]), rule)
            np.testing.assert_array_equal(many.emitted[1:], right.emitted[1:])

    def test_a_drawn_row_with_a_nan(self):
        for vocab_size in 6, 2500:
            drafts = Drafts(vocab_size, vocab_size=vocab_size)
            right = drafts.together("sample-match")
            drafts.target[7, :, vocab_size // 2] = np.nan
            drafts.target[8, :, 0] = np.inf
            many = drafts.together("sample-match")
            self.assertEqual(list(many.errors), [7, 8])
            for error in many.errors.values():
                self.assertRegex(error, "target row 0: the probabilities have no finite sum")
            others = np.delete(np.arange(60), [7, 8])
            np.testing.assert_array_equal(many.emitted[others], right.emitted[others])

    def test_greedy_rows_of_bad_logits(self):
        logits = torch.zeros((4, 1, 5))
        logits[:, :, 3] = 1
        logits[1] = -torch.inf
        logits[2, 0, 2] = torch.nan
        many = tensor_rows.verify("argmax", Rows.of_logits(logits, 0), None, np.zeros((4, 0), int), range(4), [0] * 4)
        self.assertEqual((list(many.errors), list(many.token)), ([1, 2], [3, -1, -1, 3]))
        for b in many.errors:
            with self.assertRaises(specdec.InvalidDistribution):
                specdec.verify("argmax", logits[b], None, np.zeros(0, int), 1, temperature=0)

    def test_chosen_ids_outside_the_vocabulary(self):
        """They have p = 0, as in rows with more columns that are zeros."""
        count, parents = 40, np.array([-1, -1, -1])
        target = random_rows(np.random.default_rng(9), count, 4, 4, power=3)
        wide = np.concatenate((target, np.zeros((count, 4, 8))), 2)
        for rule, tokens in ("traversal", [9, 4, 2]), ("recursive-rejection", [9, 4, 2]), ("k-seq", [9, 9, 9]):
            many = tensor_rows.verify(rule, tensor(target), None, np.tile(tokens, (count, 1)), range(count), [0] * count,
                                      parents=np.tile(parents, (count, 1)))
            self.assertEqual(many.errors, {}, rule)
            for b in range(count):
                alone = specdec.verify_tree(rule, wide[b], None, np.array(tokens), parents, b, step=0)
                self.assertEqual(([k for k in many.path[b] if k >= 0], many.token[b]), alone[:2], (rule, b))

    def test_listed_ids_outside_the_vocabulary(self):
        rows = ListedRows(torch.tensor([[2, -1, 4]]), torch.tensor([[0.5, 0.2, 0.3]]), 4)
        self.assertEqual(rows.whole(torch.tensor([0])).tolist(), [[0, 0, 0.5, 0]])
        self.assertEqual(rows.probability(torch.tensor([0, 0, 0]), torch.tensor([2, 0, 4])).tolist(), [0.5, 0, 0])

    def test_sizes(self):
        drafts = Drafts(count=6)

        def refused(message, target, draft, **more):
            with self.assertRaisesRegex(ValueError, message):
                tensor_rows.verify("block", target, draft, drafts.tokens, drafts.seeds, drafts.steps, **more)

        target, draft = tensor(drafts.target), tensor(drafts.draft)
        refused("target has 36 rows, expected one for each of 24 tokens and of 6 drafts",
                tensor(np.tile(drafts.target[:, :1], (1, 6, 1))), draft)
        refused("target has 24 rows", tensor(drafts.target[:, :4]), None)
        refused("draft has 30 rows, expected one for each of 24 tokens", target, target)
        refused("draft rows have 5 numbers, and target rows 6", target, tensor(drafts.draft[..., :5]))
        with self.assertRaisesRegex(ValueError, "target has 5 rows, expected one for each of 3 tokens and of 1 drafts"):
            tensor_rows.verify("block", tensor(drafts.target[0]), None, np.array([1, 2, 3]), [1], [1], offsets=np.array([0, 3]))
        logits = torch.zeros((3, 3, 5))
        for shape in (3,), (3, 3, 1), (1, 3):
            with self.assertRaisesRegex(ValueError, r"temperature has the shape .*, expected \(\) or \(3, 3\)"):
                Rows.of_logits(logits, torch.ones(shape))

    def test_texts(self):
        """A text without an object, and two drafts of one text, are refused. The batch keeps its texts."""
        tokens, text, other = np.zeros((3, 2), int), specdec.GreedyBlock(), specdec.GreedyBlock()
        for texts, message in ([text, None, other], r"rule\[1\] is None"), \
                ([text, other, text], r"rule\[2\] is the GreedyBlock of rule\[0\]"):
            with self.assertRaisesRegex(ValueError, message):
                specdec.AskingBatch(texts, tokens, range(3), range(3))
        kept = specdec.GreedyBlock()
        held, texts = sys.getrefcount(kept), [kept]
        batch = specdec.AskingBatch(texts, tokens[:1], [1], [1])
        texts.clear()
        self.assertGreater(sys.getrefcount(kept), held)
        self.assertTrue(batch.questions())

    def test_calls(self):
        def refused(message, *given, **more):
            with self.assertRaisesRegex(ValueError, message):
                specdec.AskingBatch(*given, **more)

        tokens = np.zeros((2, 3), int)
        refused("seeds has 1 entries for 2 drafts", "block", tokens, [1], [1, 2])
        refused("steps has 3 entries for 2 drafts", "block", tokens, [1, 2], [1, 2, 3])
        refused("rule has 1 entries for 2 drafts", [specdec.GreedyBlock()], tokens, [1, 2], [1, 2])
        refused("'oracle' is no rule for lines", "oracle", tokens, [1, 2], [1, 2])
        refused("'block' is no rule for trees", "block", tokens, [1, 2], [1, 2], parents=tokens)
        for given, shape in (tokens[:1], r"\(1, 3\)"), (tokens.reshape(3, 2), r"\(3, 2\)"):  # the second ones would be other trees
            refused(rf"parents has the shape {shape}, expected \(2, 3\), the shape of tokens", "traversal", tokens, [1, 2], [1, 2],
                    parents=given)
        refused(r"parents has the shape \(2,\), expected \(3,\), the shape of tokens", "traversal", tokens[0], [1], [1],
                offsets=np.array([0, 3]), parents=tokens[0, :2])
        refused(r"offsets\[1\] = 7 is outside", "block", tokens[0], [1], [1], offsets=np.array([0, 7]))
        refused("tokens has the shape", "block", tokens[0], [1, 2], [1, 2])
        batch = specdec.AskingBatch("block", tokens, [1, 2], [1, 2])
        self.assertEqual(batch.questions().numbers.shape, (6, 5))
        with self.assertRaisesRegex(ValueError, "there are questions without an answer"):
            batch.verdicts()
        with self.assertRaisesRegex(ValueError, r"answers have the shape \(5, 4\), expected \(6, 4\)"):
            batch.answer(np.zeros((5, 4)))


    def test_ids_that_are_no_tokens(self):
        """They are an error of their own draft. An id of 64 bits is not cut to 32."""
        for tokens, offsets in (np.array([[2**32 + 1, 0], [1, 0]]), None), (np.array([1, -5, 1, 0]), np.array([0, 2, 4])):
            for rule in LINES:
                batch = specdec.AskingBatch(rule, tokens, [1, 1], [0, 0], offsets=offsets)
                while questions := batch.questions():
                    batch.answer(np.tile([1, 1, 0.5, 0], (len(questions.numbers), 1)))
                words = "[0] = 4294967297" if offsets is None else "[1] = -5"
                self.assertEqual(batch.verdicts().errors, {0: f"specdec: tokens{words} is outside the vocabulary 0..2147483647"})

    def test_answers_that_name_no_token(self):
        batch = specdec.AskingBatch("sample-match", np.array([[1]]), [1], [0])
        for token in 7.9, np.nan, -2, 2**31:
            with self.assertRaisesRegex(ValueError, r"answers\[1, 0\] = .* is neither a token id nor -1"):
                batch.answer(np.array([[1, 1, 0, 0], [token, 1, 0, 0]]))
        with self.assertRaisesRegex(TypeError, "answers is a str, expected a number or an array of numbers"):
            batch.answer("x")
        batch.answer(np.array([[1, 1, 0, 0], [2, 1, 0, 0]]))  # no answer counted before
        self.assertEqual(batch.verdicts()[:2], (1, 2))


class Law(unittest.TestCase):
    @staticmethod
    def sampler(rule, answers=tensor_rows.answers):
        def judged(target, draft, tokens, seed):
            batch = specdec.AskingBatch(rule, tokens, [seed] * len(tokens), range(len(tokens)))
            target, draft = Rows(torch.from_numpy(target)), Rows(torch.from_numpy(draft))
            while questions := batch.questions():
                batch.answer(answers(questions, target, draft).numpy())
            return batch.verdicts()[:2]

        return judged

    def report(self, rule, **wrong):
        return specdec.check_sampler(self.sampler(rule, **wrong), batch=1000)

    def test_right(self):
        for rule in "token", "block", "sample-match":
            report = self.report(rule)
            self.assertTrue(report, report)

    def test_mistakes(self):
        def row_before(questions, target, draft):
            questions.numbers[questions.counts[0] :, 0] -= 1  # of another position, or of another draft
            return tensor_rows.answers(questions, target, draft)

        def one_number(questions, target, draft):
            questions.numbers[:, 3] = 0.5
            return tensor_rows.answers(questions, target, draft)

        def no_q(questions, target, draft):
            found = tensor_rows.answers(questions, target, draft)
            found[questions.counts[0] :, 2] = 0
            return found

        for mistake in row_before, one_number, no_q:
            for rule in "token", "block":
                self.assertTrue(self.report(rule, answers=mistake).convicted, (mistake, rule))


if __name__ == "__main__":
    unittest.main()
