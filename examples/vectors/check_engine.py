#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds an engine's verification of drafts to the exact laws of vectors.json. See examples/prove/check_engine.md of the library specdec.

    check_engine.py my_engine.py                    samples each case, and stops a case as soon as it convicts
    check_engine.py my_engine.py --mode exact       hands in the random numbers, and so computes the engine's law
    check_engine.py my_engine.py --mode batched     several cases in one call, each held to its own law

Copy this file and vectors.json into your tree: Python 3.9 is enough, and with numpy rows are float32 arrays. my_engine.py has
RULES = ["token", ...] and verify(case, seed) -> (tau, token), for a tree (path, token). It may have verify_uniforms(case, uniforms) for the
exact mode, verify_batch(cases, seeds) for the batched one, generate(case, seed) -> tokens for whole texts. NotImplementedError: the
engine does not take this case. Ends with 0 if all are acquitted, 1 if one is convicted, 2 for wrong usage or a broken engine.
"""

import argparse
import collections
import copy
import heapq
import importlib.util
import itertools
import json
import math
import operator
import pathlib
import random
import sys
import traceback
from fractions import Fraction

try:
    import numpy
except ImportError:
    numpy = None

RULES_FOR_ANY = "any", "token", "block", "match"  # lossless rules for lines without a memory
CONCENTRATIONS = 2.0, 16.0, 128.0, 1024.0  # of the gamblers: see Seat
IMPOSSIBLE = 1e-12  # in the exact mode: an outcome that the law rules out convicts if it is likelier
AFTER_CONVICTION = 500  # more samples: they show what the engine does, and which mistake does it
Finding = collections.namedtuple("Finding", "rule label status samples words fits", defaults=[0, (), {}])


class Usage(Exception):
    """The runner was called wrongly, or its files do not fit."""


class Broken(Exception):
    """The engine raised an exception, or returned what is no outcome."""


# ---- Cases

class Case:
    """A case as the engine gets it. Rows of `target` and `draft` are probabilities: float32 arrays if numpy is there, else tuples of
    floats, or of Fractions. target[i] stands after i drafted tokens; in a tree target[0] after the context, target[k + 1] after tokens[k].
    chosen[k]: tokens[k] was not drawn, and draft[k] is one-hot. A row of zeros is a dead end. A case may have `steps` in place of rows."""

    def __init__(self, given, rule=None, fractions=False):
        self.id, self.rule, self.shows, self.vocab_size = given["id"], rule or given["rule"], given["shows"], given["vocab_size"]
        self.draft_vocab_size = given.get("draft_vocab_size", self.vocab_size)
        for name in "tokens", "parents", "seed", "position", "prompt", "max_new_tokens", "stop_tokens":
            setattr(self, name, frozen(given.get(name)))
        self.is_drawn_here = given["rule"] == "any"
        self.steps = tuple(Case({**given, **step, "steps": None}, rule, fractions) for step in given.get("steps") or ())
        if self.steps:
            return
        target, draft = given["target"], given.get("draft", [None] * len(self.tokens or []))
        if self.rule == "text":  # tables: one row, or one for each last token, or for each two
            self.orders, target, draft = (target["order"], draft["order"]), target["rows"], draft["rows"]
        self.gamma, self.chosen = given.get("gamma", len(draft)), tuple(row is None for row in draft)
        draft = [{"ids": [self.tokens[k]], "weights": [1]} if row is None else row for k, row in enumerate(draft)]
        self.target_weights = tuple(dense(row, self.vocab_size) for row in target)
        self.draft_weights = tuple(dense(row, self.draft_vocab_size) for row in draft)
        share = Fraction if fractions else operator.truediv
        self.target, self.draft = (rows_of(weights, size, lambda w, total: w and share(w, total), fractions) for weights, size in (
            (self.target_weights, self.vocab_size), (self.draft_weights, self.draft_vocab_size)))

    target_logits = property(lambda self: rows_of(self.target_weights, self.vocab_size, logit))
    draft_logits = property(lambda self: rows_of(self.draft_weights, self.draft_vocab_size, logit))

    def target_row(self, text):
        """Of a case for texts: the row after the prompt and all tokens that were written or drafted so far."""
        return self.target[self.place(text, self.orders[0])]

    def draft_row(self, text):
        return self.draft[self.place(text, self.orders[1])]

    def place(self, text, order):
        return sum(text[-k] * self.vocab_size ** (k - 1) for k in range(1, order + 1))


def dense(row, size):
    if isinstance(row, list):
        return tuple(row)
    weights = dict(zip(row["ids"], row["weights"]))
    return tuple(weights.get(token, 0) for token in range(size))


def logit(weight, _):
    return math.log(weight) if weight else -math.inf


def rows_of(weights, size, entry, plain=False):
    rows = tuple(tuple(entry(w, total) for w in row) for row, total in zip(weights, map(sum, weights)))
    if plain or numpy is None:
        return rows
    array = numpy.array(rows, numpy.float32).reshape(len(rows), size)
    array.flags.writeable = False
    return array


def read_vectors(path):
    """The file, with its cases by id, and laws as {outcome: probability}."""
    def law(pairs, number):
        return {frozen(outcome): number(p) for outcome, p in pairs}

    try:
        read = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Usage(f"cannot read {path}: {error}") from None
    found = read.get("format"), read.get("version")
    if found != ("specdec-vectors", 1):
        raise Usage(f"{path} has format and version {found}, and this runner reads ('specdec-vectors', 1)")
    read["cases"] = {case["id"]: {**case, "law": law(case["law"], Fraction)} for case in read["cases"]}
    for case in read["cases"].values():
        if sum(case["law"].values()) != 1:
            raise Usage(f"{path} is damaged: the law of {case['id']} does not sum to 1")
    for mistake in read["mistakes"]:
        mistake["laws"] = {name: law(pairs, float) for name, pairs in mistake["laws"].items()}
    return read


def frozen(value):
    return tuple(map(frozen, value)) if isinstance(value, list) else value


# ---- What an engine returns

def called(door, *given):
    try:
        return door(*given)
    except (Broken, NotImplementedError):
        raise
    except Exception as error:
        raise Broken(f"{door.__name__} raised {type(error).__name__}: {error} ({place_of(error)})")


def place_of(error):
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{pathlib.Path(where.filename).name}:{where.lineno}"


def whole(value, name, size):
    try:
        number = operator.index(value)
    except TypeError:
        raise Broken(f"{name} is {value!r}, which is no integer") from None
    if not 0 <= number < size:
        raise Broken(f"{name} is {number}, outside 0..{size - 1}")
    return number


def parts(answer, expected, count=None):
    try:
        found = list(answer)
    except TypeError:
        found = None
    if found is None or (count is not None and len(found) != count):
        raise Broken(f"the answer is {answer!r}, expected {expected}")
    return found


def outcome_of(case, answer):
    """An outcome as laws have it, from what the engine returned."""
    if case.rule == "text":
        return tuple(whole(x, "a token of the text", case.vocab_size) for x in parts(answer, "the tokens of a text"))
    if case.steps:
        return tuple(map(outcome_of, case.steps, parts(answer, f"{len(case.steps)} verdicts", len(case.steps))))
    first, token = parts(answer, "(tau, token)" if case.parents is None else "(path, token)", 2)
    token = whole(token, "token", case.vocab_size)
    if case.parents is None:
        return whole(first, "tau", case.gamma + 1), token
    path = tuple(whole(k, "an index of the path", case.gamma) for k in parts(first, "a path of indices"))
    if any(case.parents[k] != above for above, k in zip((-1, *path), path)):
        raise Broken(f"{list(path)} is no path from the context down: parents is {list(case.parents)}")
    return path, token


def lines(case):
    """(a case with tokens, its probability). If the runner draws the tokens: all that may come."""
    for line in itertools.product(*map(support, case.draft_weights)) if case.is_drawn_here else [None]:
        drawn = copy.copy(case)
        drawn.tokens = case.tokens if line is None else tuple(token for token, _ in line)
        yield drawn, 1 if line is None else math.prod(p for _, p in line)


def filled(drawn, outcome):
    """(outcome, probability). If the runner drew the tokens, what was emitted is filled up from the target's rows: the law of the gamma + 1
    tokens is then the target's, whatever the rule."""
    if not drawn.is_drawn_here:
        return [(outcome, 1)]
    tau, token = outcome
    return [((*drawn.tokens[:tau], token, *(x for x, _ in rest)), math.prod(p for _, p in rest))
            for rest in itertools.product(*map(support, drawn.target_weights[tau + 1:]))]


