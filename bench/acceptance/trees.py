# SPDX-License-Identifier: MIT
"""Draws tokens per target call by drafted nodes, for trees and linear drafts: trees.py table.csv folder"""

import csv
import pathlib
import sys

from pictures import figure, legend_below, save

STYLES = {
    "linear": ("linear, a draft call a node", "#000000", "o", ":"),
    "drawn under traversal": ("drawn, traversal", "#0072B2", "s", "-"),
    "drawn under recursive rejection": ("drawn, recursive rejection", "#56B4E9", "v", "-"),
    "trunk and spares": ("trunk of 4 and spares", "#009E73", "^", "-"),
    "chosen under sample-and-match": ("chosen, sample-and-match", "#CC79A7", "D", "-"),
}


def draw(lines, folder):
    overlaps = list(dict.fromkeys(line["overlap"] for line in lines))
    fig, panels = figure(len(overlaps), 4.6)
    for axes, overlap in zip(panels, overlaps):
        for kind, (label, colour, marker, dashes) in STYLES.items():
            shown = [line for line in lines if line["overlap"] == overlap and line["kind"] == kind]
            axes.errorbar([int(line["nodes"]) for line in shown],
                          [float(line["tokens_per_call"]) for line in shown],
                          [float(line["error"]) for line in shown], label=label, color=colour, marker=marker,
                          linestyle=dashes, capsize=2.5, elinewidth=1.2)
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
        axes.set_xlabel("drafted nodes")
        axes.set_title(f"β = {overlap}")
    panels[0].set_ylabel("tokens a target call")
    fig.suptitle("Trees of four draft calls, and linear drafts", fontsize=12)
    legend_below(fig, panels[0], 3)
    save(fig, folder, "trees")


with open(sys.argv[1], newline="") as table:
    draw(list(csv.DictReader(table)), pathlib.Path(sys.argv[2]))
