# SPDX-License-Identifier: MIT
"""Mistakes of rules, each a rule but for one thing: mistakes.py has their names. As in right_rules.py, u are uniform random numbers."""

import math

import right_rules
from right_rules import draw, normalised, residual


def invert(row, number):
    """The token where the cumulative sum of the row passes a number that is there already."""
    return draw(row, iter([number]))


# ---- Rules for lines: token verification, but for one thing

def token_with(accepts=lambda u, p, q: u * q < p, replacement=lambda case, i, u: draw(residual(1, case.target[i], case.draft[i]), u),
               bonus=lambda case, u: draw(case.target[case.gamma], u)):
    def rule(case, u):
        for i, x in enumerate(case.tokens):
            if not accepts(next(u), case.target[i][x], case.draft[i][x]):
                return i, replacement(case, i, u)
        return case.gamma, bonus(case, u)
    return rule


def next_row(case, i, u):
    rest = residual(1, case.target[i + 1], case.draft[i])
    return draw(rest if any(rest) else case.target[i], u)


def without_last_tile(case, i, u, tile=64):
    rest = residual(1, case.target[i], case.draft[i])
    begin = 0
    while begin + tile < len(rest):
        begin += tile
    rest = rest[:begin]
    return draw(rest if any(rest) else case.target[i], u)


def miss_judged_greedily(case, u):
    return right_rules.token(case, u) if next(u) < 0.5 else right_rules.argmax(case, u)


def bonus_from_draft(case, u):
    return draw(case.draft[case.gamma - 1] if case.gamma else case.target[0], u)


def subtracted_by_index(case, i, u):
    p, q = case.target[i], case.draft[i]
    q_list, rest = [b for b in q if b > 0], [0] * len(p)
    for k, x in enumerate(x for x, a in enumerate(p) if a > 0):
        rest[x] = max(0, p[x] - (q_list[k] if k < len(q_list) else 0))
    return draw(rest if any(rest) else p, u)


def relaxed(case, u):
    for i, x in enumerate(case.tokens):
        p, q = case.target[i], case.draft[i]
        if p[x] < math.exp(-1) * max(p) and not next(u) * q[x] < p[x]:
            return i, draw(residual(1, p, q), u)
    return case.gamma, draw(case.target[case.gamma], u)


def q_is_one(case, u):
    for i, x in enumerate(case.tokens):
        p = case.target[i]
        if not next(u) < p[x]:
            return i, draw([a if y != x else 0 for y, a in enumerate(p)], u)
    return case.gamma, draw(case.target[case.gamma], u)


def shared_noise(case, i, u):
    """The number that led to the drafted token, as its row tells."""
    q, x = case.draft[i], case.tokens[i]
    return invert(normalised(residual(1, case.target[i], q)), sum(q[:x]) + q[x] * next(u))


def one_number(case, u):
    for i, x in enumerate(case.tokens):
        p, q = case.target[i], case.draft[i]
        number = next(u)
        if not number * q[x] < p[x]:
            return i, invert(normalised(residual(1, p, q)), number)
    return case.gamma, draw(case.target[case.gamma], u)


def cut_not_normalised(case, u):
    for i, x in enumerate(case.tokens):
        p, q = cut_only(case.target[i]), case.draft[i]
        if not next(u) * q[x] < p[x]:
            rest = residual(1, p, q)
            return i, draw(rest if any(rest) else p, u)
    return case.gamma, draw(cut_only(case.target[case.gamma]), u)


def cut_only(row):
    """Without the tokens that are less than half as likely as the likeliest."""
    most = max(row)
    return [a if 2 * a >= most else 0 for a in row]


def fails_at_dead_ends(case, u):
    if not all(map(any, case.target)):
        raise RuntimeError("no token is allowed")
    return right_rules.token(case, u)


# ---- Other rules

def weights(case, cap=lambda w: min(1, w)):
    """w of block verification, after 0, 1, ... drafted tokens."""
    w = [1]
    for p, q, x in zip(case.target, case.draft, case.tokens):
        w.append(cap(w[-1] * p[x] / q[x]))
    return w


def rest_of(case, w, i):
    """What Y is drawn from after i tokens."""
    rest = case.target[i] if i == case.gamma else residual(w, case.target[i], case.draft[i])
    return rest if any(rest) else case.target[i]


def chance(case, w, i):
    return w[i] if i == case.gamma else right_rules.won(w[i], residual(w[i], case.target[i], case.draft[i]))


def from_the_end(case, u, w, w_of_rest):
    """Block verification, with these weights."""
    tau = next(i for i in reversed(range(case.gamma + 1)) if next(u) < chance(case, w, i))
    return tau, draw(rest_of(case, w_of_rest[tau], tau), u)


def uncapped(case, u):
    w = weights(case, cap=lambda w: w)
    return from_the_end(case, u, w, w)


def weight_forgotten(case, u):
    return from_the_end(case, u, weights(case), [1] * (case.gamma + 1))


def stops_at_first_failure(case, u):
    w, tau = weights(case), 0
    while tau < case.gamma and next(u) < chance(case, w, tau + 1):
        tau += 1
    return tau, draw(rest_of(case, w[tau], tau), u)


def product_of_numbers(case, u):
    w, product, tau = weights(case), 1, 0
    for i in range(1, case.gamma + 1):
        product *= next(u)
        if product < w[i]:
            tau = i
    return tau, draw(rest_of(case, w[tau], tau), u)


def forgets(case, u):
    return [right_rules.greedy_step(step, [], u)[0] for step in case.steps] or right_rules.greedy_block(case, u)


def last_of_equals(case, _):
    for i, row in enumerate(case.target):
        best = max(range(case.vocab_size), key=lambda x: (row[x], x))
        if i == case.gamma or best != case.tokens[i]:
            return i, best


def elders_forgotten(case, u):
    """Recursive rejection that does not take from the target what a rejected sibling has offered."""
    node = 0
    while True:
        for k in right_rules.children(case, node):
            p, x, q = case.target[node], case.tokens[k], case.draft[k]
            if next(u) * q[x] < p[x]:
                node = k + 1
                break
        else:
            siblings, p = right_rules.children(case, node), case.target[node]
            rest = residual(1, p, case.draft[siblings[-1]]) if siblings else p
            return right_rules.path_to(case, node), draw(rest if any(rest) else p, u)