def support(weights):
    return [(token, Fraction(weight, sum(weights))) for token, weight in enumerate(weights) if weight]


def pick(weights, source):
    return source.choices(range(len(weights)), weights)[0]


def views(case):
    """(name, function): what is bet on. The outcome, and parts of it that take few values: they make a bias plain sooner."""
    everything = operator.itemgetter(slice(None))
    if case.rule == "text" or case.is_drawn_here:
        return [("tokens", everything), *((name, operator.itemgetter(slice(*ends))) for name, *ends in (
            ("first token", 1), ("first two tokens", 2), ("last token", -1, None)))]
    names = ("first verdict", "second verdict") if case.steps else ("tau" if case.parents is None else "path", "token")
    return [(f"({', '.join(names)})", everything)] + [(name, operator.itemgetter(i)) for i, name in enumerate(names)]


# ---- Bets: the sampled and the batched mode

class View:
    """Bets on a part of the outcome. The gambler of concentration A begins with A imagined samples that have the law, and predicts by them
    and by what has come (a Dirichlet prior): a small A learns fast, a large one finds small biases."""

    def __init__(self, name, part, law):
        self.name, self.part, self.law, self.seen, self.samples = name, part, collections.defaultdict(float), collections.Counter(), 0
        for outcome, p in law.items():
            self.law[part(outcome)] += float(p)
        self.wealth = [0.0] * len(CONCENTRATIONS)  # logarithms: a gambler that loses for long would have 0

    def add(self, outcome, bets=True):
        value = self.part(outcome)
        p, came, before = self.law.get(value, 0.0), self.seen[value], self.samples
        if bets:
            self.wealth = [w + math.log((came + a * p) / ((before + a) * p)) if p else math.inf
                           for w, a in zip(self.wealth, CONCENTRATIONS)]
        self.seen[value] += 1
        self.samples += 1

    def surprises(self):
        """(how far above what is expected in standard deviations, how often it came, in words)"""
        for value in {*self.seen, *self.law}:
            came, expected = self.seen[value], self.samples * self.law.get(value, 0.0)
            words = f"{self.name} = {json.dumps(value)} came {came} times in {self.samples}"
            yield ((came - expected) / math.sqrt(expected), came, f"{words}, expected {expected:.1f}") if expected else (
                math.inf, came, f"{words}, which the law rules out")


