#!/usr/bin/python3
"""Writes a trained model for the C++ backend, in half precision, or in llama2.c's legacy float32 format.

The half format is llama2.c's "version 1" layout with version number 16. A 256 byte header (zero padded) holds
uint32 0x616b3432, int32 16, int32 dim, hidden, layers, heads, kv_heads, vocab, context and uint8 1 for the shared
classifier. IEEE half numbers follow, matrices as rows of outputs: every layer's attention norm, every layer's feed
forward norm, the final norm, the embedding, then for q, k, v, o, gate, down and up in turn every layer's matrix.
"""

import argparse
import dataclasses
import pathlib
import struct

import numpy
import torch

from train import load

MAGIC, HALF_VERSION, HEADER_BYTES = 0x616B3432, 16, 256


def tensors(model):
    """The model's tensors as float32 arrays by name; those of the layers are stacked."""
    parts = {"embedding": model.embedding.weight, "norm": model.norm.weight}
    arrays = {name: tensor.detach().numpy() for name, tensor in parts.items()}
    for name, _ in model.layers[0].named_parameters():
        arrays[name] = numpy.stack([layer.get_parameter(name).detach().numpy() for layer in model.layers])
    return arrays


def dimensions(shape):
    return shape.dim, shape.hidden, shape.layers, shape.heads, shape.kv_heads, shape.vocab, shape.context


def keep_tokens(model, count):
    model.shape = dataclasses.replace(model.shape, vocab=count)
    model.embedding.weight = torch.nn.Parameter(model.embedding.weight[:count])


def write_half(model, path):
    order = ("attention_norm.weight", "feed_forward_norm.weight", "norm", "embedding",
             "attention.q.weight", "attention.k.weight", "attention.v.weight", "attention.o.weight",
             "feed_forward.gate.weight", "feed_forward.down.weight", "feed_forward.up.weight")
    arrays = tensors(model)
    with open(path, "wb") as file:
        file.write(struct.pack("<Ii7iB", MAGIC, HALF_VERSION, *dimensions(model.shape), 1).ljust(HEADER_BYTES, b"\0"))
        for name in order:
            file.write(arrays[name].astype("<f2").tobytes())


def write_legacy(model, path):
    order = ("embedding", "attention_norm.weight",
             "attention.q.weight", "attention.k.weight", "attention.v.weight", "attention.o.weight",
             "feed_forward_norm.weight", "feed_forward.gate.weight", "feed_forward.down.weight",
             "feed_forward.up.weight", "norm", "cosines", "sines")
    arrays = tensors(model)
    arrays["cosines"], arrays["sines"] = model.factors.real.numpy(), model.factors.imag.numpy()
    with open(path, "wb") as file:
        file.write(struct.pack("<7i", *dimensions(model.shape)))
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
    (write_legacy if options.legacy else write_half)(model, options.output)


if __name__ == "__main__":
    main()
