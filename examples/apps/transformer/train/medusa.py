#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains heads on a target's last state that draft several tokens, each head for one place: Medusa (Cai et al., 2024).

Head k adds a residual block of low rank to the state of the last token that the target has taken in, and the target's own
norm and classifier make logits of the sum. Beside the heads stands a Markov term: the logits of a place get a term of rank
--markov that follows from the token before this place. head.py says how they learn.

The file that --out names is for the C++ backend. The words of its header are (weight_file.py) vocab, dim of the target, heads,
hidden, and the rank of the Markov term, 0 if there is none. The matrices are in the order of Medusa's parameters.
"""

import torch
from torch import nn
from torch.nn import functional

import weight_file
import head
from model import Norm

MAGIC = 0x7564656D  # "medu"


class Medusa(head.Head):
    def __init__(self, target, heads, hidden, markov):
        super().__init__()
        vocab, dim = target.shape.vocab, target.shape.dim
        self.dimensions = vocab, dim, heads, hidden, markov
        self.classify = target.classify  # a function: the target's parameters are not the head's
        self.norm = Norm(dim)
        self.down = nn.Linear(dim, heads * hidden, bias=False)
        self.up = nn.ModuleList(nn.Linear(hidden, dim, bias=False) for _ in range(heads))
        self.tables = []
        if markov > 0:
            self.before, self.after = nn.Embedding(vocab, markov), nn.Linear(markov, vocab, bias=False)
            self.tables = [self.before.weight, self.after.weight]
            nn.init.normal_(self.before.weight, std=0.5)
            nn.init.zeros_(self.after.weight)
        # At first every head is the target's own output, as in the paper.
        for up in self.up:
            nn.init.zeros_(up.weight)

    def forward(self, features, tokens):
        inner = functional.silu(self.down(self.norm(features))).chunk(len(self.up), -1)
        rows = []
        for up, part, token in zip(self.up, inner, tokens):
            logits = self.classify(features + up(part))
            rows.append(logits + self.after(self.before(token)) if self.tables else logits)
        return rows

    def write(self, path):
        weight_file.write_head(path, MAGIC, self.dimensions, self.parameters())


def main():
    parser = head.arguments(__doc__)
    parser.add_argument("--heads", type=int, default=4, help="heads, each for one place (%(default)s)")
    parser.add_argument("--hidden", type=int, default=48, help="numbers in the block of a head (%(default)s)")
    parser.add_argument("--markov", type=int, default=16, help="rank of the Markov term, 0 for none (%(default)s)")
    options = parser.parse_args()

    target = head.load_target(options)
    medusa = Medusa(target, options.heads, options.hidden, options.markov)
    parts = head.optimizers(medusa, medusa.tables, options)
    head.run(medusa, target, [target.shape.layers], options.heads, parts, options)
    medusa.write(options.out)


if __name__ == "__main__":
    main()
