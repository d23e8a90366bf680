#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Judges drafts by the rules of the library: a line, a tree, a batch. Tells what the rules accept on average."""

import numpy
import specdec
import torch

target = torch.tensor([[0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.8, 0.1, 0.1]])  # a row for each drafted token, and one more
draft = torch.tensor([[0.3, 0.4, 0.3], [0.6, 0.3, 0.1]])                    # the rows that the tokens were drawn from
tokens = torch.tensor([1, 0])

verdict = specdec.verify("block", target, draft, tokens, seed=3)
print(verdict.accepted, "accepted, then token", verdict.token)
again = specdec.verify("block", target, draft, tokens, seed=3, offset=verdict.offset)  # the next random numbers
print(again.accepted, "accepted, then token", again.token)

# Rows of logits; tokens that were looked up, without probabilities.
logits = target.log()
print(specdec.verify("argmax", logits, None, tokens, seed=3, temperature=1.0))

# A tree: both tokens follow the context.
print(specdec.verify_tree("traversal", target, draft[[0, 0]], tokens, torch.tensor([-1, -1]), seed=3))

# Many drafts. The second has one token.
many = specdec.verify_batch("block", torch.stack([target, target]), torch.stack([draft, draft]),
                            numpy.array([[1, 0], [1, -1]]), seeds=[3, 4])
print(many.emitted)

# Greedy block verification remembers its text.
text = specdec.GreedyBlock()
verdict = text.verify(target, draft, tokens, seed=3)
print("the next draft has", text.min_draft_length, "tokens at least")

# What a rule accepts if every position has these two rows: the bounds of the expected number of tokens.
for rule in "token", "block", "greedy-block":
    lower, upper = specdec.expected_accepted(rule, target[0], draft[0], gamma=4)
    print(f"{rule}: {lower:.3f} to {upper:.3f}")
