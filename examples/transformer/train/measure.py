#!/usr/bin/python3
"""Measures how often a target accepts the tokens of draft models, on a pool of text that the target sampled.

The acceptance is the mean over positions of sum_x min(p(x), q(x)), with both models at the row's temperature. At
temperature 0 it is the share of positions where both models have the same likeliest token.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", type=pathlib.Path, required=True, help="checkpoint of the target")
    parser.add_argument("--pool", type=pathlib.Path, required=True, help="rows sampled from the target (sample.py)")
    parser.add_argument("drafts", type=pathlib.Path, nargs="+", help="checkpoints of drafts")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, 0)
    target = load(options.target)
    data = numpy.load(options.pool)
    groups = collections.defaultdict(list)
    for row, temperature in zip(data["rows"], data["temperatures"]):
        groups[float(temperature)].append(torch.from_numpy(row).long())
    for path in options.drafts:
        draft = load(path)
        figures = (f"T = {temperature:.1f}: {acceptance(target, draft, torch.stack(rows), temperature):.4f}"
                   for temperature, rows in sorted(groups.items()))
        print(f"{path.name} ({draft.size()} parameters) accepted at", ", ".join(figures), flush=True)


if __name__ == "__main__":
    main()