class Seat:
    """A case in one place of a call, and bets against its law. If the law is right, their wealth has mean 1 at any time, and ever reaches
    x with probability 1/x at most (Ville 1939): so one may stop as soon as it convicts. `cases`: how many are judged."""

    def __init__(self, case, law, bound, samples, cases=1):
        self.case, self.bound, self.log_wealth, self.convicted_at, self.cases = case, math.log(bound), 0.0, None, cases
        self.limit = samples if len(law) > 1 else min(samples, 64)  # an outcome that is certain comes at once, or not at all
        self.views = [View(*view, law) for view in views(case)]

    def add(self, outcome):
        for view in self.views:
            view.add(outcome, bets=not self.convicted_at)
        if not self.convicted_at:
            each = [w for view in self.views for w in view.wealth]
            most = max(each)
            self.log_wealth = most if most == math.inf else most + math.log(sum(math.exp(w - most) for w in each) / len(each))
            if self.log_wealth >= self.bound:
                self.convicted_at = self.views[0].samples
                self.limit = self.convicted_at + min(self.limit, AFTER_CONVICTION)

    def is_done(self):
        return self.views[0].samples >= self.limit

    def finding(self, label, mistakes):
        fits = {mistake["name"]: self.may_be(law) for mistake, law in laws_of(mistakes, self.case)}
        if not self.convicted_at:
            return Finding(self.case.rule, label, "acquitted", self.views[0].samples, (), fits)
        by = "an outcome that the law rules out" if math.isinf(self.log_wealth) else f"a wealth of 10^{self.log_wealth / math.log(10):.1f}"
        often, rarely = (f([s for view in self.views for s in view.surprises()]) for f in (max, min))
        return Finding(self.case.rule, label, "convicted", self.convicted_at, [
            *shown(self.case), f"convicted after {self.convicted_at} samples, by {by}", f"too often: {often[2]}",
            *([f"too rarely: {rarely[2]}"] if rarely[0] < 0 else []), *in_words(fits)], fits)

    def may_be(self, law):
        """Whether bets against this law would have won little from the samples that came. What they win does not depend on the order. In
        all cases together the true mistake is ruled out with probability 1/5 at most."""
        seen, n = self.views[0].seen, self.views[0].samples
        return all(law.get(outcome) for outcome in seen) and all(
            math.lgamma(a) - math.lgamma(n + a) + sum(
                math.lgamma(k + a * law[outcome]) - math.lgamma(a * law[outcome]) - k * math.log(law[outcome]) for outcome, k in seen.items())
            < math.log(20 * self.cases) for a in CONCENTRATIONS)


