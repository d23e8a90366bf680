#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Stretches a model to a context many times longer than the one it was trained on, with an adapter of few weights.

RoPE's speeds are interpolated by parts (YaRN, Peng et al., 2023, arXiv:2309.00071). A pair of channels that turns 4 times or
more within the trained context tells near positions apart, and keeps its speed. One that makes less than a quarter turn is
slowed down, so that its angles stay those of the training. Between the two, the speed is a mix of both. A softmax over more
keys spreads its weights, so queries beyond the trained context grow with the logarithm of their position (Su, 2021; Chiang and
Cholak, 2022, arXiv:2202.12172).

The model gets used to this by additions of low rank to its query and key matrices (LoRA, Hu et al., 2021,
arXiv:2106.09685) and by new attention norms; all else stays as it is. Some rows have a half or a quarter of the context, for
more tokens near the beginning of a row, where the stretched model must stay good, too.

Minutes are minutes of the processor, as in layer_skip.py. The file that --out names is for the C++ backend. The words of its
header are (weight_file.py) dim, the keys' dim, layers, rank, the trained context and the new one. For each layer in turn come
the attention norm, the query's down (rank, dim) and up (dim, rank), and the key's down (rank, dim) and up (the keys' dim,
rank). The new query matrix is the model's one plus the product up * down.
"""

import argparse
import math
import pathlib
import time

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import weight_file
from model import attend, rope_speeds, rotations
from tokenizer import BOS
from train import load, prepare, rate

MAGIC = 0x676E6F6C  # "long"
BLOCK = 512  # queries
FEWEST_TURNS, MOST_TURNS = 0.25, 4  # Between them, speeds are interpolated in part.
LENGTHS = 1, 4, 2, 4  # The context is divided by them, step after step.
VALIDATION = 9000, 17500  # where stretches of long addresses begin in valid.npy


class Adapted(nn.Module):
    """A matrix that stays as it is, and an addition of low rank, which is zero at first."""

    def __init__(self, matrix, rank):
        super().__init__()
        self.matrix = matrix
        self.down = nn.Linear(matrix.in_features, rank, bias=False)
        self.up = nn.Linear(rank, matrix.out_features, bias=False)
        nn.init.normal_(self.down.weight, std=matrix.in_features ** -0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.matrix(x) + self.up(self.down(x))


def slower_speeds(shape, context):
    """RoPE's speeds for a longer context."""
    trained = rope_speeds(shape.head_size)
    turns = shape.context * trained / (2 * math.pi)
    kept = ((turns - FEWEST_TURNS) / (MOST_TURNS - FEWEST_TURNS)).clamp(0, 1)
    return trained * kept + trained * shape.context / context * (1 - kept)


def attend_block(q, k, v, begin, first, window):
    """Attention of some queries, the first of them at position `begin`, to keys from position `first` on."""
    distances = torch.arange(begin, begin + q.shape[1])[:, None] - torch.arange(first, first + k.shape[1])
    hidden = (distances < 0) | (distances >= window)
    return attend(q, k, v, torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf))


def long_attention(scales, window):
    """Attention to the last `window` positions, one block of queries after another. The backward pass computes the weights
    of each block again, because those of a long row would take too much memory."""
    def attend_all(q, k, v, _):
        q = (q * scales[:q.shape[1], None, None]).to(k.dtype)
        blocks = []
        for begin in range(0, q.shape[1], BLOCK):
            first, end = max(0, begin - window + 1), begin + BLOCK
            blocks.append(checkpoint(attend_block, q[:, begin:end], k[:, first:end], v[:, first:end], begin, first, window,
                                     use_reentrant=False))
        return torch.cat(blocks, 1)
    return attend_all


def set_context(model, speeds, context, attention):
    model.factors = rotations(speeds, context)
    for layer in model.layers:
        layer.attention.attend = attention


