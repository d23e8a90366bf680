# SPDX-License-Identifier: MIT
"""What the trainers of heads on a target's states share: the rows to learn from, the loss, the run and the measure.

A head learns the target's whole next-token distributions on rows that the target sampled (sample.py), for several tokens
after each place of a row. First the loss is the cross entropy, then the total variation: the share of drafted tokens that
speculative sampling rejects. The learning rate follows the elapsed share of the given minutes, as in train.py.

A head is a module with compare(): its logits beside the target's, for drafts from places of rows. By default it is called with
features (batch, places, target_dim times layers) and tokens (steps, batch, places), where the first tokens follow the token
that the features are of, and returns a list of logits (batch, places, vocab), one for each step.
"""

import argparse
import pathlib
import time

import torch

from distill import GREEDY, Pool
from muon import Muon
from train import load, prepare, rate

EVALUATED_FROM = 33


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


class Head(torch.nn.Module):
    penalty = 0.0  # what compare() adds to the loss

    def compare(self, rows, chosen, places, steps):
        """The head's logits and the target's, each a list over the steps of (batch, places, vocab). In each chosen row a draft
        begins at each place."""
        features, tokens, wanted = rows.batch(chosen, places, steps)
        return self(features, tokens), wanted


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
            for depth, (q, p) in enumerate(zip(*head.compare(rows, row, places, steps))):
                if temperature > 0:
                    both = torch.minimum((p / temperature).softmax(-1), (q / temperature).softmax(-1)).sum(-1)
                else:
                    both = (p.argmax(-1) == q.argmax(-1)).float()
                shares[depth] += both.mean() / len(chosen)
        print(f"T = {temperature:.1f}: accepted at depth 1 to {steps}:", *(f"{share:.3f}" for share in shares), flush=True)


def optimizers(head, tables, options):
    """Optimizers and their full learning rates: Muon for the matrices, AdamW for `tables` and the norms."""
    matrices = [p for p in head.parameters() if p.dim() == 2 and all(p is not table for table in tables)]
    norms = [p for p in head.parameters() if p.dim() == 1]
    return [(Muon(matrices, options.matrix_rate), options.matrix_rate),
            (torch.optim.AdamW([dict(params=tables, weight_decay=0.01), dict(params=norms, weight_decay=0.0)],
                               options.other_rate, betas=(0.9, 0.95)), options.other_rate)]


def arguments(description):
    """A parser of the options that all trainers of heads have."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--target", type=pathlib.Path, required=True, help="the target")
    parser.add_argument("--pool", type=pathlib.Path, required=True, help="rows sampled from the target")
    parser.add_argument("--held-out", type=pathlib.Path, required=True, help="rows to measure on")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--minutes", type=float, required=True, help="length of the run")
    parser.add_argument("--decay", type=float, default=0.9, help="weight of a depth beside the one before (%(default)s)")
    parser.add_argument("--rows", type=int, default=16, help="rows in a step (%(default)s)")
    parser.add_argument("--places", type=int, default=128, help="places of each row in a step (%(default)s)")
    parser.add_argument("--total-variation", type=float, default=0.5,
                        help="share of the run from which this is the loss (%(default)s)")
    parser.add_argument("--matrix-rate", type=float, default=0.02, help="Muon's learning rate (%(default)s)")
    parser.add_argument("--other-rate", type=float, default=0.004, help="AdamW's learning rate (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def load_target(options):
    """Sets PyTorch up and returns the target, which is not trained."""
    prepare(options.threads, options.seed)
    return load(options.target).requires_grad_(False)


def run(head, target, layers, steps, parts, options, depths=None):
    """Trains a head that reads these layers for `steps` tokens after each place, with optimizers() as parts. Measures it on
    so many tokens, or on `depths`."""
    rows, held_out = (Rows(target, Pool(path, options.seed), layers) for path in (options.pool, options.held_out))
    size = sum(parameter.numel() for parameter in head.parameters())
    print(f"{size} parameters against {target.size()}, {len(rows.pool.rows)} rows", flush=True)
    begin = time.monotonic()
    step, share, average = 0, 0.0, None
    while share < 1:
        share = min(1.0, (time.monotonic() - begin) / (60 * options.minutes))
        loss = learn(head, rows, steps, share >= options.total_variation, options)
        for optimizer, full in parts:
            for group in optimizer.param_groups:
                group["lr"] = full * rate(share)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        average = loss if average is None else 0.98 * average + 0.02 * loss
        if step % 250 == 0 or share >= 1:
            print(f"step {step} share {share:.4f} loss {average:.4f}", flush=True)
    accepted(held_out, head, depths or steps)


def learn(head, rows, steps, total_variation, options):
    """Adds the gradient of a step's loss, and returns the loss."""
    chosen = rows.pool.choose(options.rows)
    places = 1 + torch.randperm(rows.pool.rows.shape[1] - steps)[:options.places]
    scale = rows.pool.temperatures[chosen].clamp(min=GREEDY)[:, None, None]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        given, wanted = head.compare(rows, chosen, places, steps)
    loss = sum(options.decay ** depth *
               Divergence.apply(q.float() / scale, (p.float() / scale).softmax(-1), total_variation)
               for depth, (q, p) in enumerate(zip(given, wanted))) + head.penalty
    loss.backward()
    return loss.item()
