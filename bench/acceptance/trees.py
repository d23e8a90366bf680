# SPDX-License-Identifier: MIT
"""Draws tokens per target call by drafted nodes, for trees and linear drafts: trees.py table.csv folder"""

import csv
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "pictures"))
from drawing import BLUE, GREEN, INK, PINK, SKY, figure, finish, save

STYLES = {
    "linear": ("linear draft, a draft call a node", INK, "o", ":"),
    "drawn under traversal": ("drawn, traversal", BLUE, "s", "-"),
    "drawn under recursive rejection": ("drawn, recursive rejection", SKY, "v", "-"),
    "trunk and spares": ("spares beside a line of 4", GREEN, "^", "-"),
    "chosen under sample-and-match": ("chosen, sample-and-match", PINK, "D", "-"),
}


def draw(lines, folder):
    overlaps = list(dict.fromkeys(line["overlap"] for line in lines))
    fig, panels = figure(len(overlaps), 5.1, sharey=True)
    said = ""
    for axes, overlap in zip(panels, overlaps):
        for kind, (label, colour, marker, dashes) in STYLES.items():
            shown = [line for line in lines if line["overlap"] == overlap and line["kind"] == kind]
            axes.errorbar([int(line["nodes"]) for line in shown],
                          [float(line["tokens_per_call"]) for line in shown],
                          [float(line["error"]) for line in shown], label=label, color=colour, marker=marker,
                          linestyle=dashes, capsize=2.5, elinewidth=1.2)
            said += f"β = {overlap}, {label}, by nodes: " + ", ".join(
                f"{line['nodes']} {float(line['tokens_per_call']):.2f}" for line in shown) + ". "
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
        axes.set_xlabel("drafted nodes")
        axes.set_title(f"acceptance rate β = {overlap}")
    panels[0].set_ylabel("tokens per target call")
    finish(fig, panels[0], 2, "Synthetic rows (zipf, V = 1000, T = 1), whole generations; bars: one standard error. Trees of four draft "
           "calls, and linear drafts.")
    save(fig, folder / "trees.svg", "Tokens per target call by the number of drafted nodes", said)


with open(sys.argv[1], newline="") as table:
    draw(list(csv.DictReader(table)), pathlib.Path(sys.argv[2]))
