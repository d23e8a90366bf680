#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Audits two drafters at temperature 0.7. One reports the softmax of the raw logits as q."""

import specdec
import torch
from rejection_sampler import draw

generator = torch.Generator().manual_seed(1)


def report(reported_temperature):
    audit = specdec.DraftAudit()
    for _ in range(1000):
        logits = 2 * torch.randn((4, 50), generator=generator)  # of a draft of 4 tokens
        tokens = draw((logits / 0.7).softmax(1), generator)
        audit.add((logits / reported_temperature).softmax(1), tokens)
    return audit.report()


for temperature in 0.7, 1.0:
    found = report(temperature)
    print(f"q at temperature {temperature}: {found.informative} informative tokens, {found.fault}")
