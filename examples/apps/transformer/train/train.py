#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains a model on the encoded corpus for a given number of minutes, on the CPU in bfloat16.

The learning rate follows the elapsed share of those minutes, so the run ends on time on any machine: a short
warm-up, a plateau, then a linear decay to zero. The checkpoint is rewritten every few minutes. A run continues from an
existing checkpoint.
"""

import argparse
import pathlib
import time

import numpy
import torch
from torch.nn import functional

import weight_file
from model import Shape, Transformer
from muon import Optimizer
from tokenizer import BOS


class Windows:
    """Shuffled training windows: BOS, and then the text from the beginning of some sentence on."""

    def __init__(self, folder, seed):
        self.tokens = numpy.load(folder / "train.npy").astype(numpy.int64)
        self.starts = numpy.load(folder / "starts.npy")
        self.random = numpy.random.default_rng(seed)
        self.queue = []

    def batch(self, count, length):
        """Inputs and targets, each (count, length)."""
        rows = []
        while len(rows) < count:
            if not self.queue:
                grid = numpy.arange(self.random.integers(length), self.starts[-1], length)
                snapped = self.starts[numpy.searchsorted(self.starts, grid)]
                self.queue = list(self.random.permutation(snapped))
            row = self.tokens[self.queue.pop():][:length]
            if len(row) == length:
                rows.append(row)
        targets = torch.from_numpy(numpy.stack(rows))
        inputs = functional.pad(targets[:, :-1], (1, 0), value=BOS)
        return inputs, targets


def validation_loss(model, tokens, context, limit=None):
    """Nats per token over the first `limit` consecutive windows of `context` tokens, each after BOS."""
    count = len(tokens) // context
    targets = torch.from_numpy(tokens[:count * context].astype(numpy.int64)).view(count, context)[:limit]
    total = 0.0
    with torch.no_grad():
        for rows in targets.split(4):
            logits = model(functional.pad(rows[:, :-1], (1, 0), value=BOS))
            total += functional.cross_entropy(logits.flatten(0, 1), rows.flatten()).item() * len(rows)
    return total / len(targets)


def rate(share, warm_up=0.01, decay_from=0.3):
    """The learning rate at this share of a run, relative to its highest value."""
    return min(1.0, share / warm_up, (1 - share) / (1 - decay_from))


def prepare(threads, seed):
    """Sets PyTorch up for the CPU."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(seed)


def save(path, model, **rest):
    """Replaces the checkpoint at once, so that a reader never sees half of it."""
    temporary = path.with_suffix(".tmp")
    torch.save(dict(shape=model.shape, model=model.state_dict(), **rest), temporary)
    temporary.replace(path)


def load(path):
    """The model of a checkpoint, or of a file of half precision (.bin), in float32."""
    if path.suffix == ".bin":
        return weight_file.read(path)
    state = torch.load(path)
    model = Transformer(state["shape"])
    model.load_state_dict(state["model"])
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=pathlib.Path, required=True, help="folder of train.npy, valid.npy, starts.npy")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="checkpoint to write and to go on from")
    parser.add_argument("--shape", type=Shape.parse, required=True, help="dim,layers,heads,kv_heads,hidden")
    parser.add_argument("--minutes", type=float, required=True, help="length of the whole run")
    parser.add_argument("--batch", type=int, default=8192, help="tokens in a step (%(default)s)")
    parser.add_argument("--short", type=float, default=0.6, help="share of the run in half contexts (%(default)s)")
    parser.add_argument("--matrix-rate", type=float, default=0.015, help="Muon's learning rate (%(default)s)")
    parser.add_argument("--other-rate", type=float, default=0.003, help="AdamW's learning rate (%(default)s)")
    parser.add_argument("--save-minutes", type=float, default=4, help="between two checkpoints (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, options.seed)
    model = Transformer(options.shape)
    optimizer = Optimizer(model, options.matrix_rate, options.other_rate)
    before = step = seen = 0
    if options.out.exists():
        state = torch.load(options.out)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        before, step, seen = state["seconds"], state["step"], state["tokens"]
    print(f"{model.size()} parameters, from step {step}", flush=True)
    windows = Windows(options.tokens, options.seed + step)
    valid = numpy.load(options.tokens / "valid.npy")

    begin = saved = time.monotonic()
    average, share, length = None, 0.0, 0
    while share < 1:
        elapsed = before + time.monotonic() - begin
        share = min(1.0, elapsed / (60 * options.minutes))
        context = options.shape.context // (2 if share < options.short else 1)
        if context != length:
            length, windows.queue = context, []
        loss = 0.0
        # Parts of 2048 tokens fit into the cache.
        parts = max(1, options.batch // 2048)
        for _ in range(parts):
            inputs, targets = windows.batch(options.batch // parts // length, length)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(inputs)
            part = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten()) / parts
            part.backward()
            loss += part.item()
        optimizer.step(rate(share))
        step, seen = step + 1, seen + options.batch
        average = loss if average is None else 0.95 * average + 0.05 * loss
        if step % 25 == 0:
            print(f"step {step} share {share:.4f} tokens {seen} seconds {elapsed:.0f} loss {average:.4f}", flush=True)
        if share >= 1 or time.monotonic() - saved > 60 * options.save_minutes:
            saved = time.monotonic()
            measured = validation_loss(model, valid, length, None if share >= 1 else 32)
            print(f"step {step} share {share:.4f} validation {measured:.4f}", flush=True)
            save(options.out, model, optimizer=optimizer.state_dict(), seconds=elapsed, step=step, tokens=seen,
                 validation=measured)


if __name__ == "__main__":
    main()
