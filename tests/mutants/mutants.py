"""What a mutant is.

A mutant replaces `old`, which its header (in include/specdec/, or bench/... or examples/...) must hold exactly once,
by `new`; `tests` are the sources among which one must notice, the likeliest first. To add one: break a promise in the
smallest way that still compiles, in the file of the room it belongs to. One that makes a loop endless says so: only
then does a test that never ends count as one that noticed. Mutants that only cost time are not listed: no test here
measures time.
"""

import pathlib
import runpy
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOMS = ["kernels", "rows", "chance", "model", "sample", "verify", "analysis", "measure", "draft", "loop", "testing", "bench"]
NO_LISTS = ["equivalents", "mutants", "operators", "operators_test", "suite"]  # files beside the lists


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
    files = [HERE / f"{room}.py" for room in ROOMS]
    rest = sorted(file for file in HERE.glob("*.py") if file not in files and file.stem not in NO_LISTS)
    for file in files + rest:
        runpy.run_path(str(file), {"promise": promise})
