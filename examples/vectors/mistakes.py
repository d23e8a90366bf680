#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mistakes that engines have made, as small engines: check_engine.py must convict each of them.

    mistakes.py                 convicts all, and prints after how many samples
    mistakes.py "u is always 0" prints what the runner says of one

The names, and where each was seen: examples/prove/field_bugs.md and engine_bugs.md. ENGINES has a name for each, an engine with the doors
that check_engine.py calls.
"""

import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_engine  # noqa: E402
import mistaken_rules as rules  # noqa: E402
import right_rules  # noqa: E402
from right_rules import draw, normalised, numbers_of  # noqa: E402


# ---- Drafters, and what goes wrong around a text. cut(row): the row that the drafter should draw from and report

def cut(row):
    return normalised(rules.cut_only(row))


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
        if i not in self.numbers:
            self.numbers[i] = next(u)
        return rules.invert(row, self.numbers[i]), row


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


def kept_in_the_cache(case, seed):
    """The target's cache keeps the first rejected token of each draft, and reads on behind it."""
    text, cache, u = list(case.prompt), list(case.prompt), numbers_of(seed)
    end = len(text) + case.max_new_tokens
    while True:
        drafted = right_rules.Draft(case, text, min(case.gamma, end - len(text) - 1), u, right_rules.drawn)
        drafted.target = [case.target_row([*cache, *drafted.tokens[:i]]) for i in range(drafted.gamma + 1)]
        tau, y = right_rules.token(drafted, u)
        cache += [*drafted.tokens[: tau + 1], y]
        for x in [*drafted.tokens[:tau], y]:
            text.append(x)
            if x in case.stop_tokens or len(text) == end:
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
    "noise shared by draft and replacement": judging(rules.token_with(replacement=rules.shared_noise), "token"),
    "one number for coin and replacement": judging(rules.one_number, "token"),
    "u is always 0": judging(rules.token_with(accepts=lambda u, p, q: p > 0), "token"),
    "the acceptance product is not capped": judging(rules.uncapped, "block"),
    "p/(q + 1e-5)": judging(rules.token_with(accepts=lambda u, p, q: u * (float(q) + 1e-5) < p), "token"),
    "the replacement from the next row": judging(rules.token_with(replacement=rules.next_row), "token"),
    "a residual without its last tile": judging(rules.token_with(replacement=rules.without_last_tile), "token"),
    "a miss is judged greedily": judging(rules.miss_judged_greedily, "token"),
    "the bonus token from the draft's row": judging(rules.token_with(bonus=rules.bonus_from_draft), "token"),
    "lists subtracted by index": judging(rules.token_with(replacement=rules.subtracted_by_index), "token"),
    "relaxed acceptance": judging(rules.relaxed, "token"),
    "a preempted rule forgets": judging(rules.forgets, "greedy_block"),
    "q = 0 is accepted": writing(lambda: cut_q, rules.token_with(accepts=accepts_impossible)),
    "-1 padding is verified": writing(lambda: last_id_as_padding),
    "rows cut, and not normalised": judging(rules.cut_not_normalised, "token"),
    "a rejected token stays in the cache": types.SimpleNamespace(RULES=[], generate=kept_in_the_cache),
    "a preempted generator starts again": types.SimpleNamespace(RULES=[], generate=restarted),
    "tokens after the end are kept": types.SimpleNamespace(RULES=[], generate=kept_after_the_end),
    # Near those of the gallery.
    "the replacement from the target's row": judging(rules.token_with(replacement=lambda case, i, u: draw(case.target[i], u)), "token"),
    "q is taken for 1": judging(rules.q_is_one, "token"),
    "the ratio upside down": judging(rules.token_with(accepts=lambda u, p, q: u * p < q), "token"),
    "the weight is forgotten in the residual": judging(rules.weight_forgotten, "block"),
    "a block that stops at the first failed coin": judging(rules.stops_at_first_failure, "block"),
    "w is compared with a product of numbers": judging(rules.product_of_numbers, "block"),
    "the last of equal tokens": judging(rules.last_of_equals, "argmax"),
    "rejected siblings are forgotten": judging(rules.elders_forgotten, "recursive_rejection"),
}

IN_BATCHES = types.SimpleNamespace(RULES=right_rules.RULES, verify_batch=verify_with_rows_of_neighbours)
FAILING = judging(rules.fails_at_dead_ends, "token")  # "a rejected dead end fails the request"


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