def laws_of(mistakes, case):
    return [] if case.is_drawn_here else [(mistake, mistake["laws"][case.id]) for mistake in mistakes if case.id in mistake["laws"]]


def shown(case):
    """What a case is, and its rows if they are short."""
    rows = [] if case.steps or case.rule == "text" or case.vocab_size > 8 else [
        f"weights of the rows: target {json.dumps(case.target_weights)}, draft {json.dumps(case.draft_weights)}"
        + ("" if case.is_drawn_here else f", tokens {json.dumps(case.tokens)}")]
    return [f"it shows: {case.shows}", *rows]


def in_words(fits):
    names = [name for name, fit in fits.items() if fit]
    return [f"this is the law of a known mistake: {', or: '.join(names)}"] if names else []


# ---- The exact mode: the runner hands in random numbers of which nothing is known yet

class Cut(BaseException):
    """This path is not followed any further. It passes through the engine."""


class Path:
    """One way through the engine's comparisons. New ones take the rarer side first: so a loop that repeats by chance ends, too."""

    def __init__(self, decisions):
        self.given, self.taken, self.mass, self.others = decisions, [], Fraction(1), []

    def choose(self, p):
        """Whether something of probability p happens. With p = 0 it happens only if a number is equal to a threshold."""
        if len(self.taken) < len(self.given):
            side, before = self.given[len(self.taken)]
            if before != p:
                raise Broken("the engine does other things with the same random numbers")
        else:
            if 0 < self.mass < 1e-12 or len(self.taken) > 2000:
                raise Cut
            side = 0 < p <= 0.5
            if self.mass:
                self.others.append((self.mass * (1 - p if side else p), (*self.taken, (not side, p))))
        self.mass *= p if side else 1 - p
        self.taken.append((side, p))
        return side

    def is_below(self, known, bound, or_equal):
        """Whether a number u is below a bound. Of u is known that it is in [low, high), and whether it may be low itself."""
        low, high, has_low = known
        if low == high:
            return low <= bound if or_equal else low < bound
        if bound >= high or bound < low or (bound == low and not (or_equal and has_low)):
            return bound >= high
        side = self.choose((bound - low) / (high - low))
        known[:] = (low, bound, has_low) if side else (bound, high, not or_equal)
        return side

    def numbers(self):
        while True:
            yield Number(self, [Fraction(0), Fraction(1), True])


