#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mistakes that engines have made, as small engines: check_engine.py must convict each of them.

    mistakes.py                 convicts all, and prints after how many samples
    mistakes.py "u is always 0" prints what the runner says of one

The names, and where each was seen: examples/prove/field_bugs.md and engine_bugs.md. ENGINES has a name for each, an engine with the doors
that check_engine.py calls.
"""

import argparse
import math
import pathlib
import random
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_engine  # noqa: E402
import right_rules  # noqa: E402
from right_rules import draw, normalised, numbers_of, residual  # noqa: E402


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

def uncapped(case, u):
    w = [1]
    for p, q, x in zip(case.target, case.draft, case.tokens):
        w.append(w[-1] * p[x] / q[x])
    return judged_from_the_end(case, u, w)


def judged_from_the_end(case, u, w, replaced_by=None):
    if next(u) < w[case.gamma]:
        return case.gamma, draw(case.target[case.gamma], u)
    for i in reversed(range(case.gamma)):
        rest = residual(w[i], case.target[i], case.draft[i])
        if next(u) < right_rules.won(w[i], rest):
            return i, draw(rest if replaced_by is None else replaced_by(i), u)
    raise AssertionError("row 0 always stops")


def weight_forgotten(case, u):
    w = [1]
    for p, q, x in zip(case.target, case.draft, case.tokens):
        w.append(min(1, w[-1] * p[x] / q[x]))

    def plain(i):
        rest = residual(1, case.target[i], case.draft[i])
        return rest if any(rest) else case.target[i]
    return judged_from_the_end(case, u, w, plain)


def stops_at_first_failure(case, u):
    w, tau = [1], 0
    for p, q, x in zip(case.target, case.draft, case.tokens):
        w.append(min(1, w[-1] * p[x] / q[x]))
    while tau < case.gamma:
        i = tau + 1
        if not next(u) < (w[i] if i == case.gamma else right_rules.won(w[i], residual(w[i], case.target[i], case.draft[i]))):
            break
        tau = i
    rest = case.target[tau] if tau == case.gamma else residual(w[tau], case.target[tau], case.draft[tau])
    return tau, draw(rest if any(rest) else case.target[tau], u)


def product_of_numbers(case, u):
    w, product, tau = 1, 1, 0
    weights = [1]
    for i, x in enumerate(case.tokens):
        w, product = min(1, w * case.target[i][x] / case.draft[i][x]), product * next(u)
        weights.append(w)
        if product < w:
            tau = i + 1
    if tau == case.gamma:
        return tau, draw(case.target[tau], u)
    rest = residual(weights[tau], case.target[tau], case.draft[tau])
    return tau, draw(rest if any(rest) else case.target[tau], u)


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


# ---- Drafters, and what goes wrong around a text. cut(row): the row that the drafter should draw from and report

def cut(row):
    return normalised(cut_only(row))


def raw_q(row, _, u):
    return draw(cut(row), u), row


def cut_q(row, _, u):
    return draw(row, u), cut(row)


def accepts_impossible(u, p, q):
    return q == 0 or u * q < p


def drops_unlikely(row, _, u, p_min=0.3):
    x = draw(row, u)
    return (None if row[x] < p_min else x), row


def last_id_as_padding(row, i, u):
    return (draw(row, u), row) if i == 0 else (len(row) - 1 if row[-1] > 0 else None, row)


class NeighboursRow:
    """Reports the row of the draft before."""

    def __init__(self):
        self.last = None

    def __call__(self, row, _, u):
        x, reported = draw(row, u), self.last
        self.last = row
        return x, reported if reported is not None and reported[x] > 0 else row


class Reseeded:
    """The i-th token of each draft is drawn with one number."""

    def __init__(self):
        self.numbers = {}

    def __call__(self, row, i, u):
        return invert(row, self.numbers.setdefault(i, None) or self.numbers.__setitem__(i, next(u)) or self.numbers[i]), row


def restarted(case, seed):
    """The request is preempted after each second token, and its generator made from its seed again."""
    text = []
    while len(text) < case.max_new_tokens and not (text and text[-1] in case.stop_tokens):
        left = min(2, case.max_new_tokens - len(text))
        rest = types.SimpleNamespace(**{**vars(case), "prompt": [*case.prompt, *text], "max_new_tokens": left})
        rest.target_row, rest.draft_row = case.target_row, case.draft_row
        text += right_rules.generate(rest, seed)
    return text


def kept_after_the_end(case, seed):
    """Looks for a stop token at the end of each step only."""
    text, u = list(case.prompt), numbers_of(seed)
    end = len(text) + case.max_new_tokens
    while len(text) < end and not (len(text) > len(case.prompt) and text[-1] in case.stop_tokens):
        drafted = right_rules.Draft(case, text, min(case.gamma, end - len(text) - 1), u, right_rules.drawn)
        tau, y = right_rules.token(drafted, u)
        text += [*drafted.tokens[:tau], y]
    return text[len(case.prompt):]


def verify_with_rows_of_neighbours(cases, seeds):
    """The draft's rows of all requests in one list, and an offset that is one too small."""
    rows, verdicts = [], []
    for case, seed in zip(cases, seeds):
        before = rows[-1:]
        rows += list(case.draft)
        seen = types.SimpleNamespace(**vars(case))
        seen.draft = [*before, *case.draft][: case.gamma] if before else case.draft
        usable = all(x < len(q) and q[x] > 0 for x, q in zip(case.tokens, seen.draft))
        verdicts.append(right_rules.verify(seen if usable else case, seed))
    return verdicts


