#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often audits of right texts reach an evidence: at most one in 10 may ever reach 10, one in 100 may reach 100, and so on.

    false_alarms.py 10000 short likeliest      so many audits; lists: whole or short; the reference: likeliest, drawn or none
"""

import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import candidates  # noqa: E402
import fake_server  # noqa: E402
from text_bets import TextBets  # noqa: E402

TEXT = 24  # tokens
SHORT = 5  # what a server lists on its own, where its lists are short


def listed(context, token, lists, name="target"):
    """Of a right server. A short list has its likeliest tokens, and the text's token, which is added."""
    row = fake_server.row(context, name)
    if lists == "whole":
        return candidates.listed([*enumerate(row)], "a list", len(row))
    own = sorted(range(len(row)), key=lambda i: -row[i])[:SHORT]
    return candidates.listed([(i, row[i]) for i in {*own, token}], "a list")


def audit(seed, tokens, lists, reference=None):
    """An audit of right texts, of so many tokens together."""
    source, bets, prompts = random.Random(seed), TextBets(seed=seed + 1, named=[fake_server.END], drafts=reference), [[1, 2], [3, 4]]
    for text in range(-(-tokens // TEXT)):
        context, places = list(prompts[text % 2]), []
        for _ in range(min(TEXT, tokens - text * TEXT)):
            token = fake_server.draw(fake_server.row(context), source)
            places.append((token, listed(context, token, lists), reference and listed(context, token, lists, "draft")))
            context.append(token)
        bets.add_text(prompts[text % 2], *map(list, zip(*places)))
    return bets


def main(audits, lists, reference):
    found = [audit(seed, 190, lists, None if reference == "none" else reference) for seed in range(int(audits))]
    evidence = [bets.largest_evidence for bets in found]
    again = [bets.largest_again for bets in found]
    for name, values in ("E", evidence), ("texts that go on as earlier ones", again):
        counts = ", ".join(f"{sum(value >= power for value in values)} reached 10^{power}" for power in (1, 2, 3, 4))
        print(f"{name}: of {len(values)} audits {counts}; the largest is 10^{max(values):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
