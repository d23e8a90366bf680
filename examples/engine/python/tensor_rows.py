# SPDX-License-Identifier: MIT
"""The rules of specdec over rows that are tensors on any device: a few operations of PyTorch answer what a rule asks.

No row is copied to the host, only questions and answers are: a few numbers for each drafted token. Nothing loops over the
vocabulary in Python. The device needs float64, which Apple's MPS has not.
"""

import itertools

import specdec
import torch

SEGMENT = 1024  # columns that are summed together. A draw reads the sums of its row, and one segment.


def verify(rule, target, draft, tokens, seeds, steps, **layout):
    """The verdicts of specdec.AskingBatch(rule, tokens, seeds, steps, **layout). draft=None: tokens were chosen, q = 1."""
    tokens = torch.as_tensor(tokens).cpu()
    batch = specdec.AskingBatch(rule, tokens, seeds, steps, chosen=draft is None, **layout)
    check_sizes(target, draft, tokens.numel(), len(seeds))
    while questions := batch.questions():
        batch.answer(answers(questions, target, draft).cpu().numpy())
    return batch.verdicts()


def check_sizes(target, draft, tokens, drafts):
    """With other sizes, a draft would be judged by rows of another draft."""
    if len(target) != tokens + drafts:
        raise ValueError(f"target has {len(target)} rows, expected one for each of {tokens} tokens and of {drafts} drafts")
    if draft is None:
        return
    if len(draft) != tokens:
        raise ValueError(f"draft has {len(draft)} rows, expected one for each of {tokens} tokens")
    if draft.vocab_size != target.vocab_size:
        raise ValueError(f"draft rows have {draft.vocab_size} numbers, and target rows {target.vocab_size}")


def answers(questions, target, draft):
    """An answer [token, p, q, mass] for each question, all on the device."""
    numbers = torch.from_numpy(questions.numbers).to(target.all.device)
    rows, draft_rows, tokens = numbers[:, :3].long().T
    ends = itertools.accumulate(questions.counts)
    _, drawn, largest, rest = (slice(end - count, end) for count, end in zip(questions.counts, ends))
    if questions.counts[1]:
        tokens[drawn] = target.draw(rows[drawn], numbers[drawn, 3])
    if questions.counts[2]:
        tokens[largest] = target.largest(rows[largest])
    p, mass = target.probability(rows, tokens), torch.zeros_like(numbers[:, 0])
    if questions.counts[3]:
        tokens[rest], p[rest], mass[rest] = residuals(numbers[rest], target, draft)
    q = draft.probability(draft_rows, tokens) if draft else torch.zeros_like(p)
    return torch.stack((tokens.double(), p, q, mass), 1)


def residuals(numbers, target, draft):
    """Tokens that are drawn from rows (w*p - the sum of b*q)+, their numbers in these rows, and the sums of the rows. Few are
    asked for: by races that take more than 64 rounds, by greedy block verification, and by rules for trees."""
    kinds, which = torch.unique(torch.cat((numbers[:, :1], numbers[:, 4:]), 1), dim=0, return_inverse=True)
    left = kinds[:, 1:2] * target.whole(kinds[:, 0].long())
    for row, b in zip(kinds[:, 2::2].long().T, kinds[:, 3::2].T):  # as many as there are siblings
        if draft:
            used = ((row >= 0) & (b > 0))[:, None]  # padding is 0 times row 0, which may have a NaN
            left -= torch.where(used, b[:, None] * draft.whole(row.clamp(min=0)), 0.0)
        chosen = (row < 0) & (-1 - row < target.vocab_size)
        left.scatter_add_(1, ((-1 - row) * chosen)[:, None], torch.where(chosen, -b, 0.0)[:, None])
    left = Rows(left.clamp(min=0))
    tokens = left.draw(which, numbers[:, 3])
    return tokens, left.probability(which, tokens), left.cumulative[which, -1]


