#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Distils a draft model from a target: the draft model learns the target's whole next-token distributions.

Rows come from a pool that the target sampled (sample.py) and from the corpus. The loss is the divergence between draft
model and target, both at the row's temperature. First it is the forward Kullback-Leibler divergence, then the total
variation, which is exactly the share of drafted tokens that speculative sampling rejects (DistillSpec, Zhou et al.,
2024). The learning rate follows the elapsed share of the given minutes, as in train.py.
"""

import argparse
import pathlib
import time

import numpy
import torch
from torch.nn import functional

from model import Shape, Transformer
from muon import Optimizer
from train import Windows, load, prepare, rate, save

# Greedy text is learnt at this low temperature. Near 0, acceptance means that both models agree on the likeliest token.
GREEDY = 0.3


class Pool:
    """Rows sampled from the target, in shuffled order, again and again."""

    def __init__(self, path, seed):
        data = numpy.load(path)
        self.rows = torch.from_numpy(data["rows"]).long()
        self.temperatures = torch.from_numpy(data["temperatures"])
        self.generator = torch.Generator().manual_seed(seed)
        self.queue = torch.empty(0, dtype=torch.long)

    def choose(self, count):
        """The numbers of the next rows."""
        if len(self.queue) < count:
            self.queue = torch.randperm(len(self.rows), generator=self.generator)
        chosen, self.queue = self.queue[:count], self.queue[count:]
        return chosen

    def batch(self, count):
        """Inputs (count, context) and temperatures (count)."""
        chosen = self.choose(count)
        return self.rows[chosen], self.temperatures[chosen]


def divergence(target, draft, temperatures, total_variation):
    """Mean divergence of logits (rows, time, vocab), each row at its temperature."""
    scale = temperatures.clamp(min=GREEDY)[:, None, None]
    p = (target.float() / scale).softmax(-1)
    if total_variation:
        return functional.relu(p - (draft.float() / scale).softmax(-1)).sum(-1).mean()
    return functional.kl_div((draft.float() / scale).log_softmax(-1), p, reduction="none").sum(-1).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=pathlib.Path, required=True, help="folder of train.npy and starts.npy")
    parser.add_argument("--target", type=pathlib.Path, required=True, help="checkpoint of the target")
    parser.add_argument("--pool", type=pathlib.Path, required=True, help="rows sampled from the target")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="checkpoint to write")
    start = parser.add_mutually_exclusive_group(required=True)
    start.add_argument("--draft", type=pathlib.Path, help="checkpoint of the draft to begin with")
    start.add_argument("--shape", type=Shape.parse, help="dim,layers,heads,kv_heads,hidden of a new draft")
    parser.add_argument("--minutes", type=float, required=True, help="length of the run")
    parser.add_argument("--total-variation", type=float, default=0.5,
                        help="share of the run from which this is the loss (%(default)s)")
    parser.add_argument("--corpus", type=float, default=0.5, help="share of rows from the corpus (%(default)s)")
    parser.add_argument("--batch", type=int, default=8192, help="tokens in a step (%(default)s)")
    parser.add_argument("--matrix-rate", type=float, default=0.015, help="Muon's learning rate (%(default)s)")
    parser.add_argument("--other-rate", type=float, default=0.003, help="AdamW's learning rate (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, options.seed)
    target = load(options.target)
    draft = load(options.draft) if options.draft else Transformer(options.shape)
    optimizer = Optimizer(draft, options.matrix_rate, options.other_rate)
    windows, pool = Windows(options.tokens, options.seed), Pool(options.pool, options.seed)
    context = draft.shape.context
    generator = torch.Generator().manual_seed(options.seed)
    print(f"{draft.size()} parameters against {target.size()}", flush=True)

    begin = time.monotonic()
    step, seen, share, averages = 0, 0, 0.0, {}
    while share < 1:
        share = min(1.0, (time.monotonic() - begin) / (60 * options.minutes))
        total_variation = share >= options.total_variation
        parts = max(1, options.batch // 2048)
        loss = 0.0
        for _ in range(parts):
            count = options.batch // parts // context
            if torch.rand((), generator=generator) < options.corpus:
                inputs, _ = windows.batch(count, context)
                temperatures = torch.ones(count)
            else:
                inputs, temperatures = pool.batch(count)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                with torch.no_grad():
                    wanted = target(inputs)
                given = draft(inputs)
            part = divergence(wanted, given, temperatures, total_variation) / parts
            part.backward()
            loss += part.item()
        optimizer.step(rate(share))
        step, seen = step + 1, seen + options.batch
        name = "total variation" if total_variation else "KL"
        averages[name] = 0.95 * averages.get(name, loss) + 0.05 * loss
        if step % 25 == 0 or share >= 1:
            print(f"step {step} share {share:.4f} tokens {seen} {name} {averages[name]:.4f}", flush=True)
    save(options.out, draft, step=step, tokens=seen)


if __name__ == "__main__":
    main()