class Number:
    """scale * u + shift of an unknown u. A comparison with a constant takes both sides, each with its probability."""

    __array_ufunc__ = None  # numpy leaves comparisons to this class

    def __init__(self, path, known, scale=Fraction(1), shift=Fraction(0)):
        self.path, self.known, self.scale, self.shift = path, known, scale, shift

    def __mul__(self, value):
        return Number(self.path, self.known, self.scale * constant(value), self.shift * constant(value))

    def __add__(self, value):
        return Number(self.path, self.known, self.scale, self.shift + constant(value))

    __rmul__, __radd__, __neg__ = __mul__, __add__, lambda self: self * -1
    __truediv__ = lambda self, value: self * (1 / constant(value))  # noqa: E731
    __sub__, __rsub__ = lambda self, value: self + -constant(value), lambda self, value: -self + value

    def compared(self, value, below, or_equal):
        if getattr(value, "ndim", 0):
            return numpy.array([self.compared(x, below, or_equal) for x in value])
        if value is self:  # numpy.searchsorted asks this
            return or_equal
        distance = constant(value) - self.shift
        if self.scale == 0:
            return or_equal if distance == 0 else (distance > 0) == below
        if (self.scale > 0) == below:
            return self.path.is_below(self.known, distance / self.scale, or_equal)
        return not self.path.is_below(self.known, distance / self.scale, not or_equal)

    __lt__, __le__ = lambda self, value: self.compared(value, True, False), lambda self, value: self.compared(value, True, True)
    __gt__, __ge__ = lambda self, value: self.compared(value, False, False), lambda self, value: self.compared(value, False, True)

    def __float__(self):
        raise Broken("the engine wants a plain number, and not one to compare: try --numbers plain")

    __int__ = __bool__ = __float__


def constant(value):
    if isinstance(value, Number):
        raise Broken("a random number is compared with another one, or added to it: try --numbers plain")
    if not isinstance(value, Fraction):
        value = Fraction(value) if isinstance(value, int) else float(value)
    if value != value:
        raise Broken("a random number is compared with NaN")
    return value


def law_of(run, most):
    """The law of run(numbers), and the probability of what was not followed, with `most` runs."""
    law, left, runs, order, waiting = {}, 0, 0, itertools.count(1), [(-1, 0, ())]
    while waiting and runs < most:
        path, runs = Path(heapq.heappop(waiting)[2]), runs + 1
        try:
            outcome = run(path.numbers())
            law[outcome] = law.get(outcome, 0) + path.mass
        except Cut:
            left += path.mass
        for mass, decisions in path.others:
            heapq.heappush(waiting, (-mass, next(order), decisions))
    return law, left - sum(mass for mass, *_ in waiting)


def law_by_bisection(run, most, grid=32, probes=8):
    """As law_of, with plain numbers. Where the engine begins to act otherwise is found to 2^-40, number by number, while those before are
    in an interval and those after take a few values. Boxes of numbers are tried at more points: if they differ, they are cut again, or
    left open."""
    law, left, runs, order, waiting = {}, 0.0, 0, itertools.count(1), [(-1.0, 0, (), 0)]

    def act(fixed, more):
        """(outcome, whether these numbers were enough)"""
        used = itertools.count()
        outcome = run(min(u, 1 - 2.0**-24) for u, _ in zip(itertools.chain(fixed, more), used))  # below 1 in float32, too
        return outcome, next(used) <= len(fixed)

    def acts(fixed):
        """With these first numbers, and several ways to go on: by chance, and with numbers that are all 0, or nearly 1."""
        return [act(fixed, itertools.chain(itertools.repeat(*begin), iter(random.Random(probe).random, None)))
                for probe, begin in enumerate([(0.0, 0)] * probes + [(0.0, 16), (1 - 2.0**-53, 16)])]

    def edges(low, at_low, high, at_high, at):
        if at_low != at_high:
            if high - low < 2.0**-40:
                return [high]
            middle = (low + high) / 2
            at_middle = at(middle)
            return edges(low, at_low, middle, at_middle, at) + edges(middle, at_middle, high, at_high, at)
        return []

    def cuts(box, axis):
        """Where the engine begins to act otherwise, along one number of a box."""
        (low, high), middles = box[axis], [sum(interval) / 2 for interval in box]
        at = lambda u: acts([*middles[:axis], u, *middles[axis + 1:]])  # noqa: E731
        points = [(u, at(u)) for u in [low + (high - low) * k / grid for k in range(grid)] + [high - (high - low) * 2.0**-53]]
        return sum((edges(*a, *b, at) for a, b in zip(points, points[1:])), [])

    def points_of(box):
        """Near the ends of each number, and by chance."""
        middles, source = [sum(interval) / 2 for interval in box], random.Random(1)
        for axis, (low, high) in enumerate(box):
            inset = min(max((high - low) * 2.0**-20, 2.0**-36), (high - low) / 4)
            for end in low + inset, high - inset:
                yield [*middles[:axis], end, *middles[axis + 1:]]
        for _ in range(probes):
            yield [low + (high - low) * source.random() for low, high in box]

    while waiting:
        (mass, _, box, times), runs = heapq.heappop(waiting), runs + 1
        found = acts([sum(interval) / 2 for interval in box])
        is_enough = all(enough for _, enough in found)
        if is_enough and all(act(point, iter(random.Random(0).random, None)) == found[0] for point in points_of(box)):
            law[found[0][0]] = law.get(found[0][0], 0.0) - mass
            continue
        axes = []
        if runs <= most and -mass >= 1e-10:
            if not is_enough:
                box, axes = (*box, (0.0, 1.0)), [len(box)]
            elif times < 4:  # a number that matters only for rare values of later ones
                axes = range(len(box))
        for axis in axes:
            (low, high), places = box[axis], cuts(box, axis)
            if is_enough:
                places = [u for u in places if min(u - low, high - u) > 2.0**-30]
            if places or not is_enough:
                for ends in zip([low, *places], [*places, high]):
                    part = mass * (ends[1] - ends[0]) / (high - low)
                    heapq.heappush(waiting, (part, next(order), (*box[:axis], ends, *box[axis + 1:]), times + is_enough))
                break
        else:
            left -= mass
    return law, left


