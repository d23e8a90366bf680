#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Samples text from a model: prints continuations of prompts, or writes a pool of rows to distil a draft on.

A pool (.npz) holds rows of ids that fill the context, and the temperature of each row. Rows begin with BOS and the
first words of a sentence of the corpus; the model goes on from there.
"""

import argparse
import pathlib

import numpy
import sentencepiece
import torch

from model import Cache
from tokenizer import BOS
from train import Windows, load, prepare


@torch.no_grad()
def continue_rows(model, prompts, temperature, length, generator):
    """Rows of `length` ids that begin with the prompts (rows, time); temperature 0 takes the likeliest token."""
    cache = Cache(model.shape.context)
    rows = step = prompts
    while rows.shape[1] < length:
        logits = model(step, cache)[:, -1]
        if temperature > 0:
            step = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
        else:
            step = logits.argmax(-1, keepdim=True)
        rows = torch.cat((rows, step), 1)
    return rows


def write_pool(model, windows, temperatures, count, batch, path, generator):
    """Writes `count` rows. Each batch has one temperature and one prompt length (4 to 31 tokens)."""
    rows, used = [], []
    for index in range(-(-count // batch)):
        temperature = temperatures[index % len(temperatures)]
        prompts, _ = windows.batch(batch, int(torch.randint(4, 32, (), generator=generator)))
        rows.append(continue_rows(model, prompts, temperature, model.shape.context, generator).short())
        used += [temperature] * batch
        windows.queue = []
        print(f"{len(used)} rows", flush=True)
    numpy.savez(path, rows=torch.cat(rows).numpy(), temperatures=numpy.array(used, dtype=numpy.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="checkpoint to sample from")
    parser.add_argument("--tokens", type=pathlib.Path, required=True, help="folder of the tokenizer and the tokens")
    parser.add_argument("--temperatures", type=lambda text: [float(part) for part in text.split(",")],
                        default=[0.8, 1.0], help="used in turn (0.8,1.0)")
    parser.add_argument("--prompt", action="append", help="print a continuation of this; can be given again")
    parser.add_argument("--length", type=int, default=300, help="tokens of a printed row (%(default)s)")
    parser.add_argument("--pool", type=pathlib.Path, help="write a pool here")
    parser.add_argument("--rows", type=int, default=1024, help="rows of the pool (%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="rows sampled at once (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, options.seed)
    model = load(options.model)
    generator = torch.Generator().manual_seed(options.seed)
    if options.pool:
        write_pool(model, Windows(options.tokens, options.seed), options.temperatures, options.rows, options.batch,
                   options.pool, generator)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(options.tokens / "tokenizer.model"))
    for prompt in options.prompt or ():
        ids = torch.tensor([[BOS] + processor.encode(prompt)])
        for temperature in options.temperatures:
            rows = continue_rows(model, ids, temperature, min(options.length, model.shape.context), generator)
            print(f"--- temperature {temperature:g}\n{processor.decode(rows[0].tolist())}")


if __name__ == "__main__":
    main()
