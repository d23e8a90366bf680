# SPDX-License-Identifier: MIT
"""The rejection sampler of speculative decoding in PyTorch, for a batch of drafts, as engines in Python have it; and the
mistakes that engines have made, one keyword each.

Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding", ICML 2023, Algorithm 1.
"""

import torch

# What random numbers are used for. Each use of a seed has numbers of its own.
COIN, REPLACEMENT, DRAFT = 0, 1, 2


def random_numbers(seed, use, position=0):
    return torch.Generator().manual_seed(16 * seed + 4 * position + use)


def uniform(shape, seed):
    return torch.rand(shape, generator=random_numbers(seed, COIN), dtype=torch.float64)


def always_zero(shape, seed):
    return torch.zeros(shape, dtype=torch.float64)


def draw(rows, generator):
    """One token of each row, [B, V]: the first to arrive, if token x arrives after an exponential time of rate row[x]."""
    # In float32 one time in 2^24 would be 0. Then 0/0 of a token with probability 0 would win.
    times = -torch.log1p(-torch.rand(rows.shape, generator=generator, dtype=torch.float64))
    return (rows / times).argmax(-1)


def rejection_sampler(target, draft, tokens, seed, *, coins=uniform, added_to_q=0.0, replacement_row=0,
                      bonus_from="target", replacement_noise=REPLACEMENT):
    """target [B, n + 1, V], draft [B, n, V], tokens [B, n] -> how many tokens are accepted [B], the token after them [B]."""
    target, draft, tokens = torch.as_tensor(target), torch.as_tensor(draft), torch.as_tensor(tokens)
    n = tokens.shape[1]
    p = target[:, :n].gather(2, tokens[..., None])[..., 0]
    q = draft.gather(2, tokens[..., None])[..., 0] + added_to_q
    accepted = (coins(tokens.shape, seed) < p / q).long().cumprod(1).sum(1)

    left = (target[:, replacement_row : n + replacement_row] - draft).clamp(min=0)
    replacement = left / left.sum(-1, keepdim=True).clamp(min=1e-30)
    bonus = target[:, n:] if bonus_from == "target" else draft[:, n - 1 :]
    row = torch.cat((replacement, bonus), 1)[torch.arange(len(tokens)), accepted]

    # Numbers of their own for each position, as if a position were judged alone.
    token = torch.stack([draw(row, random_numbers(seed, replacement_noise, i)) for i in range(n + 1)], 1)
    return accepted, token[torch.arange(len(tokens)), accepted]


def draw_draft(rows, position, seed):
    """Draws token `position` of each draft."""
    return draw(torch.as_tensor(rows), random_numbers(seed, DRAFT, position))
