#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes a checkpoint of ../transformer as a TorchScript module. A call takes the keys and values and returns the new ones.

    export.py ../transformer/weights/target.bin target.pt

The module has the numbers vocab_size, context_size, layers, kv_heads and head_size, and is called as

    logits, keys, values = module(ids, keys, values, rows)

ids are the n tokens after the tokens in keys and values, which have shape (layers, kv_heads, tokens so far, head_size).
logits has a row after each of the last `rows` ids. The returned keys and values hold n more tokens. torch_model.hpp takes
any module of this form.
"""

import argparse
import pathlib
import struct
import sys
from typing import List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

MAGIC, HALF_VERSION, HEADER_BYTES = 0x616B3432, 16, 256
ROPE_BASE = 10000.0


class Llama(nn.Module):
    """The architecture of ../transformer: RMSNorm, interleaved RoPE, grouped queries, SwiGLU, shared embedding."""

    vocab_size: int
    context_size: int
    layers: int
    kv_heads: int
    head_size: int

    def __init__(self, dim, hidden, layers, heads, kv_heads, vocab, context, tensors):
        super().__init__()
        self.vocab_size, self.context_size = vocab, context
        self.layers, self.heads, self.kv_heads = layers, heads, kv_heads
        self.head_size, self.epsilon = dim // heads, 1e-5
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        frequencies = ROPE_BASE ** (-torch.arange(0, self.head_size, 2).double() / self.head_size)
        angles = torch.outer(torch.arange(context).double(), frequencies)
        self.register_buffer("cosines", angles.cos().float())
        self.register_buffer("sines", angles.sin().float())

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * weight

    def rotate(self, x: Tensor, begin: int) -> Tensor:
        """Rotates every pair of neighbouring channels of x (heads, tokens, head_size) by its position's angle."""
        end = begin + x.size(1)
        cosine, sine = self.cosines[begin:end], self.sines[begin:end]
        even, odd = x[:, :, 0::2], x[:, :, 1::2]
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)

    def attend(self, layer: int, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        count, begin = x.size(0), keys.size(1)
        query = self.rotate(functional.linear(x, self.q[layer]).view(count, self.heads, -1).transpose(0, 1), begin)
        key = self.rotate(functional.linear(x, self.k[layer]).view(count, self.kv_heads, -1).transpose(0, 1), begin)
        value = functional.linear(x, self.v[layer]).view(count, self.kv_heads, -1).transpose(0, 1)
        keys, values = torch.cat((keys, key), 1), torch.cat((values, value), 1)
        group = self.heads // self.kv_heads
        scores = query @ keys.repeat_interleave(group, 0).transpose(1, 2) * self.head_size ** -0.5
        mixed = (scores + mask).softmax(-1) @ values.repeat_interleave(group, 0)
        return functional.linear(mixed.transpose(0, 1).reshape(count, -1), self.o[layer]), keys, values

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor, rows: int) -> Tuple[Tensor, Tensor, Tensor]:
        count, begin = ids.size(0), keys.size(2)
        mask = torch.full((count, begin + count), float("-inf")).triu(begin + 1)
        x = self.embedding[ids]
        new_keys: List[Tensor] = []
        new_values: List[Tensor] = []
        for layer in range(self.layers):
            mixed, key, value = self.attend(layer, self.norm(x, self.attention_norm[layer]), keys[layer], values[layer], mask)
            x = x + mixed
            new_keys.append(key)
            new_values.append(value)
            y = self.norm(x, self.feed_forward_norm[layer])
            y = functional.silu(functional.linear(y, self.gate[layer])) * functional.linear(y, self.up[layer])
            x = x + functional.linear(y, self.down[layer])
        logits = functional.linear(self.norm(x[count - rows:], self.final_norm), self.embedding)
        return logits, torch.stack(new_keys), torch.stack(new_values)


def read(path):
    """The model of a checkpoint in half precision (../transformer/checkpoint.hpp), with its weights as floats."""
    data = path.read_bytes()
    if len(data) < HEADER_BYTES or struct.unpack_from("<Ii", data) != (MAGIC, HALF_VERSION):
        sys.exit(f"{path}: not a checkpoint of version {HALF_VERSION}")
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack_from("<7i", data, 8)
    kv_dim = dim // heads * kv_heads
    shapes = {"attention_norm": (layers, dim), "feed_forward_norm": (layers, dim), "final_norm": (dim,),
              "embedding": (vocab, dim), "q": (layers, dim, dim), "k": (layers, kv_dim, dim), "v": (layers, kv_dim, dim),
              "o": (layers, dim, dim), "gate": (layers, hidden, dim), "down": (layers, dim, hidden),
              "up": (layers, hidden, dim)}
    weights = torch.frombuffer(bytearray(data[HEADER_BYTES:]), dtype=torch.float16).float()
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    if sum(sizes) != weights.numel():
        sys.exit(f"{path}: holds {weights.numel()} weights, expected {sum(sizes)}")
    tensors = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), weights.split(sizes))}
    return Llama(dim, hidden, layers, heads, kv_heads, vocab, context, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    torch.jit.script(read(options.checkpoint).eval()).save(str(options.output))


if __name__ == "__main__":
    main()
