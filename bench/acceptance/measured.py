# SPDX-License-Identifier: MIT
"""Reads the table of to_csv.py, and selects lines of it."""

import csv
from dataclasses import dataclass


@dataclass
class Line:
    scope: str
    rule: str
    law: str
    family: str
    gamma: int
    dialled: str
    vocab: int
    temperature: float
    beta: float
    block_efficiency: float
    block_efficiency_se: float
    gain: float
    gain_se: float
    accepted_fraction: float
    exact: str
    beyond: list

    @property
    def lossless(self):
        return not self.law.startswith("LOSSY")


def read(path):
    numbers = {name: kind for name, kind in Line.__annotations__.items() if kind in (int, float)}
    with open(path) as file:
        lines = [Line(**row) for row in csv.DictReader(file)]
    for line in lines:
        for name, kind in numbers.items():
            setattr(line, name, kind(getattr(line, name)))
        line.beyond = [float(x) for x in line.beyond.split()]
    return lines


def select(lines, **wanted):
    """The lines with these values, in the order of the table."""
    return [line for line in lines if all(getattr(line, name) == value for name, value in wanted.items())]
