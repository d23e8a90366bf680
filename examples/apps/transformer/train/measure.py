#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures how often a target accepts the tokens of draft models, on a pool of text that the target sampled.

The acceptance is the mean over positions of sum_x min(p(x), q(x)), with both models at the row's temperature. At
temperature 0 it is the share of positions where both models have the same likeliest token. With --exits the target's own
first layers draft, too, with the final norm and the classifier. Their expected speed-up is
(1 - a^(g+1)) / ((1 - a)(1 + g c)) at the best draft length g, for an acceptance a and a share c of the target's weights.
"""

import argparse
import collections
import pathlib

import numpy
import torch

from train import load, prepare

PROMPT = 32


@torch.no_grad()
def acceptance(target, draft, rows, temperature):
    """Mean acceptance over the positions of rows (rows, time) that the target generated."""
    values = []
    for part in rows.split(4):
        p, q = (model(part)[:, PROMPT:] for model in (target, draft))
        if temperature > 0:
            both = torch.minimum((p / temperature).softmax(-1), (q / temperature).softmax(-1)).sum(-1)
        else:
            both = (p.argmax(-1) == q.argmax(-1)).float()
        values.append(both.flatten())
    return torch.cat(values).mean().item()


def by_temperature(target, draft, groups):
    """The acceptance of a draft model on each group of rows, by temperature."""
    return {temperature: acceptance(target, draft, rows, temperature) for temperature, rows in groups.items()}


def printed(accepted):
    return ", ".join(f"T = {temperature:.1f}: {value:.4f}" for temperature, value in accepted.items())


def share(model, layers):
    """The share of the weights that the model's first layers and classifier read, among those that the whole model reads."""
    layer = sum(parameter.numel() for parameter in model.layers[0].parameters())
    rest = model.size() - len(model.layers) * layer
    return (layers * layer + rest) / model.size()


def speed_up(accepted, cost, most=16):
    """The expected speed-up and the draft length that gives it."""
    return max((sum(accepted ** i for i in range(length + 1)) / (1 + length * cost), length) for length in range(most + 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", type=pathlib.Path, required=True, help="checkpoint of the target")
    parser.add_argument("--pool", type=pathlib.Path, required=True, help="rows sampled from the target (sample.py)")
    parser.add_argument("drafts", type=pathlib.Path, nargs="*", help="checkpoints of drafts")
    parser.add_argument("--exits", action="store_true", help="measure the target's own first layers, too")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, 0)
    target = load(options.target)
    data = numpy.load(options.pool)
    rows = collections.defaultdict(list)
    for row, temperature in zip(data["rows"], data["temperatures"]):
        rows[float(temperature)].append(torch.from_numpy(row).long())
    groups = {temperature: torch.stack(rows[temperature]) for temperature in sorted(rows)}
    for path in options.drafts:
        draft = load(path)
        accepted = by_temperature(target, draft, groups)
        print(f"{path.name} ({draft.size()} parameters) accepted at {printed(accepted)}", flush=True)
    for layers in range(1, len(target.layers) if options.exits else 1):
        accepted, cost = by_temperature(target, target.first(layers), groups), share(target, layers)
        gains = (f"{gain:.3f} at length {length}" for gain, length in (speed_up(a, cost) for a in accepted.values()))
        print(f"the first {layers} layers of {options.target.name} (cost {cost:.3f}) accepted at {printed(accepted)}; "
              f"speed-up {', '.join(gains)}", flush=True)


if __name__ == "__main__":
    main()