def compared(case, law, found, left, tolerance, mistakes):
    """(status, words, fits) of a law that was computed."""
    exact = not left and not any(isinstance(p, float) for p in found.values())
    room, name = 0 if exact else tolerance + left, views(case)[0][0]
    off = {outcome: abs(found.get(outcome, 0) - law.get(outcome, 0)) for outcome in {*found, *law}}
    edges = [outcome for outcome, p in found.items() if p == 0 and outcome not in law]
    ruled_out = [outcome for outcome, p in found.items() if p > IMPOSSIBLE and outcome not in law]
    worst = max(ruled_out, key=off.get) if ruled_out else edges[0] if edges and max(off.values()) <= room else max(off, key=off.get)
    is_off = ruled_out or edges or off[worst] > room
    fits = {mistake["name"]: all(abs(found.get(o, 0) - other.get(o, 0)) <= 1e-6 + left for o in {*found, *other})
            for mistake, other in laws_of(mistakes, case)}
    if not is_off and left > tolerance:
        return "left open", [f"paths of probability {float(left):.2g} were not followed, or not to where the engine acts otherwise"], {}
    if not is_off:
        return "acquitted", (), fits
    words = [*shown(case), f"{name} = {json.dumps(worst)} has probability {float(found.get(worst, 0)):.9g}, expected "
             f"{float(law.get(worst, 0)):.9g}: {float(found.get(worst, 0) - law.get(worst, 0)):+.2g}"]
    if worst in edges:
        words.append("it comes where a random number is equal to a threshold: is there <= in the place of <, and 0 among the numbers?")
    return "convicted", words + in_words(fits), fits


# ---- The runner

