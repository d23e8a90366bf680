#!/usr/bin/python3
"""Trains a head on a target's states that drafts tokens one after another: an MLP speculator (Wertheimer et al., 2024).

Its first state is made of what the target's layers returned for the last token that the target has taken in. Each token
turns a state into logits for the next token, and into the next state. The weights are the same at every depth of a draft
(as in Recurrent Drafter, Cheng et al., 2024). So a draft may have any length.

The head learns the target's whole next-token distributions on rows that the target sampled (sample.py), for several tokens
after each place of a row. First the loss is the cross entropy, then the total variation: the share of drafted tokens that
speculative sampling rejects. The learning rate follows the elapsed share of the given minutes, as in train.py.

The file that --out names is for the C++ backend. A 256 byte header (zero padded) holds uint32 0x63657073, int32 1, int32
vocab, dim of the target, dim, hidden, the number of the target's layers that are read, and the numbers of these layers.
IEEE half numbers follow, matrices as rows of outputs, in the order of Speculator's parameters.
"""

import argparse
import pathlib
import struct
import time

import numpy
import torch
from torch import nn
from torch.nn import functional

from distill import GREEDY, Pool
from half_file import HEADER_BYTES
from model import Norm
from muon import Muon
from train import load, prepare, rate

MAGIC, VERSION = 0x63657073, 1
EVALUATED_FROM = 33


class Speculator(nn.Module):
    def __init__(self, vocab, target_dim, dim, hidden, layers):
        super().__init__()
        self.layers = layers
        self.dimensions = vocab, target_dim, dim, hidden
        features = target_dim * len(layers)
        self.features_norm = Norm(features)
        self.features = nn.Linear(features, dim, bias=False)
        self.embedding = nn.Embedding(vocab, dim)
        self.feed_forward_norm = Norm(dim)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.norm = Norm(dim)
        self.classifier = nn.Linear(dim, vocab, bias=False)
        self.state_norm = Norm(dim)
        self.state = nn.Linear(dim, dim, bias=False)
        # At first a token says more than the state, and states stay small however long a draft is.
        nn.init.normal_(self.embedding.weight, std=0.5)
        nn.init.normal_(self.classifier.weight, std=0.02)
        nn.init.normal_(self.down.weight, std=0.3 / hidden ** 0.5)
        nn.init.normal_(self.features.weight, std=0.5 / features ** 0.5)
        nn.init.normal_(self.state.weight, std=0.5 / dim ** 0.5)

    def forward(self, features, tokens):
        """Logits (batch, places, vocab) after each of tokens (steps, batch, places), as a list. The first tokens follow the
        token that features (batch, places, target_dim times layers) are of."""
        state = self.features(self.features_norm(features))
        rows = []
        for token in tokens:
            x = state + self.embedding(token)
            y = self.feed_forward_norm(x)
            x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
            rows.append(self.classifier(self.norm(x)))
            state = self.state(self.state_norm(x))
        return rows

    def size(self):
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def write(self, path):
        with open(path, "wb") as file:
            header = struct.pack("<Ii", MAGIC, VERSION) + numpy.array(
                [*self.dimensions, len(self.layers), *self.layers], dtype="<i4").tobytes()
            file.write(header.ljust(HEADER_BYTES, b"\0"))
            for parameter in self.parameters():
                file.write(parameter.detach().numpy().astype("<f2").tobytes())


class Divergence(torch.autograd.Function):
    """Mean divergence of distributions p from softmax(logits): the total variation, or the cross entropy. The gradient is
    written by hand, because most of the time goes into passes over the vocabulary."""

    @staticmethod
    def forward(ctx, logits, p, total_variation):
        q = logits.softmax(-1)
        if total_variation:
            more = (p > q).float()
            overlap = (q * more).sum(-1, keepdim=True)
            loss = ((p * more).sum(-1, keepdim=True) - overlap).mean()
            gradient = (overlap - more).mul_(q)
        else:
            loss = -(p * q.clamp(min=1e-9).log()).sum(-1).mean()
            gradient = q.sub_(p)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx, scale):
        gradient, = ctx.saved_tensors
        return gradient * (scale * gradient.shape[-1] / gradient.numel()), None, None


class Rows:
    """The rows of a pool with the states of the target's layers, which are computed once: 0.8 MB a row for three layers."""

    @torch.no_grad()
    def __init__(self, target, pool, layers):
        self.target, self.pool = target, pool
        self.states = torch.empty(*pool.rows.shape, len(layers), target.shape.dim, dtype=torch.half)
        for first in range(0, len(pool.rows), 8):
            states = target.states(pool.rows[first:first + 8])
            self.states[first:first + 8] = torch.stack([states[layer - 1] for layer in layers], -2)

    @torch.no_grad()
    def batch(self, chosen, places, steps):
        """For tokens at some places of the chosen rows: the states before them, the tokens and the `steps` - 1 after them
        (steps, batch, places), and the target's logits after each."""
        states = self.states[chosen]
        at = places + torch.arange(steps)[:, None]
        tokens = self.pool.rows[chosen][:, at].transpose(0, 1)
        logits = self.target.classify(states[:, at, -1].float()).transpose(0, 1)
        return states[:, places - 1].flatten(-2).float(), tokens, logits


