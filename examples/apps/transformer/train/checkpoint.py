#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes a trained model for the C++ backend, in half precision (weight_file.py), or in llama2.c's legacy float32 format."""

import argparse
import dataclasses
import pathlib
import struct

import numpy
import torch

import weight_file
from train import load


def tensors(model):
    """The model's tensors as float32 arrays by name; those of the layers are stacked."""
    parts = {"embedding": model.embedding.weight, "norm": model.norm.weight}
    arrays = {name: tensor.detach().numpy() for name, tensor in parts.items()}
    for name, _ in model.layers[0].named_parameters():
        arrays[name] = numpy.stack([layer.get_parameter(name).detach().numpy() for layer in model.layers])
    return arrays


def keep_tokens(model, count):
    model.shape = dataclasses.replace(model.shape, vocab=count)
    model.embedding.weight = torch.nn.Parameter(model.embedding.weight[:count])


def write_legacy(model, path):
    order = ("embedding", "attention_norm.weight",
             "attention.q.weight", "attention.k.weight", "attention.v.weight", "attention.o.weight",
             "feed_forward_norm.weight", "feed_forward.gate.weight", "feed_forward.down.weight",
             "feed_forward.up.weight", "norm", "cosines", "sines")
    arrays = tensors(model)
    arrays["cosines"], arrays["sines"] = model.factors.real.numpy(), model.factors.imag.numpy()
    with open(path, "wb") as file:
        file.write(struct.pack("<7i", *weight_file.dimensions(model.shape)))
        for name in order:
            file.write(arrays[name].astype("<f4").tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=pathlib.Path, help="written by train.py or distill.py")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--vocab-size", type=int, help="keep so many tokens, all that the model was trained on")
    parser.add_argument("--legacy", action="store_true", help="write llama2.c's legacy float32 format")
    options = parser.parse_args()
    model = load(options.checkpoint)
    if options.vocab_size:
        keep_tokens(model, options.vocab_size)
    (write_legacy if options.legacy else weight_file.write)(model, options.output)


if __name__ == "__main__":
    main()