class Runner:
    """Findings about an engine, case by case, or batch by batch."""

    def __init__(self, vectors, engine, options):
        self.vectors, self.engine, self.options = vectors, engine, options
        self.rules, door = options.rule or getattr(engine, "RULES", None), MODES[options.mode]
        if self.rules is None or set(self.rules) - set(vectors["rules"]):
            raise Usage(f"which rules has this engine? RULES or --rule is {self.rules}; known are {', '.join(vectors['rules'])}")
        self.writes = options.mode == "sampled" and hasattr(engine, "generate") and "text" in (options.rule or ["text"])
        if not hasattr(engine, door):
            if not self.writes:
                raise Usage(f"the engine has no {door}, which --mode {options.mode} calls")
            self.rules = []
        self.numbers, self.in_floats = options.numbers or getattr(engine, "NUMBERS", "floats"), 0
        items = self.batches() if options.mode == "batched" else self.singles()
        self.chosen = [item for item in items if item[0].startswith(options.case)]
        if not self.chosen:
            raise Usage(f"no case for the rules {', '.join(self.rules)} begins with '{options.case}'")
        self.cases = sum(len(cases) for _, cases, _ in self.chosen)
        self.bound = self.cases / options.false_alarms

    def singles(self):
        """(label, cases of one call, rule)"""
        for name, case in self.vectors["cases"].items():
            rule = case["rule"]
            if rule == "any":
                yield from ((f"{name} by {by}", [case], by) for by in self.rules if by in RULES_FOR_ANY)
            elif self.writes if rule == "text" else rule in self.rules:
                yield name, [case], rule

    def batches(self):
        for batch in self.vectors["batches"]:
            cases = [self.vectors["cases"][name] for name in batch["cases"]]
            if cases[0]["rule"] in self.rules:
                yield batch["id"], cases, cases[0]["rule"]

    def findings(self):
        for label, cases, rule in self.chosen:
            try:
                yield from (self.exact if self.options.mode == "exact" else self.sampled)(label, cases, rule)
            except NotImplementedError as error:
                yield Finding(rule, label, "not taken", 0, [f"{(str(error) or 'NotImplementedError').splitlines()[0]} ({place_of(error)})"])
            except Broken as error:
                yield Finding(rule, label, "broken", 0, [str(error)])

    def sampled(self, label, given, rule):
        cases, source = [Case(one, rule) for one in given], random.Random(f"{self.options.seed} {label}")
        seats = [Seat(case, one["law"], self.bound, self.options.samples, self.cases) for case, one in zip(cases, given)]
        while not all(seat.is_done() for seat in seats):
            seeds = [source.getrandbits(32) for _ in cases]
            try:
                outcomes = self.outcomes(cases, seeds)
            except Broken as error:
                raise Broken(f"{error}, with the seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}") from None
            for seat, outcome in zip(seats, outcomes):
                if not seat.is_done():
                    seat.add(outcome)
        labels = [label] if self.options.mode == "sampled" else [f"{label}, {case.id}" for case in cases]
        return [seat.finding(one, self.vectors["mistakes"]) for seat, one in zip(seats, labels)]

    def outcomes(self, cases, seeds):
        if self.options.mode == "batched":
            answers = parts(called(self.engine.verify_batch, cases, seeds), f"{len(cases)} verdicts", len(cases))
            return [outcome_of(case, answer) for case, answer in zip(cases, answers)]
        case, seed = cases[0], seeds[0]
        door = self.engine.generate if case.rule == "text" else self.engine.verify
        if not case.is_drawn_here:
            return [outcome_of(case, called(door, case, seed))]
        own, drawn = random.Random(f"runner {seed}"), copy.copy(case)  # not the numbers that the engine makes of its seed
        drawn.tokens = tuple(pick(row, own) for row in case.draft_weights)
        tau, token = outcome_of(drawn, called(door, drawn, seed))
        return [(*drawn.tokens[:tau], token, *(pick(row, own) for row in case.target_weights[tau + 1:]))]

    def exact(self, label, given, rule):
        case, found, left = Case(given[0], rule, self.numbers == "fractions"), {}, 0
        for drawn, p in lines(case):
            law, more = (law_by_bisection if self.numbers == "plain" else law_of)(
                lambda numbers: outcome_of(drawn, called(self.engine.verify_uniforms, drawn, numbers)), self.options.runs)
            left += p * more
            for outcome, share in law.items():
                for text, rest in filled(drawn, outcome):
                    found[text] = found.get(text, 0) + p * share * rest
        self.in_floats += any(isinstance(p, float) for p in found.values())
        status, words, fits = compared(case, given[0]["law"], found, left, self.options.tolerance, self.vectors["mistakes"])
        return [Finding(rule, label, status, 0, words, fits)]


MODES = {"sampled": "verify", "exact": "verify_uniforms", "batched": "verify_batch"}


# ---- From the command line

