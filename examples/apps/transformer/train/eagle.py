#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains an EAGLE layer (Li et al., 2024, 2025): one layer with attention that drafts from a target's states.

Each token goes into the layer beside the state after the token before it: what the target's layers returned for that token,
or, in a draft, the layer's own output. Outputs give logits by the embedding. As in EAGLE-3 the states of several layers of
the target are read, and the layer is trained on its own outputs: a place of a row is the beginning of a draft, and the
tokens after it are fed with the outputs for the tokens before them. head.py says how it learns.

`--layers 4 --steps 1 --state-loss 10` is EAGLE-1's way: trained on the target's states alone, with a second loss that keeps the
layer's output for a token near the state that the target's layer makes of it, because a draft has the one in place of the other.

The file that --out names is for the C++ backend. The words of its header are (weight_file.py) vocab, dim of the target, dim,
heads, kv heads, hidden, context, the number of the target's layers that are read, and the numbers of these layers. The
matrices are in the order of Eagle's parameters.
"""

import pathlib

import torch
from torch import nn
from torch.nn import functional

import weight_file
import head
from model import Layer, Norm, Shape, rope_speeds, rotate, rotations

MAGIC = 0x6C676165  # "eagl"


def later(x, places):
    """x (batch, time, ...) moved to later times; the first times get zeros."""
    return torch.cat((torch.zeros_like(x[:, :places]), x[:, :x.shape[1] - places]), 1) if places else x


def distance(states, wanted):
    """The smooth L1 distance of states, each scaled to a mean square of 1: the layer sees no other scale."""
    scaled = (x.float() * x.float().square().mean(-1, keepdim=True).add(1e-5).rsqrt() for x in (states, wanted))
    return functional.smooth_l1_loss(*scaled)


class Eagle(head.Head):
    def __init__(self, shape, target_dim, layers, state_loss=0.0):
        super().__init__()
        self.shape, self.target_dim, self.layers, self.state_loss = shape, target_dim, layers, state_loss
        features = target_dim * len(layers)
        self.features_norm = Norm(features)
        self.features = nn.Linear(features, shape.dim, bias=False)
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.embedding_norm = Norm(shape.dim)
        self.state_norm = Norm(shape.dim)
        self.join = nn.Linear(2 * shape.dim, shape.dim, bias=False)
        self.layer = Layer(shape)
        self.norm = Norm(shape.dim)
        self.register_buffer("factors", rotations(rope_speeds(shape.head_size), shape.context), persistent=False)
        nn.init.normal_(self.features.weight, std=0.5 / features ** 0.5)
        nn.init.normal_(self.embedding.weight, std=0.02)
        for matrix in self.join.weight, *(weight for weight in self.layer.parameters() if weight.dim() == 2):
            nn.init.normal_(matrix, std=0.5 / matrix.shape[1] ** 0.5)

    def forward(self, features, tokens, steps):
        """Logits of each step (batch, time, vocab), for features and tokens of whole rows (batch, time). In step m a token is
        number m of a draft: the states of the m tokens before it are the layer's own."""
        of_target = self.features(self.features_norm(features))
        states, keys, rows, self.penalty = later(of_target, 1), [], [], 0.0
        embedded = self.embedding_norm(self.embedding(tokens))
        for _ in range(steps):
            states = self.run(embedded, states, keys)
            if self.state_loss > 0:
                self.penalty += self.state_loss * distance(states, of_target.detach())
            rows.append(functional.linear(self.norm(states), self.embedding.weight))
            states = later(states, 1)
        return rows

    def run(self, embedded, states, keys):
        """The layer's outputs in a step. Adds its keys and values to those of the steps before."""
        attention, shape = self.layer.attention, self.shape
        x = self.join(torch.cat((embedded, self.state_norm(states)), -1))
        y = self.layer.attention_norm(x)
        q, k, v = (matrix(y).unflatten(-1, (-1, shape.head_size)) for matrix in (attention.q, attention.k, attention.v))
        factors = self.factors[:x.shape[1]]
        keys.append((rotate(k, factors), v))
        x = x + attention.o(self.attend(rotate(q, factors), keys))
        return x + self.layer.feed_forward(self.layer.feed_forward_norm(x))

    def attend(self, q, keys):
        """What q (batch, time, heads, head size) reads. A draft of m tokens sees the first step's keys up to its beginning,
        and of each later step one key."""
        step, time, group = len(keys) - 1, q.shape[1], self.shape.heads // self.shape.kv_heads
        of_heads = [[x.repeat_interleave(group, 2) for x in pair] for pair in keys]
        first, values = (x.transpose(1, 2) for x in of_heads[0])
        q = q.transpose(1, 2) * self.shape.head_size ** -0.5
        seen = torch.ones(time, time, dtype=torch.bool).tril(-step)
        seen[:step, 0] = True  # places with no draft so long: their outputs are not used
        scores = [(q @ first.transpose(2, 3)).masked_fill(~seen, -torch.inf)]
        own = [[later(x, step - r).transpose(1, 2) for x in of_heads[r]] for r in range(1, step + 1)]
        scores += [(q * k).sum(-1, keepdim=True) for k, _ in own]
        weights = torch.cat(scores, -1).float().softmax(-1).to(values.dtype)
        mixed = weights[..., :time] @ values
        for r, (_, v) in enumerate(own):
            mixed = mixed + weights[..., time + r, None] * v
        return mixed.transpose(1, 2).flatten(2)

    def compare(self, rows, chosen, places, steps):
        states = rows.states[chosen]
        wanted = rows.target.classify(states[:, :, -1].float())
        given = self(states.flatten(-2).float(), rows.pool.rows[chosen], steps)
        return [q[:, places + step] for step, q in enumerate(given)], [wanted[:, places + step] for step in range(steps)]

    def words(self):
        shape = self.shape
        return [shape.vocab, self.target_dim, shape.dim, shape.heads, shape.kv_heads, shape.hidden, shape.context,
                len(self.layers), *self.layers]

    def write(self, path):
        weight_file.write_head(path, MAGIC, self.words(), self.parameters())


def main():
    parser = head.arguments(__doc__)
    parser.set_defaults(rows=4, places=512)
    parser.add_argument("--layers", default="2,3,4", help="layers of the target to read, the last one last (%(default)s)")
    parser.add_argument("--shape", default="128,1,4,2,256", help="dim,1,heads,kv_heads,hidden (%(default)s)")
    parser.add_argument("--steps", type=int, default=4, help="tokens to draft after each place (%(default)s)")
    parser.add_argument("--state-loss", type=float, default=0.0, help="weight of the second loss (%(default)s)")
    parser.add_argument("--start", type=pathlib.Path, help="a file that --out wrote with the same shape, to train it on")
    options = parser.parse_args()

    target = head.load_target(options)
    layers = [int(layer) for layer in options.layers.split(",")]
    eagle = Eagle(Shape.parse(options.shape), target.shape.dim, layers, options.state_loss)
    if options.start:
        weight_file.read_head(options.start, MAGIC, eagle.words(), eagle.parameters())
    parts = head.optimizers(eagle, [eagle.embedding.weight], options)
    head.run(eagle, target, layers, options.steps, parts, options, depths=4)
    eagle.write(options.out)


if __name__ == "__main__":
    main()
