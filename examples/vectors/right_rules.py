# SPDX-License-Identifier: MIT
"""The rules of the papers, written down plainly: an engine that check_engine.py acquits.

    check_engine.py right_rules.py
    check_engine.py right_rules.py --mode exact        in fractions: each law of vectors.json, to the last digit

A rule compares uniform random numbers u with `u < ...`. Rows are floats or Fractions. K-SEQ finds its rho by bisection, in floats.
"""

import itertools
import math
import random

NUMBERS = "fractions"  # the rows in check_engine.py --mode exact


def draw(row, u):
    """A token x with probability row[x] / sum(row)."""
    number, passed = next(u) * sum(row), 0
    for token, weight in enumerate(row):
        if weight > 0:
            passed, last = passed + weight, token
            if number < passed:
                return token
    return last  # by rounding


def residual(w, p, q):
    """(w p - q)+. Beyond the draft's vocabulary q is 0."""
    return [max(w * a - b, 0) if a else 0 for a, b in itertools.zip_longest(p, q[: len(p)], fillvalue=0)]


def normalised(row):
    total = sum(row)
    return [x / total if x else 0 for x in row] if total else row


# ---- Rules for lines

def token(case, u):
    """Leviathan, Kalman, Matias, arXiv:2211.17192, Algorithm 1; Chen et al., arXiv:2302.01318."""
    for i, x in enumerate(case.tokens):
        p, q = case.target[i], case.draft[i]
        if not next(u) * q[x] < p[x]:
            return i, draw(residual(1, p, q), u)
    return case.gamma, draw(case.target[case.gamma], u)


def won(w, rest):
    """The chance h that a draft stops where its weight is w and its residual is `rest`."""
    mass = sum(rest)
    return 1 if w >= 1 else mass / (mass + 1 - w)


def block(case, u):
    """Sun et al., "Block Verification Accelerates Speculative Decoding", arXiv:2403.10444, Algorithm 2."""
    w = [1]
    for i, x in enumerate(case.tokens):
        w.append(min(1, w[i] * case.target[i][x] / case.draft[i][x]))
    if next(u) < w[case.gamma]:
        return case.gamma, draw(case.target[case.gamma], u)
    for i in reversed(range(case.gamma)):
        rest = residual(w[i], case.target[i], case.draft[i])
        if next(u) < won(w[i], rest):
            return i, draw(rest, u)


def greedy_block(case, u):
    """The same paper, Algorithms 4 to 6: one step, or two with what the first one leaves to the second."""
    if not case.steps:
        return greedy_step(case, [], u)[0]
    verdicts, live = [], []
    for step in case.steps:
        verdict, live = greedy_step(step, live, u)
        verdicts.append(verdict)
    return verdicts


def greedy_step(case, live, u):
    """live: (r, n) for each modification, the oldest first. The target of the next n tokens is t = (t' - r q)+, normalised."""
    g, at = 1, []
    for p, q, x in zip(case.target, case.draft, case.tokens):
        rows = modified(p, q, live)
        at.append((g, rows, live))
        g, live = g * rows[-1][x] / q[x], moved(live, rows, q, x)
    if next(u) < min(1, g):
        return (case.gamma, draw(case.target[case.gamma], u)), live
    for i in reversed(range(case.gamma)):
        (g, rows, live), q = at[i], case.draft[i]
        rest = residual(g, rows[-1], q)
        if next(u) < won(g, rest):
            y = draw(rest, u)
            q_of_y = q[y] if y < len(q) else 0
            return (i, y), moved(live, rows, q, y) + owed(q_of_y / (g * rows[-1][y]), case.gamma - i - 1)


def modified(p, q, live):
    """The target's row under the first 0, 1, ... modifications."""
    rows = [p]
    for r, _ in live:
        rows.append(normalised(residual(1, rows[-1], [r * b for b in q])))
    return rows


def moved(live, rows, q, x):
    """The modifications after token x. Where x is ruled out nothing follows."""
    if not rows[-1][x]:
        return []
    return [kept for (r, n), row in zip(live, rows) for kept in owed(r * (q[x] if x < len(q) else 0) / row[x], n - 1)]


def owed(r, n):
    return [(r, n)] if r > 0 and n > 0 else []


def argmax(case, _):
    """Temperature 0. Of equal probabilities the first id."""
    for i, row in enumerate(case.target):
        best = max(range(case.vocab_size), key=row.__getitem__)
        if i == case.gamma or best != case.tokens[i]:
            return i, best


def match(case, u):
    """The target draws its own tokens, and the draft is accepted as far as it guessed them. It has no paper."""
    for i, row in enumerate(case.target):
        y = draw(row, u)
        if i == case.gamma or y != case.tokens[i]:
            return i, y


def keyed(case, _):
    """Sample-and-match with numbers that belong to places in the text (arXiv:2408.07978). Which numbers: examples/prove/vectors.md."""
    for i, row in enumerate(case.target):
        key = bits(bits(case.seed) + case.position + i)
        y = min((-math.log1p(-(bits(key, y) + 0.5) / 2**64) / float(p), y) for y, p in enumerate(row) if p > 0)[1]
        if i == case.gamma or y != case.tokens[i]:
            return i, y


def bits(seed, number=0):
    """Output `number` of SplitMix64 (Steele, Lea, Flood 2014)."""
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


