# SPDX-License-Identifier: MIT
"""The Llama architecture of llama2.c in PyTorch: RMSNorm, interleaved RoPE, grouped queries, SwiGLU.

The output classifier shares its weights with the token embedding and nothing has a bias.
"""

import dataclasses

import torch
from torch import nn
from torch.nn import functional

NORM_EPSILON = 1e-5
ROPE_BASE = 10000.0


@dataclasses.dataclass
class Shape:
    """Dimensions of a model."""
    dim: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    vocab: int = 1024
    context: int = 512

    @property
    def head_size(self):
        return self.dim // self.heads

    @classmethod
    def parse(cls, text):
        """The shape written as dim,layers,heads,kv_heads,hidden."""
        return cls(*map(int, text.split(",")))


def rope_speeds(head_size):
    """RoPE's angle from one position to the next, for each pair of channels."""
    return ROPE_BASE ** (-torch.arange(0, head_size, 2).double() / head_size)


def rotations(speeds, context):
    """RoPE's factors as complex numbers: one row for each position, one column for each pair of channels."""
    angles = torch.outer(torch.arange(context).double(), speeds)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def rotate(x, factors):
    """Rotates every pair of neighbouring channels of x (batch, time, heads, head size) by its factor."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * factors[:, None]).flatten(-2).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPSILON)
        return x * scale * self.weight


def attend(q, k, v, mask):
    """What q (batch, time, heads, head size) reads from v (batch, keys, kv_heads, head size), as (batch, time, dim)."""
    batch, time, heads, head_size = q.shape
    kv_heads = k.shape[2]
    # One product multiplies all queries of a group with their key head.
    group = heads // kv_heads
    q = q.transpose(1, 2).reshape(batch, kv_heads, group * time, head_size)
    scores = q @ k.permute(0, 2, 3, 1) * head_size ** -0.5
    scores = scores.unflatten(2, (group, time)) + mask
    weights = scores.softmax(-1).flatten(2, 3).to(v.dtype)
    mixed = (weights @ v.transpose(1, 2)).view(batch, heads, time, head_size)
    return mixed.transpose(1, 2).reshape(batch, time, heads * head_size)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        kv_dim = shape.kv_heads * shape.head_size
        self.q = nn.Linear(shape.dim, shape.dim, bias=False)
        self.k = nn.Linear(shape.dim, kv_dim, bias=False)
        self.v = nn.Linear(shape.dim, kv_dim, bias=False)
        self.o = nn.Linear(shape.dim, shape.dim, bias=False)
        self.attend = attend

    def forward(self, x, factors, mask, cache=None):
        batch, time, _ = x.shape
        shape = self.shape
        q = rotate(self.q(x).view(batch, time, shape.heads, shape.head_size), factors)
        k = rotate(self.k(x).view(batch, time, shape.kv_heads, shape.head_size), factors)
        v = self.v(x).view(batch, time, shape.kv_heads, shape.head_size)
        if cache is not None:
            k, v = cache.append(self, k, v)
        return self.o(self.attend(q, k, v, mask))


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate = nn.Linear(shape.dim, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.dim, bias=False)
        self.up = nn.Linear(shape.dim, shape.hidden, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.attention_norm = Norm(shape.dim)
        self.attention = Attention(shape)
        self.feed_forward_norm = Norm(shape.dim)
        self.feed_forward = FeedForward(shape)

    def forward(self, x, factors, mask, cache=None):
        x = x + self.attention(self.attention_norm(x), factors, mask, cache)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Cache:
    """Keys and values of the positions seen so far, for every attention of a model."""

    def __init__(self, context):
        self.context = context
        self.length = 0
        self.entries = {}

    def append(self, attention, k, v):
        if attention not in self.entries:
            self.entries[attention] = [x.new_empty(x.shape[0], self.context, *x.shape[2:]) for x in (k, v)]
        end = self.length + k.shape[1]
        for entry, x in zip(self.entries[attention], (k, v)):
            entry[:, self.length:end] = x
        return [entry[:, :end] for entry in self.entries[attention]]


class Transformer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.dim)
        self.register_buffer("factors", rotations(rope_speeds(shape.head_size), shape.context), persistent=False)
        self.register_buffer("mask", torch.full((shape.context, shape.context), -torch.inf).triu(1), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deep = name.endswith(("attention.o.weight", "feed_forward.down.weight"))
                nn.init.normal_(parameter, std=0.02 / ((2 * shape.layers) ** 0.5 if deep else 1))

    def states(self, ids, cache=None):
        """What each layer returns for ids (batch, time): a list of (batch, time, dim)."""
        begin = cache.length if cache else 0
        end = begin + ids.shape[1]
        states = [self.embedding(ids)]
        for layer in self.layers:
            states.append(layer(states[-1], self.factors[begin:end], self.mask[begin:end, :end], cache))
        if cache:
            cache.length = end
        return states[1:]

    def classify(self, state):
        """Logits (..., vocab) after the last layer's state (..., dim)."""
        return functional.linear(self.norm(state), self.embedding.weight)

    def forward(self, ids, cache=None):
        """Logits (batch, time, vocab) of the tokens that follow ids (batch, time)."""
        return self.classify(self.states(ids, cache)[-1])

    def first(self, layers):
        """The model of the first `layers` layers, as a function of ids (batch, time): an early exit."""
        return lambda ids: self.classify(self.states(ids)[layers - 1])

    def size(self):
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())