def load(path):
    """The engine, as a module."""
    path = pathlib.Path(path).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None:
        raise Usage(f"{path} is no file of Python")
    sys.path.insert(0, str(path.parent))
    engine = importlib.util.module_from_spec(spec)
    try:
        called(spec.loader.exec_module, engine)
    except Broken as error:
        raise Usage(f"cannot import the engine: {str(error).replace('exec_module raised ', '')}") from None
    return engine


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", help="a file of Python")
    parser.add_argument("--mode", choices=MODES, default="sampled")
    parser.add_argument("--rule", action="append", help="only this rule; may be given again. Default: the engine's RULES")
    parser.add_argument("--case", default="", metavar="ID", help="only cases and batches whose id begins so")
    parser.add_argument("--samples", type=int, default=4000, help="the most samples of a case (default 4000)")
    parser.add_argument("--false-alarms", type=float, default=1e-4, metavar="P", help="of all cases together (default 1e-4)")
    parser.add_argument("--seed", default="1", help="of the seeds that the engine gets")
    parser.add_argument("--numbers", choices=("fractions", "floats", "plain"), help="exact mode: rows of fractions; rows of floats; or "
                        "random numbers of floats, too. Default: the engine's NUMBERS, or floats")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="exact mode with floats: of a probability (default 1e-6)")
    parser.add_argument("--runs", type=int, default=20_000, help="exact mode: the most ways through the engine, for a case")
    parser.add_argument("--vectors", default=pathlib.Path(__file__).resolve().with_name("vectors.json"), metavar="FILE")
    options = parser.parse_args(given)
    if options.samples < 1 or options.runs < 1 or not 0 < options.false_alarms < 1:
        parser.error("--samples and --runs are 1 or more, and --false-alarms is between 0 and 1")
    return options


def report(runner):
    """Prints what was found, and returns the exit status."""
    statuses, columns = collections.defaultdict(collections.Counter), ("acquitted", "convicted", "broken", "left open", "not taken")
    fits, others, not_taken = collections.Counter(), set(), collections.Counter()
    for finding in runner.findings():
        fits.update(name for name, fit in finding.fits.items() if fit and finding.status == "convicted")
        others.update(name for name, fit in finding.fits.items() if not fit)
        if finding.status == "not taken":
            not_taken.update(finding.words)
        elif finding.words:
            print(f"{finding.status.upper()} {finding.label}", *finding.words, sep="\n  ", flush=True)
        statuses[finding.rule].update({finding.status: 1, "samples": finding.samples})
    print("".join(f"{word:>11}" for word in ("cases", "samples", *columns)).replace("      cases", f"{'rule':<20}cases"))
    for rule, count in statuses.items():
        print(f"{rule:<19}{sum(count[c] for c in columns):>6}" + "".join(f"{count[c]:>11}" for c in ("samples", *columns)))
    missing = {case["rule"] for case in runner.vectors["cases"].values()} - {"any", *statuses}
    for why, count in not_taken.items():
        print(f"not taken, {count} case{'s' * (count > 1)}: {why}")
    if missing:
        print("not offered:", ", ".join(sorted(missing)))
    if runner.numbers == "fractions" and runner.in_floats:
        print(f"In {runner.in_floats} cases the engine computed with floats: these are compared to {runner.options.tolerance:g}.")
    if runner.options.mode != "exact":
        print(f"A right engine is convicted in one or more of them with probability {runner.options.false_alarms:g} at most.")
    total = sum(statuses.values(), collections.Counter())
    print("CONVICTED" if total["convicted"] else "BROKEN" if total["broken"] else "ACQUITTED: nothing was found" if total["acquitted"] else
          "NOTHING WAS JUDGED")
    explaining = [mistake for mistake in runner.vectors["mistakes"] if fits[mistake["name"]] and mistake["name"] not in others]
    for name, words in ((mistake["name"], mistake["is"]) for mistake in explaining):
        print(f"{fits[name]} convictions have the law of a known mistake, and no case contradicts it: {name}. {words}")
    if total["convicted"] and not explaining:
        print("No known mistake explains these convictions and fits all other cases.")
    return 1 if total["convicted"] else 0 if total["acquitted"] and not total["broken"] else 2


def main():
    options = arguments()
    try:
        return report(Runner(read_vectors(options.vectors), load(options.engine), options))
    except Usage as error:
        print(f"check_engine.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
