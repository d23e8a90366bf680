# SPDX-License-Identifier: MIT
"""Draws the measured acceptance: pictures.py folder (which holds acceptance.csv and, with --cost, cost.txt)"""

import csv
import io
import pathlib
import re
import sys

import matplotlib.pyplot as plt
from measured import read, select

# Okabe and Ito's colours, which colour-blind readers can distinguish. Each curve has its own marker or line, too.
STYLES = {
    "full_information": ("full information (bound)", "#000000", "", ":"),
    "token": ("token", "#E69F00", "o", "-"),
    "block": ("block", "#0072B2", "s", "-"),
    "greedy_block": ("greedy block", "#009E73", "^", "-"),
    "sample_match": ("sample-match", "#CC79A7", "D", "-"),
    "lenient": ("lenient", "#D55E00", "v", "--"),
    "prefix_coins": ("prefix coins", "#56B4E9", "X", "--"),
}
OTHERS = [("#666666", "P"), ("#8B4513", "*"), ("#4B0082", "h")]
FAMILIES = {"zipf": ("log-normal errors", "#0072B2", "s"), "truncated": ("the same, each cut to 20", "#56B4E9", "X"),
            "dirichlet": ("mixed with another row", "#009E73", "^"), "sharpened": ("too sure", "#D55E00", "v"),
            "flattened": ("not sure enough", "#CC79A7", "D"), "disjoint": ("on foreign tokens", "#E69F00", "o")}

plt.rcParams.update({"font.size": 12, "axes.titlesize": 12, "axes.grid": True, "grid.color": "#dddddd",
                     "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
                     "lines.linewidth": 1.8, "lines.markersize": 6.5, "legend.fontsize": 11,
                     "legend.framealpha": 0.9, "backend": "svg", "svg.hashsalt": "specdec", "svg.fonttype": "none",
                     "font.family": ["DejaVu Sans"]})


def style(line, lines):
    """Label, colour, marker and dashes of a rule. The label of a lossy rule says so. The reader's rules get OTHERS."""
    others = list(dict.fromkeys(x.rule for x in lines if x.rule not in STYLES))
    if line.rule in STYLES:
        name, colour, marker, dashes = STYLES[line.rule]
    else:
        colour, marker = OTHERS[others.index(line.rule) % len(OTHERS)]
        name, dashes = line.rule.replace("_", " "), "-" if line.lossless else "--"
    return name if line.lossless else f"{name} (LOSSY)", colour, marker, dashes


def rules(lines, *without):
    return [rule for rule in dict.fromkeys(line.rule for line in lines) if rule not in without]


def plot(axes, x, y, errors, line, lines, **more):
    label, colour, marker, dashes = style(line, lines)
    axes.errorbar(x, y, errors, label=label, color=colour, marker=marker, linestyle=dashes, capsize=2.5,
                  elinewidth=1.2, **more)


def figure(columns, height=3.7, **more):
    return plt.subplots(1, columns, figsize=(8, height), **more)