def adapt(model, rank):
    """Adds an adapter to the model. Returns its parameters, the only ones to train, in the order of the file."""
    model.requires_grad_(False)
    parameters = []
    for layer in model.layers:
        q, k = (Adapted(matrix, rank) for matrix in (layer.attention.q, layer.attention.k))
        layer.attention.q, layer.attention.k = q, k
        parameters += [layer.attention_norm.weight.requires_grad_(), *(part.weight for part in (q.down, q.up, k.down, k.up))]
    return parameters


def without_novel(tokens):
    """The documents before the first one that comes twice in a row, as the novel's chapters do. Rows as long as these show
    a chapter both times, so a model would learn to copy it, which no other text rewards."""
    begins = [*numpy.flatnonzero(tokens == BOS), len(tokens)]
    for first, second, end in zip(begins, begins[1:], begins[2:]):
        if numpy.array_equal(tokens[first:second], tokens[second:end]):
            return tokens[:first]
    return tokens


def loss_of(model, row):
    """The loss of each token of a row, after BOS."""
    row = torch.from_numpy(row.astype(numpy.int64))[None]
    logits = model(functional.pad(row[:, :-1], (1, 0), value=BOS))
    return functional.cross_entropy(logits[0].float(), row[0], reduction="none")


@torch.no_grad()
def print_validation(name, model, tokens, context):
    """Prints nats per token by the number of tokens before them."""
    losses = sum(loss_of(model, tokens[begin:begin + context]) for begin in VALIDATION) / len(VALIDATION)
    edges = [0] + [edge for edge in (256 << doubling for doubling in range(32)) if edge < context] + [context]
    ranges = (f"{begin}-{end}: {losses[begin:end].mean():.4f}" for begin, end in zip(edges, edges[1:]))
    print(f"validation {name}:", ", ".join(ranges), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=pathlib.Path, required=True, help="folder of train.npy and valid.npy")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the model to stretch")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--minutes", type=float, required=True, help="length of the run")
    parser.add_argument("--context", type=int, default=8192, help="the new context (%(default)s)")
    parser.add_argument("--rank", type=int, default=2, help="rank of the additions (%(default)s)")
    parser.add_argument("--rate", type=float, default=0.004, help="AdamW's learning rate (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, options.seed)
    random = numpy.random.default_rng(options.seed)
    text, valid = without_novel(numpy.load(options.tokens / "train.npy")), numpy.load(options.tokens / "valid.npy")
    model = load(options.model)
    shape, context = model.shape, options.context
    set_context(model, rope_speeds(shape.head_size), context, long_attention(torch.ones(context), shape.context))
    print_validation(f"as it is, in windows of {shape.context}", model, valid, context)
    scales = torch.arange(1, context + 1).clamp(min=shape.context).log() / math.log(shape.context)
    set_context(model, slower_speeds(shape, context), context, long_attention(scales, context))
    parameters = adapt(model, options.rank)
    print_validation("before", model, valid, context)

    # The norms have begun well and act on all channels, so they move more slowly.
    groups = [dict(params=[part for part in parameters if part.dim() == dimensions], full=full)
              for dimensions, full in ((1, options.rate / 3), (2, options.rate))]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0)
    begin = time.thread_time()
    step, share, average = 0, 0.0, None
    while share < 1:
        share = min(1.0, (time.thread_time() - begin) / (60 * options.minutes))
        rows = LENGTHS[step % len(LENGTHS)]
        loss = 0.0
        for start in random.integers(len(text) - context // rows, size=rows):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                part = loss_of(model, text[start:start + context // rows]).mean() / rows
            part.backward()
            loss += part.item()
        nn.utils.clip_grad_norm_(parameters, 1)
        for group in optimizer.param_groups:
            group["lr"] = group["full"] * rate(share, warm_up=0.03, decay_from=0.4)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        average = loss if average is None else 0.9 * average + 0.1 * loss
        if step % 10 == 0 or share >= 1:
            print(f"step {step} share {share:.4f} tokens {step * context} loss {average:.4f}", flush=True)
    words = shape.dim, shape.kv_heads * shape.head_size, shape.layers, options.rank, shape.context, context
    weight_file.write_adapter(options.out, MAGIC, words, parameters)
    print_validation("after", model, valid, context)


if __name__ == "__main__":
    main()
