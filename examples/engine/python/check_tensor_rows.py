#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holds the rules over tensors (tensor_rows.py) to the exact law, convicts a mistake, and counts what PyTorch reads and
writes."""

import sys

import numpy
import specdec
import tensor_rows
import torch
from tensor_rows import Rows
from torch.utils._python_dispatch import TorchDispatchMode


def sampler(rule, answers=tensor_rows.answers):
    """For check_sampler: judges arrays as if they lay on a device."""

    def judged(target, draft, tokens, seed):
        batch = specdec.AskingBatch(rule, tokens, seeds=[seed] * len(tokens), steps=range(len(tokens)))
        target, draft = Rows(torch.from_numpy(target)), Rows(torch.from_numpy(draft))
        while questions := batch.questions():
            batch.answer(answers(questions, target, draft).numpy())
        return batch.verdicts()[:2]

    return judged


def without_q(questions, target, draft):
    """A mistake: q is known for drafted tokens only. So a replacement is drawn from p, not from the residual."""
    found = tensor_rows.answers(questions, target, draft)
    found[questions.counts[0] :, 2] = 0
    return found


class Traffic(TorchDispatchMode):
    """Counts the numbers that operations of PyTorch read and write. A view reads nothing, and a look-up what it returns."""

    LOOK_UPS = "aten::index", "aten::gather", "aten::embedding"

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        returned = op._schema.returns
        if not (returned and returned[0].alias_info and not returned[0].alias_info.is_write):
            written = tensors(result)
            self.numbers += written + (written if op._schema.name in self.LOOK_UPS else tensors(args))
        return result


def tensors(given):
    if isinstance(given, torch.Tensor):
        return given.numel()
    return sum(map(tensors, given)) if isinstance(given, (list, tuple)) else 0


def ratios(p, draft, tokens):
    return (p[:, :-1].gather(2, tokens[..., None]) / draft.gather(2, tokens[..., None]))[..., 0]


def token_by_residual(logits, draft, tokens):
    """Token verification as engines have it, at its leanest: the residual of the one row that needs it."""
    p, n, each = logits.softmax(-1), tokens.shape[1], torch.arange(len(tokens))
    accepted = (torch.rand(tokens.shape) < ratios(p, draft, tokens)).long().cumprod(1).sum(1)
    q = torch.where((accepted == n)[:, None], 0.0, draft[each, accepted.clamp(max=n - 1)])
    return accepted, torch.multinomial((p[each, accepted] - q).clamp(min=0), 1)[:, 0]


def block_by_residuals(logits, draft, tokens):
    """Block verification as its paper has it: the sums of all residuals, and a draw from one of them."""
    p, n = logits.softmax(-1), tokens.shape[1]
    ratio = ratios(p, draft, tokens)
    w = [torch.ones(len(tokens))]
    for i in range(n):
        w.append((w[-1] * ratio[:, i]).clamp(max=1))
    w = torch.stack(w, 1)
    left = (w[:, :n, None] * p[:, :n] - draft).clamp(min=0)
    mass = left.sum(-1)
    h = torch.cat((mass / (mass + 1 - w[:, :n]), w[:, n:]), 1)
    won = (torch.rand(h.shape) < h) * torch.arange(n + 1)
    accepted = won.amax(1)
    rows = torch.where((accepted == n)[:, None], p[:, n], left[torch.arange(len(p)), accepted.clamp(max=n - 1)])
    return accepted, torch.multinomial(rows, 1)[:, 0]


def show_traffic(drafts=16, gamma=4, vocab_size=32000):
    generator = numpy.random.default_rng(1)
    logits = torch.from_numpy(3 * generator.standard_normal((drafts, gamma + 1, vocab_size), numpy.float32))
    change = torch.from_numpy(generator.standard_normal((drafts, gamma, vocab_size), numpy.float32))
    draft = (logits[:, :gamma] + change).softmax(-1)
    u = torch.from_numpy(generator.random(drafts * gamma))
    tokens = Rows(draft).draw(torch.arange(drafts * gamma), u).view(drafts, gamma)

    seeds, steps = range(drafts), [0] * drafts

    def by_questions(rule):
        return tensor_rows.verify(rule, Rows.of_logits(logits), Rows(draft), tokens, seeds, steps)

    for name, act in (
        ("softmax alone", lambda: logits.softmax(-1)),
        ("token verification by softmax, gather, multinomial", lambda: token_by_residual(logits, draft, tokens)),
        ("token verification by questions", lambda: by_questions("token")),
        ("block verification by questions", lambda: by_questions("block")),
        ("block verification by sums of residuals", lambda: block_by_residuals(logits, draft, tokens)),
    ):
        with Traffic() as traffic:
            act()
        print(f"{name}: {traffic.numbers / logits.numel():.1f} times the logits")


def main():
    reports = {}
    for name, rule, answers in (
        ("token", "token", tensor_rows.answers),
        ("block", "block", tensor_rows.answers),
        ("block, q of drawn tokens is forgotten", "block", without_q),
    ):
        reports[name] = specdec.check_sampler(sampler(rule, answers), batch=1000)
        print(f"{name}\n  {reports[name]}")
    show_traffic()
    return [report.convicted for report in reports.values()] != [False, False, True]


if __name__ == "__main__":
    sys.exit(main())
