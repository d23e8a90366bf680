# SPDX-License-Identifier: MIT
"""What a mutant is.

A mutant replaces `old`, which its header (in include/specdec/, or bench/... or examples/...) must hold exactly once,
by `new`; `tests` are the sources among which one must notice, the likeliest first. One that makes a loop endless says
so: only then does a test that never ends count as one that noticed.

The list is short on purpose, because every text that it quotes resists a change of the headers. A mutant is worth its
place if it breaks a promise that matters in a way that `generate` does not find: another algorithm, a formula that is
wrong where it is seldom looked at, another order, another object. One or two for each promise; the quoted text short,
and a rule rather than a call. Mutants that only cost time are not listed: no test here measures time.
"""

import pathlib
import runpy
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOMS = ["chance", "rows", "model", "sample", "verify", "measure", "draft", "loop", "testing"]


@dataclass
class Mutant:
    promise: str
    name: str
    header: str
    tests: tuple
    old: str
    new: str
    endless: bool


MUTANTS = []


def promise(text):
    """What the mutants added next break."""

    def mutant(name, header, tests, old, new, endless=False):
        MUTANTS.append(Mutant(text, name, header, tuple(tests.split()), old, new, endless))

    return mutant


def read_mutants():
    for room in ROOMS:
        runpy.run_path(str(HERE / f"{room}.py"))
