#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains a head on a target's states that drafts tokens one after another: an MLP speculator (Wertheimer et al., 2024).

Its first state is made of what the target's layers returned for the last token that the target has taken in. Each token
turns a state into logits for the next token, and into the next state. The weights are the same at every depth of a draft
(as in Recurrent Drafter, Cheng et al., 2024). So a draft may have any length. head.py says how it learns.

The file that --out names is for the C++ backend. The words of its header are (weight_file.py) vocab, dim of the target, dim,
hidden, the number of the target's layers that are read, and the numbers of these layers. The matrices are in the order of
Speculator's parameters.
"""

from torch import nn
from torch.nn import functional

import weight_file
import head
from model import Norm

MAGIC = 0x63657073  # "spec"


class Speculator(head.Head):
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
        state = self.features(self.features_norm(features))
        rows = []
        for token in tokens:
            x = state + self.embedding(token)
            y = self.feed_forward_norm(x)
            x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
            rows.append(self.classifier(self.norm(x)))
            state = self.state(self.state_norm(x))
        return rows

    def write(self, path):
        weight_file.write_head(path, MAGIC, [*self.dimensions, len(self.layers), *self.layers], self.parameters())


def main():
    parser = head.arguments(__doc__)
    parser.add_argument("--layers", default="2,3,4", help="layers of the target to read, the last one last (%(default)s)")
    parser.add_argument("--dim", type=int, default=128, help="numbers of a state (%(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="numbers in the feed forward network (%(default)s)")
    parser.add_argument("--steps", type=int, default=4, help="tokens to draft after each place (%(default)s)")
    options = parser.parse_args()

    target = head.load_target(options)
    layers = [int(layer) for layer in options.layers.split(",")]
    speculator = Speculator(target.shape.vocab, target.shape.dim, options.dim, options.hidden, layers)
    parts = head.optimizers(speculator, [speculator.embedding.weight, speculator.classifier.weight], options)
    head.run(speculator, target, layers, options.steps, parts, options)
    speculator.write(options.out)


if __name__ == "__main__":
    main()
