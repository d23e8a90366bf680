#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Fine-tunes a model so that its first layers alone guess well what the whole model says.

This is LayerSkip (Elhoushi et al., 2024, section 4.1). First, layer dropout: a row of a step goes past a layer at a
rate that grows exponentially with the layer's depth. Second, early exits: the loss is the cross entropy after the last layer
and after some layers before it, with weights that grow with the depth. All exits share the final norm and the classifier.
The exits of a step rotate, so that a step pays for a few of them only. Unlike the paper, layers are counted from 1, or the
exit after the first layer would have no weight.

The learning rate follows the elapsed share of the given minutes, as in train.py. They are minutes of the processor, so a run
that is stopped for a while learns no less. The file that --out names is for the C++ backend (weight_file.py).
"""

import argparse
import pathlib
import time

import numpy
import torch
from torch.nn import functional

import weight_file
from muon import Optimizer
from train import Windows, load, prepare, rate, validation_loss


def dropout_rates(layers, most):
    """The rate of each layer: 0 for the first layer, `most` for the last one."""
    return [most * (2 ** (layer / max(1, layers - 1)) - 1) for layer in range(layers)]


def loss_weights(layers, scale, rotation, step):
    """The weights of the loss after layers 1, 2, ... in a step: 0 for an exit whose turn it is not. They sum to 1."""
    weights = [scale * layer * (layer + 1) / 2 * ((layer - step) % rotation == 0) for layer in range(1, layers)]
    weights.append(layers + scale * layers * (layers - 1) / 2)
    return [weight / sum(weights) for weight in weights]


def states(model, ids, rates):
    """model.states(ids), but each row goes past each layer at the layer's rate."""
    rows, length = ids.shape
    all_states = [model.embedding(ids)]
    for layer, skipped in zip(model.layers, rates):
        x = all_states[-1]
        runs = torch.nonzero(torch.rand(rows) >= skipped).flatten()
        changed = layer(x[runs], model.factors[:length], model.mask[:length, :length])
        all_states.append(x.index_copy(0, runs, changed))
    return all_states[1:]


def learn(model, inputs, targets, rates, weights, share):
    """Adds the gradient of `share` times the loss of a part of a step. Returns the loss after the last layer."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = [model.classify(state) if weight > 0 else None
                  for state, weight in zip(states(model, inputs, rates), weights)]
    losses = [functional.cross_entropy(rows.float().flatten(0, 1), targets.flatten())
              for rows in logits if rows is not None]
    loss = sum(weight * loss for weight, loss in zip(filter(None, weights), losses))
    (share * loss).backward()
    return losses[-1].item()


def print_validation(name, model, tokens, context):
    losses = (validation_loss(model.first(layers), tokens, context) for layers in range(1, len(model.layers) + 1))
    print(f"validation {name}, after each layer:", *(f"{loss:.4f}" for loss in losses), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=pathlib.Path, required=True, help="folder of train.npy, valid.npy, starts.npy")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the model to begin with")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--minutes", type=float, required=True, help="length of the run")
    parser.add_argument("--dropout", type=float, default=0.1, help="rate of the last layer (%(default)s)")
    parser.add_argument("--scale", type=float, default=1, help="weight of the exits in the loss (%(default)s)")
    parser.add_argument("--rotation", type=int, default=2, help="every so many layers have an exit in a step (%(default)s)")
    parser.add_argument("--batch", type=int, default=8192, help="tokens in a step (%(default)s)")
    parser.add_argument("--matrix-rate", type=float, default=0.008, help="Muon's learning rate (%(default)s)")
    parser.add_argument("--other-rate", type=float, default=0.0015, help="AdamW's learning rate (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    prepare(options.threads, options.seed)
    model = load(options.model)
    optimizer = Optimizer(model, options.matrix_rate, options.other_rate)
    layers, context = model.shape.layers, model.shape.context
    rates = dropout_rates(layers, options.dropout)
    windows, valid = Windows(options.tokens, options.seed), numpy.load(options.tokens / "valid.npy")
    print_validation("before", model, valid, context)

    begin = time.thread_time()
    step, share, average = 0, 0.0, None
    while share < 1:
        share = min(1.0, (time.thread_time() - begin) / (60 * options.minutes))
        weights = loss_weights(layers, options.scale, options.rotation, step)
        parts = max(1, options.batch // 2048)
        loss = 0.0
        for _ in range(parts):
            inputs, targets = windows.batch(options.batch // parts // context, context)
            loss += learn(model, inputs, targets, rates, weights, 1 / parts) / parts
        optimizer.step(rate(share))
        step += 1
        average = loss if average is None else 0.95 * average + 0.05 * loss
        if step % 25 == 0 or share >= 1:
            print(f"step {step} share {share:.4f} tokens {step * options.batch} loss {average:.4f}", flush=True)
    weight_file.write(model, options.out)
    print_validation("after", model, valid, context)


if __name__ == "__main__":
    main()