# ---- Rules for trees. Node 0 is the context, node k + 1 is tokens[k]

def children(case, node):
    return [k for k, parent in enumerate(case.parents) if parent == node - 1]


def path_to(case, node):
    return [] if node == 0 else [*path_to(case, case.parents[node - 1] + 1), node - 1]


def recursive_rejection(case, u):
    """Miao et al., "SpecInfer", arXiv:2305.09781, Algorithm 2; Yang et al., arXiv:2401.06706."""
    node, p = 0, case.target[0]
    while True:
        for k in children(case, node):
            x, q = case.tokens[k], case.draft[k]
            if next(u) * q[x] < p[x]:
                node, p = k + 1, case.target[k + 1]
                break
            p = normalised(residual(1, p, q))
        else:
            return path_to(case, node), draw(p, u)


def traversal(case, u):
    """Weng et al., "Traversal Verification for Speculative Tree Decoding", arXiv:2505.12398, Algorithm 2."""
    def verify(node, w):
        p = case.target[node]
        for k in children(case, node):
            x, q = case.tokens[k], case.draft[k]
            found = verify(k + 1, min(1, w * p[x] / q[x]))
            if found:
                return found
            rest = residual(w, p, q)
            mass = sum(rest)
            if not mass:
                return None
            p, w = normalised(rest), mass / (mass + 1 - w)
        return (path_to(case, node), draw(p, u)) if next(u) < w else None

    return verify(0, 1) or ([], draw(case.target[0], u))  # by rounding


def k_seq(case, u):
    """Sun et al., "SpecTr", arXiv:2310.15141, Algorithm 2, at each level."""
    node = 0
    while True:
        siblings, p = children(case, node), case.target[node]
        if not siblings:
            return path_to(case, node), draw(p, u)
        q = case.draft[siblings[0]]
        rho = rho_of(p, q, len(siblings))
        for k in siblings:
            x = case.tokens[k]
            if next(u) * (rho * q[x]) < p[x]:
                node = k + 1
                break
        else:
            return path_to(case, node), draw(residual(1, p, [rho * b for b in q]), u)


def rho_of(p, q, siblings):
    """The least rho of [1, K] with 1 - (1 - beta)^K <= rho beta, where beta = sum min(p / rho, q)."""
    low, high = 1.0, float(siblings)
    while siblings > 1 and high - low > 1e-15 * high:
        rho = (low + high) / 2
        beta = float(sum(min(a / rho, b) for a, b in zip(p, q) if a and b))
        if 1 - (1 - beta) ** siblings <= rho * beta:
            high = rho
        else:
            low = rho
    return high


def trunk_and_spares(case, u, rule=block):
    """A rule for lines judges the trunk, the path of first children. If it stops with the token of another child, that one's trunk is
    judged next, as a new draft. Of the library."""
    node = 0
    while True:
        trunk = [node]
        while children(case, trunk[-1]):
            trunk.append(children(case, trunk[-1])[0] + 1)
        tau, y = rule(Line(case, trunk), u)
        node = trunk[tau]
        spare = [k + 1 for k in children(case, node)[1:] if case.tokens[k] == y]
        if not spare:
            return path_to(case, node), y
        node = spare[0]


class Line:
    """The draft along some nodes of a tree."""

    def __init__(self, case, nodes):
        self.gamma, self.vocab_size = len(nodes) - 1, case.vocab_size
        self.target = [case.target[node] for node in nodes]
        self.draft = [case.draft[node - 1] for node in nodes[1:]]
        self.tokens = [case.tokens[node - 1] for node in nodes[1:]]


# ---- The doors of an engine

RULE = {rule.__name__: rule for rule in (token, block, greedy_block, argmax, match, keyed, recursive_rejection, traversal, k_seq,
                                         trunk_and_spares)}
RULES = list(RULE)


def verify_uniforms(case, uniforms):
    return RULE[case.rule](case, uniforms)


def numbers_of(seed):
    return iter(random.Random(seed).random, None)


def verify(case, seed):
    return verify_uniforms(case, numbers_of(seed))


def verify_batch(cases, seeds):
    return [verify(case, seed) for case, seed in zip(cases, seeds)]


class Draft:
    """A line that was drafted, with its rows."""

    def __init__(self, case, text, gamma, u, drafter):
        self.vocab_size, self.tokens, self.draft = case.vocab_size, [], []
        while len(self.tokens) < gamma:
            x, row = drafter(case.draft_row([*text, *self.tokens]), len(self.tokens), u)
            if x is None:
                break
            self.tokens.append(x)
            self.draft.append(row)
        self.gamma = len(self.tokens)
        self.target = [case.target_row([*text, *self.tokens[:i]]) for i in range(self.gamma + 1)]


def drawn(row, _, u):
    return draw(row, u), row


def generate(case, seed, rule=block, drafter=drawn):
    """A whole text: draft, verify, keep what was accepted, until a stop token or the limit."""
    text, u = list(case.prompt), numbers_of(seed)
    end = len(text) + case.max_new_tokens
    while True:
        drafted = Draft(case, text, min(case.gamma, end - len(text) - 1), u, drafter)
        tau, y = rule(drafted, u)
        for x in [*drafted.tokens[:tau], y]:
            text.append(x)
            if x in case.stop_tokens or len(text) == end:
                return text[len(case.prompt):]
