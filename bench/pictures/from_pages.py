# SPDX-License-Identifier: MIT
"""Draws pictures of figures that stand in tables of pages: from_pages.py [--check]"""

import pathlib
import re
import sys
from xml.sax.saxutils import escape

from drawing import BLUE, GREEN, INK, ORANGE, PINK, RED, figure, finish, save

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "examples"
FOLDER = ROOT / "examples/pictures"
MACHINE = "one core of an Intel Xeon with AVX-512"


def tables(page, heading):
    """The tables of a section: lists of rows of cells, the head first."""
    text = (PAGES / page).read_text(encoding="utf-8").split(f"\n{heading}\n", 1)[1]
    text = re.split(rf"\n#{{1,{heading.index(' ')}}} ", text, maxsplit=1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*$|^$", text, re.MULTILINE)]
    found, table = [], []
    for row in [*rows, [""]]:
        if row == [""]:
            if table:
                found.append(table)
            table = []
        elif not row[0].strip().startswith("---"):
            table.append(row)
    return found


class SpeedUp:
    """Tokens a target call and speed-up, by γ and temperature."""

    file = FOLDER / "speed_up.svg"
    title = "Tokens per target call and speed-up over γ, at three temperatures"

    def __init__(self):
        head, *rows = tables("apps/programs.md", "## What a speed-up depends on")[0]
        self.gammas = [int(cell.removeprefix("γ = ")) for cell in head[1:]]
        self.curves = {f"T = {row[0]}": [tuple(map(float, cell.split(" / "))) for cell in row[1:]]
                       for row in rows if re.match(r"[\d.]+$", row[0])}
        self.shown = "Tokens per target call / speed-up, for γ = " + ", ".join(map(str, self.gammas)) + ". " + "; ".join(
            f"{name}: " + ", ".join(f"{tokens:.2f} / {speed:.2f}" for tokens, speed in cells)
            for name, cells in self.curves.items()) + "."

    def draw(self):
        fig, panels = figure(2, 4.4, sharey=True)
        for (name, cells), (colour, marker) in zip(self.curves.items(), ((BLUE, "s"), (GREEN, "^"), (RED, "v"))):
            for axes, values in zip(panels, zip(*cells)):
                axes.plot([0, *self.gammas], [1, *values], label=name, color=colour, marker=marker)
        for axes, title in zip(panels, ("tokens per target call", "speed-up over the target alone (×)")):
            axes.axhline(1, color=INK, linewidth=1.2, linestyle="--", label="the target alone")
            axes.set(title=title, xlabel="draft length γ (tokens)", xticks=[0, *self.gammas])
        panels[0].set_ylim(0.8, None)
        finish(fig, panels[0], 4, "The shipped pair of transformers, block verification, 40 texts of 200 tokens. A drafted token "
               f"costs 0.04 target calls. {MACHINE[0].upper()}{MACHINE[1:]}.")
        save(fig, self.file, self.title, self.shown)


class Batch:
    """Speed with drafts over the speed without, by the number of texts in a batch."""

    file = FOLDER / "batch.svg"
    title = "What drafts gain by the number of texts at a time"
    names = {"auto": "auto: the γ that is measured to be fastest", "early": "early: a draft ends where its rows promise too little"}
    looks = {"γ = 1": (GREEN, "^", "-"), "γ = 2": (BLUE, "s", "-"), "γ = 3": (RED, "v", "-"), "auto": (ORANGE, "o", "--"),
             "early": (PINK, "D", "--")}

    def __init__(self):
        section = tables("apps/programs.md", "### What drafts gain in a batch")
        self.targets = dict(zip(("target of 3.0 million weights", "64 layers: 44 million weights"), section))
        self.shown = " ".join(
            f"{target}, texts at a time and {', '.join(head[2:])}: " +
            "; ".join(f"{texts}: {', '.join(values)}" for texts, _, *values in rows) + "."
            for target, (head, *rows) in self.targets.items())

    def draw(self):
        fig, panels = figure(2, 4.7, sharex=True, sharey=True)
        for axes, (target, (head, *rows)) in zip(panels, self.targets.items()):
            texts = [int(row[0]) for row in rows]
            for k, name in enumerate(head[2:], 2):
                colour, marker, dashes = self.looks[name]
                axes.plot(texts, [float(row[k]) for row in rows], label=self.names.get(name, name), color=colour, marker=marker,
                          linestyle=dashes)
            axes.axhline(1, color=INK, linewidth=1.4, label="no drafts: below this line drafts do not pay")
            axes.set_xscale("log", base=2)
            axes.set(title=target, xlabel="texts at a time")
        most = max(int(row[0]) for _, *rows in self.targets.values() for row in rows)
        ticks = [2 ** k for k in range(most.bit_length())]
        panels[0].set_xticks(ticks, ticks)  # for both panels
        panels[0].minorticks_off()
        panels[0].set(ylabel="speed over no drafts (×)", ylim=(0.4, None))
        finish(fig, panels[0], 2, "The shipped pair of transformers in serve_batch, block verification, T = 0.8, the best of two or "
               f"three runs. They differ by a fifth, so smaller differences mean nothing. {MACHINE[0].upper()}{MACHINE[1:]}.")
        save(fig, self.file, self.title, self.shown)


class Trees:
    """Tokens a target call by the number of drafted tokens, for kinds of trees."""

    file = FOLDER / "trees.svg"
    title = "Tokens per target call by the number of drafted tokens, for kinds of trees"
    looks = {"drawn-confident": (BLUE, "s", "-"), "sequoia": (GREEN, "^", "-"), "spares": (ORANGE, "o", "--"), "confident": (PINK, "D", "--")}

    def __init__(self):
        head, line, *rows = tables("write/trees.md", "### Tokens per target call")[1]
        numbers = [[[float(number) for number in re.findall(r"[\d.]+", cell)] for cell in row] for row in (line, *rows)]
        self.line = numbers[0][1][0]
        self.curves = {name.strip("`"): [(row[0][0], *row[k][:2]) for row in numbers[1:]] for k, name in enumerate(head[1:], 1)}
        self.shown = f"Tokens per target call. A line of 4 tokens: {self.line:.2f}. Trees, by their tokens: " + "; ".join(
            f"{name}: " + ", ".join(f"{nodes:.0f} {tokens:.2f}" for nodes, tokens, _ in points) for name, points in self.curves.items()) + "."

    def draw(self):
        fig, axes = figure(1, 4.7)
        for name, points in self.curves.items():
            colour, marker, dashes = self.looks[name]
            nodes, tokens, errors = zip(*points)
            axes.errorbar(nodes, tokens, errors, label=name, color=colour, marker=marker, linestyle=dashes, capsize=2.5, elinewidth=1.2)
        axes.axhline(self.line, color=INK, linewidth=1.4, label="a line of 4 tokens")
        axes.set(xlabel="drafted tokens", ylabel="tokens per target call", xticks=nodes)
        finish(fig, axes, 3, "The shipped pair of transformers, T = 0.8, four calls of the draft model, one after another, at places of "
               "texts that the target writes. Bars: one standard error; most of it is common to all curves.")
        save(fig, self.file, self.title, self.shown)


pictures = [SpeedUp(), Batch(), Trees()]
if sys.argv[1:] == ["--check"]:
    old = [picture.file.name for picture in pictures if not picture.file.is_file() or
           f"<desc>{escape(picture.shown)}</desc>" not in picture.file.read_text(encoding="utf-8")]
    if old:
        sys.exit(f"bench/draw must draw {', '.join(old)} again: the tables have other figures")
else:
    for picture in pictures:
        picture.draw()
