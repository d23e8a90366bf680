#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often right engines are convicted by the sampled mode: with --false-alarms P at most a share P of them. Needs numpy.

    false_alarms.py 10000           so many runs of all cases; their outcomes are drawn from the laws
"""

import argparse
import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import check_engine  # noqa: E402


class Gambles:
    """The bets of a check_engine.Seat in many runs at once."""

    def __init__(self, case, law, runs):
        outcomes = list(law)
        self.ends = numpy.cumsum([float(law[outcome]) for outcome in outcomes])
        self.each, self.samples, self.largest = numpy.arange(runs), 0, numpy.ones(runs)
        self.views = []
        for name, part in check_engine.views(case):
            view = check_engine.View(name, part, law)
            values = list(view.law)
            place = numpy.array([values.index(part(outcome)) for outcome in outcomes])
            p = numpy.array([view.law[value] for value in values])
            wealth = numpy.ones((len(check_engine.CONCENTRATIONS), runs))
            self.views.append((place, p, numpy.zeros((runs, len(values)), numpy.int32), wealth))

    def draw(self, random):
        self.add(numpy.minimum(numpy.searchsorted(self.ends, random.random(len(self.each)), "right"), len(self.ends) - 1))

    def add(self, outcomes):
        """outcomes: for each run the number of what came."""
        for place, p, seen, wealth in self.views:
            value = place[outcomes]
            came, share = seen[self.each, value], p[value]
            for w, a in zip(wealth, check_engine.CONCENTRATIONS):
                w *= (came + a * share) / ((self.samples + a) * share)
            seen[self.each, value] += 1
        self.samples += 1
        numpy.maximum(self.largest, self.wealth(), out=self.largest)

    def wealth(self):
        return sum(wealth.sum(0) for *_, wealth in self.views) / (len(self.views) * len(check_engine.CONCENTRATIONS))


def seats(vectors):
    """(case, law) of what check_engine.py samples for an engine that has all rules."""
    for given in vectors["cases"].values():
        rules = [rule for rule in check_engine.RULES_FOR_ANY if rule != "any"] if given["rule"] == "any" else [given["rule"]]
        for rule in rules:
            yield check_engine.Case(given, rule), given["law"]


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vectors", default=HERE.parent / "vectors.json")
    options = parser.parse_args(given)
    random, all_seats = numpy.random.default_rng(options.seed), list(seats(check_engine.read_vectors(options.vectors)))
    largest = numpy.ones(options.runs)
    for done, (case, law) in enumerate(all_seats):
        if len(law) > 1:  # else nothing can be won
            gambles = Gambles(case, law, options.runs)
            for _ in range(options.samples):
                gambles.draw(random)
            largest = numpy.maximum(largest, gambles.largest)
        if sys.stderr.isatty():
            print(f"\r{done + 1} of {len(all_seats)}", end="", file=sys.stderr)
    print(f"{options.runs} right runs of {len(all_seats)} cases, up to {options.samples} samples of each")
    too_many = 0
    for rate in 0.5, 0.1, 0.01, 0.001, 0.0001:
        alarms, bound = int((largest >= len(all_seats) / rate).sum()), rate * options.runs
        too_many += alarms > bound + 4 * bound**0.5 + 4
        print(f"--false-alarms {rate:g}: {alarms} runs are convicted in a case or more, the bound is {bound:g}")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