# ---- The engines

def judging(rule, *names):
    def verify(case, seed):
        return rule(case, numbers_of(seed))

    def verify_uniforms(case, uniforms):
        return rule(case, uniforms)
    return types.SimpleNamespace(RULES=list(names), NUMBERS="fractions", verify=verify, verify_uniforms=verify_uniforms)


def writing(drafter=lambda: right_rules.drawn, rule=right_rules.token):
    def generate(case, seed):
        return right_rules.generate(case, seed, rule, drafter())
    return types.SimpleNamespace(RULES=[], generate=generate)


ENGINES = {
    "raw q beside a processed draw": writing(lambda: raw_q),
    "a drawn token dropped for its probability": writing(lambda: drops_unlikely),
    "a sampler reseeded before each draft": writing(Reseeded),
    "q from the row of another request": writing(NeighboursRow),
    "noise shared by draft and replacement": judging(token_with(replacement=shared_noise), "token"),
    "one number for coin and replacement": judging(one_number, "token"),
    "u is always 0": judging(token_with(accepts=lambda u, p, q: p > 0), "token"),
    "the acceptance product is not capped": judging(uncapped, "block"),
    "p/(q + 1e-5)": judging(token_with(accepts=lambda u, p, q: u * (float(q) + 1e-5) < p), "token"),
    "the replacement from the next row": judging(token_with(replacement=next_row), "token"),
    "a residual without its last tile": judging(token_with(replacement=without_last_tile), "token"),
    "a miss is judged greedily": judging(miss_judged_greedily, "token"),
    "the bonus token from the draft's row": judging(token_with(bonus=bonus_from_draft), "token"),
    "lists subtracted by index": judging(token_with(replacement=subtracted_by_index), "token"),
    "relaxed acceptance": judging(relaxed, "token"),
    "a preempted rule forgets": judging(forgets, "greedy_block"),
    "q = 0 is accepted": writing(lambda: cut_q, token_with(accepts=accepts_impossible)),
    "-1 padding is verified": writing(lambda: last_id_as_padding),
    "rows cut, and not normalised": judging(cut_not_normalised, "token"),
    "a preempted generator starts again": types.SimpleNamespace(RULES=[], generate=restarted),
    "tokens after the end are kept": types.SimpleNamespace(RULES=[], generate=kept_after_the_end),
    # Near those of the gallery.
    "the replacement from the target's row": judging(token_with(replacement=lambda case, i, u: draw(case.target[i], u)), "token"),
    "q is taken for 1": judging(q_is_one, "token"),
    "the ratio upside down": judging(token_with(accepts=lambda u, p, q: u * p < q), "token"),
    "the weight is forgotten in the residual": judging(weight_forgotten, "block"),
    "a block that stops at the first failed coin": judging(stops_at_first_failure, "block"),
    "w is compared with a product of numbers": judging(product_of_numbers, "block"),
    "the last of equal tokens": judging(last_of_equals, "argmax"),
    "rejected siblings are forgotten": judging(elders_forgotten, "recursive_rejection"),
}

IN_BATCHES = types.SimpleNamespace(RULES=right_rules.RULES, verify_batch=verify_with_rows_of_neighbours)
FAILING = judging(fails_at_dead_ends, "token")  # "a rejected dead end fails the request"


def main(given):
    name = given[0] if given and given[0] in ENGINES else None
    options = check_engine.arguments([name or "all", *given[name is not None:]])
    vectors, free = check_engine.read_vectors(options.vectors), []
    if name:
        return check_engine.report(check_engine.Runner(vectors, ENGINES[name], options))
    print(f"{'mistake':<44}{'convicted in':>14}{'samples':>9}  in the case that convicts first")
    for name, engine in ENGINES.items():
        findings = list(check_engine.Runner(vectors, engine, options).findings())
        found = sorted((finding.samples, finding.label) for finding in findings if finding.status == "convicted")
        free += [] if found else [name]
        samples, label = found[0] if found else ("never", "")
        print(f"{name:<44}{f'{len(found)} of {len(findings)}':>14}{samples:>9}  {label}", flush=True)
    return 1 if free else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
