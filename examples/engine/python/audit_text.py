#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds texts to their target's law, batch after batch. One of the two engines here accepts drafted tokens 1.3 times as often
as it may: lenience, which some engines offer, and some have without a word.
"""

import torch
import specdec


def draw(rows, generator):
    return torch.multinomial(rows, 1, generator=generator)[:, 0]


def one_token(p, q, lenience, generator):
    """Token verification of one drafted token for each text of the batch."""
    x = draw(q, generator)
    ratio = (p.gather(1, x[:, None]) / q.gather(1, x[:, None]))[:, 0]
    accepted = torch.rand(len(p), generator=generator) < lenience * ratio
    left = (p - q).clamp(min=0) + 1e-20
    return torch.where(accepted, x, draw(left, generator))


def audited(lenience):
    generator = torch.Generator().manual_seed(7)
    audit = specdec.TextAudit()
    for _ in range(150):
        logits = 2 * torch.randn((64, 50), generator=generator)  # the target's, after 64 texts
        draft = logits + torch.randn(logits.shape, generator=generator)
        tokens = one_token(logits.softmax(1), draft.softmax(1), lenience, generator)
        audit.add(logits, tokens, draft, temperature=1.0)
        if audit.convicts(1e-6):
            break
    return audit.report()


if __name__ == "__main__":
    right, lenient = audited(1.0), audited(1.3)
    for name, report in ("right", right), ("lenient", lenient):
        print(f"{name}: {report.tokens} tokens, evidence 10^{report.largest_evidence:.1f}, {report.fault}")
    raise SystemExit(right.convicts(1e-4) or not lenient.convicts(1e-6))
