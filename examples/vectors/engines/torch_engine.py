# SPDX-License-Identifier: MIT
"""An engine for check_engine.py: the rejection sampler of examples/engine/python, and the sampler of PyTorch itself.

    check_engine.py engines/torch_engine.py
    check_engine.py engines/torch_engine.py --mode batched
"""

import itertools
import pathlib
import sys

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "engine" / "python"))

from rejection_sampler import rejection_sampler  # noqa: E402

RULES = ["token", "match"]


def verify(case, seed):
    return (sample_and_match if case.rule == "match" else token)([case], seed)[0]


def verify_batch(cases, seeds):
    """Drafts of one length and vocabulary are verified together, as the sampler wants them."""
    verdicts = [None] * len(cases)
    places = sorted(range(len(cases)), key=lambda k: shape(cases[k]))
    for _, group in itertools.groupby(places, key=lambda k: shape(cases[k])):
        group = list(group)
        together = [cases[k] for k in group]
        found = (sample_and_match if together[0].rule == "match" else token)(together, seeds[group[0]])
        for k, verdict in zip(group, found):
            verdicts[k] = verdict
    return verdicts


def shape(case):
    return case.gamma, case.vocab_size


def token(cases, seed):
    target = numpy.stack([case.target for case in cases])
    # Beyond the draft's vocabulary its rows are 0.
    draft = numpy.stack([numpy.pad(case.draft, ((0, 0), (0, case.vocab_size - case.draft_vocab_size))) for case in cases])
    accepted, after = rejection_sampler(target, draft, numpy.array([case.tokens for case in cases], int), seed)
    return list(zip(accepted.tolist(), after.tolist()))


def sample_and_match(cases, seed):
    generator = torch.Generator().manual_seed(seed)
    return [matched(case, torch.tensor(case.target), generator) for case in cases]


def matched(case, target, generator):
    for i, x in enumerate([*case.tokens, None]):
        y = torch.multinomial(target[i], 1, generator=generator).item()
        if y != x:
            return i, y