def legend_below(fig, axes, columns):
    handles, labels = axes.get_legend_handles_labels()
    rows = -(-len(labels) // columns)
    fig.tight_layout(rect=(0, (0.24 * rows + 0.1) / fig.get_figheight(), 1, 1))
    fig.legend(handles, labels, loc="lower center", ncols=columns, frameon=False)


def save(fig, folder, name):
    """Saves an SVG. Equal numbers make equal files: no date, fixed ids. Coordinates are rounded to 0.01 points."""
    text = io.StringIO()
    fig.savefig(text, format="svg", metadata={"Date": None})
    plt.close(fig)
    short = re.sub(r"<!--.*?-->\n?", "", text.getvalue(), flags=re.DOTALL)
    short = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", short)
    (folder / f"{name}.svg").write_text(re.sub(r"\n\s*", "\n", short))


def accepted_length(lines, folder):
    """As Figure 3 of Sun et al.: how often a step accepts at least ℓ tokens."""
    fig, panels = figure(2, 4.3, sharey=True)
    shown = [("toy", "0.67", 2, "the paper's toy model"), ("zipf", "0.70", 1000, "rows with log-normal errors, β = 0.7")]
    for axes, (family, dialled, vocab, title) in zip(panels, shown):
        here = select(lines, scope="one_step", family=family, dialled=dialled, vocab=vocab, gamma=8, temperature=1.0)
        for rule in rules(here, "sample_match"):
            line, = select(here, rule=rule)
            plot(axes, range(0, 9), [1, *line.beyond], None, line, lines)
        axes.set(title=title, xlabel="ℓ, drafted tokens of 8", ylim=(0, 1.02), xticks=range(0, 9))
    panels[0].set_ylabel("share of steps with τ ≥ ℓ")
    legend_below(fig, panels[1], 3)
    save(fig, folder, "accepted_length")


def block_efficiency(lines, folder):
    """As Figure 4 of Sun et al.: tokens per step over the draft length, for a good and a poor drafter."""
    fig, panels = figure(2, 4.3)
    for axes, dialled in zip(panels, ["0.50", "0.80"]):
        here = select(lines, scope="whole_loop", family="zipf", dialled=dialled, vocab=1000, temperature=1.0)
        for rule in rules(here):
            series = sorted(select(here, rule=rule), key=lambda line: line.gamma)
            plot(axes, [s.gamma for s in series], [s.block_efficiency for s in series],
                 [s.block_efficiency_se for s in series], series[0], lines)
        axes.set(title=f"acceptance rate β = {float(dialled):g}", xlabel="draft length γ (tokens)", ylim=(0, None),
                 xticks=[1, 2, 4, 6, 8, 12, 16])
    panels[0].set_ylabel("block efficiency\n(tokens a target call)")
    legend_below(fig, panels[0], 3)
    save(fig, folder, "block_efficiency")


def gain(lines, folder):
    """As Figure 5 of Sun et al.: gain of block, greedy block and the reader's rules over token verification, by draft length
    and by drafter."""
    fig, (left, right) = figure(2, 4.3, sharey=True)
    own = [rule for rule in rules(lines) if rule not in STYLES and rule != "argmax"]
    for rule in ("block", "greedy_block", *own):
        for dialled, fill in (("0.80", "full"), ("0.50", "none")):
            series = sorted(select(lines, scope="whole_loop", rule=rule, family="zipf", dialled=dialled, vocab=1000,
                                   temperature=1.0), key=lambda line: line.gamma)
            label, colour, marker, _ = style(series[0], lines)
            left.errorbar([s.gamma for s in series], [100 * s.gain for s in series], [100 * s.gain_se for s in series],
                          label=f"{label}, β = {float(dialled):g}", color=colour, marker=marker, fillstyle=fill,
                          linestyle="-" if fill == "full" else ":", capsize=2.5, elinewidth=1.2)
        series = sorted(select(lines, scope="whole_loop", rule=rule, family="zipf", gamma=8, vocab=1000,
                               temperature=1.0), key=lambda line: line.beta)
        plot(right, [s.beta for s in series], [100 * s.gain for s in series], [100 * s.gain_se for s in series],
             series[0], lines)
    left.set(title="by draft length", xlabel="draft length γ (tokens)", ylabel="tokens a target call, over those\nof token verification (%)",
             xticks=[1, 2, 4, 6, 8, 12, 16])
    right.set(title="by drafter, γ = 8", xlabel="acceptance rate β of the drafter", xlim=(0, 1.02))
    for axes in (left, right):
        axes.axhline(0, color="#444444", linewidth=1)
    legend_below(fig, left, 2)
    save(fig, folder, "gain")


def gain_by_family(lines, folder):
    """The gain of block verification by the kind of the drafter's errors, and by temperature."""
    fig, (axes, bars) = figure(2, 4.3, width_ratios=[1.55, 1])
    for family, (label, colour, marker) in FAMILIES.items():
        series = sorted(select(lines, scope="whole_loop", rule="block", family=family, gamma=8, vocab=1000,
                               temperature=1.0), key=lambda line: line.beta)
        series = [s for s in series if 0.45 < s.beta < 0.97]
        axes.errorbar([s.beta for s in series], [100 * s.gain for s in series], [100 * s.gain_se for s in series],
                      label=label, color=colour, marker=marker, capsize=2.5, elinewidth=1.2)
    axes.axhline(0, color="#444444", linewidth=1)
    axes.set(title="by how, and how often, the drafter errs", xlabel="acceptance rate β of the drafter",
             ylabel="block over token verification\n(γ = 8, % more tokens a call)")
    series = sorted(select(lines, scope="whole_loop", rule="block", family="zipf", dialled="0.70", gamma=8, vocab=1000),
                    key=lambda line: line.temperature)
    bars.errorbar(range(len(series)), [100 * s.gain for s in series], [100 * s.gain_se for s in series],
                  color="#0072B2", marker="s", capsize=2.5, elinewidth=1.2)
    bars.axhline(0, color="#444444", linewidth=1)
    bars.set(title="by temperature", xlabel="temperature of both (and β)", xlim=(-0.4, len(series) - 0.6))
    bars.set_xticks(range(len(series)), [f"{s.temperature:g}\n{s.beta:.2f}" for s in series])
    top = max(axes.get_ylim()[1], bars.get_ylim()[1])
    for panel in (axes, bars):
        panel.set_ylim(-0.1 * top, top)
    legend_below(fig, axes, 3)
    save(fig, folder, "gain_by_family")


def speed_up(lines, folder):
    """Expected speed-up over the cost of a drafted token, if a target call costs the same for any γ."""
    fig, panels = figure(2, 4.3)
    costs = [10 ** (-3 + 3 * i / 120) for i in range(121)]
    shades = {2: ("#E69F00", "-."), 4: ("#009E73", "--"), 8: ("#0072B2", "-"), 16: ("#000000", ":")}
    for axes, dialled in zip(panels, ["0.50", "0.80"]):
        here = select(lines, scope="whole_loop", rule="block", family="zipf", dialled=dialled, vocab=1000, temperature=1.0)
        for gamma, (colour, dashes) in shades.items():
            line, = select(here, gamma=gamma)
            axes.plot(costs, [line.block_efficiency / (1 + gamma * c) for c in costs], color=colour, linestyle=dashes,
                      label=f"γ = {gamma}")
        token = [max(t.block_efficiency / (1 + t.gamma * c) for t in
                     select(lines, scope="whole_loop", rule="token", family="zipf", dialled=dialled, vocab=1000,
                            temperature=1.0)) for c in costs]
        axes.plot(costs, token, color="#CC79A7", linewidth=3, alpha=0.6, label="token verification, best γ")
        axes.axhline(1, color="#444444", linewidth=1)
        axes.set(title=f"acceptance rate β = {float(dialled):g}", xscale="log", ylim=(0, None),
                 xlabel="c, cost of a drafted token (target calls)")
    panels[0].set_ylabel("speed-up over the target alone\n(block verification)")
    legend_below(fig, panels[0], 3)
    save(fig, folder, "speed_up")


def verify_cost(folder):
    """Time of a verification over the vocabulary size, from the timing benches."""
    medians = {}
    with open(folder / "cost.txt") as file:
        rows = [line for line in csv.reader(file) if len(line) > 3 and line[0].endswith("_median")]
    for row in rows:
        rule, _, vocab, _, order, *_ = row[0].removeprefix("verify_").split("/")
        medians[rule, order, int(vocab.split(":")[1])] = float(row[2])
    fig, axes = figure(1, 4.0)
    for rule, order in dict.fromkeys((rule, order) for rule, order, _ in medians):
        name, colour, marker, _ = STYLES[rule]
        series = sorted((vocab, t) for (r, o, vocab), t in medians.items() if (r, o) == (rule, order))
        axes.plot(*zip(*series), color=colour, marker=marker, linestyle="-" if order == "ordered" else ":",
                  fillstyle="full" if order == "ordered" else "none",
                  label=f"{name}, {'by frequency' if order == 'ordered' else 'shuffled'}")
    axes.set(xscale="log", yscale="log", xlabel="vocabulary (tokens)", ylabel="one verification (µs)",
             title="γ = 8, acceptance rate 0.7, float rows from memory; ids by frequency or shuffled")
    axes.set_xticks([1000, 32000, 128256, 256000], ["1 000", "32 000", "128 256", "256 000"])
    axes.minorticks_off()
    legend_below(fig, axes, 3)
    save(fig, folder, "verify_cost")


def main():
    folder = pathlib.Path(sys.argv[1])
    lines = read(folder / "acceptance.csv")
    for picture in (accepted_length, block_efficiency, gain, gain_by_family, speed_up):
        picture(lines, folder)
    if (folder / "cost.txt").exists():
        verify_cost(folder)


if __name__ == "__main__":
    main()