class Rows:
    """Rows of probabilities [..., V]. They are counted one after another."""

    def __init__(self, probabilities):
        self.vocab_size = probabilities.shape[-1]
        self.all = probabilities.flatten(0, -2)
        if self.all.dtype != torch.float64:
            self.all = self.all.float()  # sums of halves would be rounded to halves
        self.cumulative = self.likeliest = None  # made when they are asked for

    @classmethod
    def of_logits(cls, logits, temperature=1.0):
        """temperature: a number, or one for each row. At 0 a row has its likeliest token alone."""
        if isinstance(temperature, float) and temperature == 1:
            return cls(logits.softmax(-1, dtype=torch.float32))
        temperature = torch.as_tensor(temperature, dtype=torch.float32, device=logits.device)
        if temperature.shape not in ((), logits.shape[:-1]):
            raise ValueError(f"temperature has the shape {tuple(temperature.shape)}, expected () or {tuple(logits.shape[:-1])}")
        temperature = temperature[..., None]
        greedy = temperature == 0
        rows = (logits / temperature.masked_fill(greedy, 1)).softmax(-1, dtype=torch.float32)
        if greedy.any():
            largest, likeliest = logits.max(-1, keepdim=True)
            known = largest.isfinite().to(rows.dtype)  # with a NaN, or with -inf alone, a row has no mass
            one_hot = torch.zeros_like(rows).scatter_(-1, likeliest, known)
            rows = torch.where(greedy, one_hot, rows)
        return cls(rows)

    def __len__(self):
        return len(self.all)

    def probability(self, rows, tokens):
        """The probability of each token in its row; 0 outside the vocabulary, and where there is no row."""
        known = (rows >= 0) & (tokens >= 0) & (tokens < self.vocab_size)
        return torch.where(known, self.all[rows * known, tokens * known].double(), 0.0)

    def whole(self, rows):
        return self.all[rows].double()

    def largest(self, rows):
        if self.likeliest is None:
            self.likeliest = self.all.argmax(-1)
        return self.likeliest[rows]

    def draw(self, rows, u):
        """The token that each u of [0, 1) draws from its row: the first one at which the sum of all up to it is above u. -1 if
        the row has no finite sum."""
        if self.cumulative is None:
            self.cumulative = self.sums_of_segments().double().cumsum(1)
        cumulative = self.cumulative[rows]
        u = u * cumulative[:, -1]
        segment = first_above(cumulative, u)
        before = torch.where(segment > 0, cumulative.gather(1, (segment - 1).clamp(min=0)[:, None])[:, 0], 0.0)
        columns = segment[:, None] * SEGMENT + torch.arange(min(SEGMENT, self.vocab_size), device=u.device)
        inside = self.all[rows[:, None], columns.clamp(max=self.vocab_size - 1)].double() * (columns < self.vocab_size)
        tokens = segment * SEGMENT + first_above(inside.cumsum(1), u - before)
        return torch.where(cumulative[:, -1].isfinite(), tokens, -1)

    def sums_of_segments(self):
        full = self.vocab_size // SEGMENT * SEGMENT
        whole = self.all[:, :full].unflatten(1, (-1, SEGMENT)).sum(2)
        return torch.cat((whole, self.all[:, full:].sum(1, keepdim=True)), 1)


class ListedRows:
    """Draft rows that list their tokens [..., K] with their probabilities, as a drafter has them that samples from its top K.
    Shorter lists are padded with tokens -1."""

    def __init__(self, tokens, probabilities, vocab_size):
        known = (tokens >= 0) & (tokens < vocab_size)
        self.tokens = (tokens * known).flatten(0, -2)
        self.listed = torch.where(known, probabilities.double(), 0.0).flatten(0, -2)
        self.vocab_size = vocab_size

    def __len__(self):
        return len(self.tokens)

    def probability(self, rows, tokens):
        row = rows.clamp(min=0)
        return ((self.tokens[row] == tokens[:, None]) * self.listed[row]).sum(1)

    def whole(self, rows):
        return self.listed.new_zeros((len(rows), self.vocab_size)).scatter_add_(1, self.tokens[rows], self.listed[rows])


def first_above(cumulative, u):
    """The first column above u; if rounding leaves none, the last one that adds something. So it always adds something."""
    return torch.minimum((cumulative <= u[:, None]).sum(1), (cumulative < cumulative[:, -1:]).sum(1))