@torch.no_grad()
def accepted(rows, head, steps):
    """Prints the share of drafted tokens that the target accepts at each depth of a draft, by temperature."""
    places = torch.arange(EVALUATED_FROM, rows.pool.rows.shape[1] - steps + 1)
    for temperature in sorted(set(rows.pool.temperatures.tolist())):
        chosen = torch.nonzero(rows.pool.temperatures == temperature).flatten()
        shares = torch.zeros(steps)
        for row in chosen.split(1):
            features, tokens, wanted = rows.batch(row, places, steps)
            for depth, (p, q) in enumerate(zip(wanted, head(features, tokens))):
                if temperature > 0:
                    both = torch.minimum((p / temperature).softmax(-1), (q / temperature).softmax(-1)).sum(-1)
                else:
                    both = (p.argmax(-1) == q.argmax(-1)).float()
                shares[depth] += both.mean() / len(chosen)
        print(f"T = {temperature:.1f}: accepted at depth 1 to {steps}:", *(f"{share:.3f}" for share in shares), flush=True)


def optimizers(head, matrix_rate, other_rate):
    """Optimizers and their full learning rates."""
    tables = [head.embedding.weight, head.classifier.weight]
    matrices = [p for p in head.parameters() if p.dim() == 2 and all(p is not table for table in tables)]
    norms = [p for p in head.parameters() if p.dim() == 1]
    return [(Muon(matrices, matrix_rate), matrix_rate),
            (torch.optim.AdamW([dict(params=tables, weight_decay=0.01), dict(params=norms, weight_decay=0.0)],
                               other_rate, betas=(0.9, 0.95)), other_rate)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", type=pathlib.Path, required=True, help="the target")
    parser.add_argument("--pool", type=pathlib.Path, required=True, help="rows sampled from the target")
    parser.add_argument("--held-out", type=pathlib.Path, required=True, help="rows to measure on")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--minutes", type=float, required=True, help="length of the run")
    parser.add_argument("--layers", default="2,3,4", help="layers of the target to read, the last one last (%(default)s)")
    parser.add_argument("--dim", type=int, default=128, help="numbers of a state (%(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="numbers in the feed forward network (%(default)s)")
    parser.add_argument("--steps", type=int, default=4, help="tokens to draft after each place (%(default)s)")
    parser.add_argument("--decay", type=float, default=0.9, help="weight of a depth beside the one before (%(default)s)")
    parser.add_argument("--rows", type=int, default=16, help="rows in a step (%(default)s)")
    parser.add_argument("--places", type=int, default=128, help="places of each row in a step (%(default)s)")
    parser.add_argument("--total-variation", type=float, default=0.5,
                        help="share of the run from which this is the loss (%(default)s)")
    parser.add_argument("--matrix-rate", type=float, default=0.02, help="Muon's learning rate (%(default)s)")
    parser.add_argument("--other-rate", type=float, default=0.004, help="AdamW's learning rate (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, options.seed)
    target = load(options.target)
    layers = [int(layer) for layer in options.layers.split(",")]
    rows, held_out = (Rows(target, Pool(path, options.seed), layers) for path in (options.pool, options.held_out))
    head = Speculator(target.shape.vocab, target.shape.dim, options.dim, options.hidden, layers)
    parts = optimizers(head, options.matrix_rate, options.other_rate)
    print(f"{head.size()} parameters against {target.size()}, {len(rows.pool.rows)} rows", flush=True)

    begin = time.monotonic()
    step, share, average = 0, 0.0, None
    while share < 1:
        share = min(1.0, (time.monotonic() - begin) / (60 * options.minutes))
        chosen = rows.pool.choose(options.rows)
        places = 1 + torch.randperm(rows.pool.rows.shape[1] - options.steps)[:options.places]
        scale = rows.pool.temperatures[chosen].clamp(min=GREEDY)[:, None, None]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            features, tokens, wanted = rows.batch(chosen, places, options.steps)
            given = head(features, tokens)
        loss = sum(options.decay ** depth *
                   Divergence.apply(q.float() / scale, (p.float() / scale).softmax(-1), share >= options.total_variation)
                   for depth, (p, q) in enumerate(zip(wanted, given)))
        loss.backward()
        for optimizer, full in parts:
            for group in optimizer.param_groups:
                group["lr"] = full * rate(share)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if step % 250 == 0:
            print(f"step {step} share {share:.4f} loss {average:.4f}", flush=True)
    accepted(held_out, head, options.steps)
    head.write(options.out)


if __name__ == "__main__":
    main()
