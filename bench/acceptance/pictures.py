# SPDX-License-Identifier: MIT
"""Draws the measured acceptance: pictures.py folder [kept] (the folder holds acceptance.csv and, with --cost, cost.txt)"""

import csv
import pathlib
import platform
import sys

from measured import read, select

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "pictures"))
from drawing import BLUE, BROWN, GREEN, GREY, INDIGO, INK, ORANGE, PINK, RED, SKY, figure, finish, save

STYLES = {
    "full_information": ("full information (bound)", INK, "", ":"),
    "token": ("token", ORANGE, "o", "-"),
    "block": ("block", BLUE, "s", "-"),
    "greedy_block": ("greedy block", GREEN, "^", "-"),
    "sample_match": ("sample-match", PINK, "D", "-"),
    "lenient": ("lenient", RED, "v", "--"),
    "prefix_coins": ("prefix coins", SKY, "X", "--"),
    "keyed": ("keyed", BROWN, "P", "-"),
}
OTHERS = [(GREY, "P"), (BROWN, "*"), (INDIGO, "h")]
FAMILIES = {"zipf": (BLUE, "s"), "truncated": (SKY, "X"), "dirichlet": (GREEN, "^"), "sharpened": (RED, "v"),
            "flattened": (PINK, "D"), "disjoint": (ORANGE, "o")}
ZIPF = "Synthetic rows (zipf, V = 1000, T = 1)"
ERRORS = "bars: one standard error"


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


def words(name, series, x, y, digits=2):
    """A curve in words, for who does not see the picture."""
    return f"{name}: " + ", ".join(f"{x(line):g} {y(line):.{digits}f}" for line in series) + ". "


def accepted_length(lines, folder):
    """As Figure 3 of Sun et al.: how often a step accepts at least ℓ tokens."""
    fig, panels = figure(2, 4.8, sharey=True)
    shown, said = [("toy", "0.67", 2, "toy: the models of Sun et al."), ("zipf", "0.70", 1000, "zipf, V = 1000, β = 0.7")], ""
    for axes, (family, dialled, vocab, title) in zip(panels, shown):
        here = select(lines, scope="one_step", family=family, dialled=dialled, vocab=vocab, gamma=8, temperature=1.0)
        said += f"{title}, for ℓ = 0 to 8. "
        for rule in rules(here, "sample_match", "keyed"):
            line, = select(here, rule=rule)
            plot(axes, range(0, 9), [1, *line.beyond], None, line, lines)
            said += f"{style(line, lines)[0]}: " + ", ".join(f"{share:.2f}" for share in (1, *line.beyond)) + ". "
        axes.set(title=title, xlabel="ℓ, drafted tokens of 8", ylim=(0, 1.02), xticks=range(0, 9))
    panels[0].set_ylabel("share of steps with τ ≥ ℓ")
    finish(fig, panels[1], 3, "Synthetic rows, T = 1, γ = 8, single steps. τ: accepted tokens of a step.")
    save(fig, folder / "accepted_length.svg", "Share of steps that accept at least ℓ tokens", said)


def block_efficiency(lines, folder):
    """As Figure 4 of Sun et al.: tokens per step over the draft length, for a good and a poor drafter."""
    fig, panels = figure(2, 4.9, sharey=True)
    said = ""
    for axes, dialled in zip(panels, ["0.50", "0.80"]):
        here = select(lines, scope="whole_loop", family="zipf", dialled=dialled, vocab=1000, temperature=1.0)
        said += f"β = {float(dialled):g}, by γ. "
        for rule in rules(here):
            series = sorted(select(here, rule=rule), key=lambda line: line.gamma)
            plot(axes, [s.gamma for s in series], [s.block_efficiency for s in series],
                 [s.block_efficiency_se for s in series], series[0], lines)
            said += words(style(series[0], lines)[0], series, lambda s: s.gamma, lambda s: s.block_efficiency)
        axes.set(title=f"acceptance rate β = {float(dialled):g}", xlabel="draft length γ (tokens)",
                 xticks=[1, 2, 4, 6, 8, 12, 16])
    panels[0].set(ylabel="tokens per target call", ylim=(0, None))
    finish(fig, panels[0], 3, f"{ZIPF}, whole generations; {ERRORS}.")
    save(fig, folder / "block_efficiency.svg", "Tokens per target call by rule and draft length", said)


def gain(lines, folder):
    """As Figure 5 of Sun et al.: gain of block, greedy block and the reader's rules over token verification, by draft length
    and by drafter."""
    fig, (left, right) = figure(2, 4.8, sharey=True)
    own = [rule for rule in rules(lines) if rule not in STYLES and rule != "argmax"]
    said = ""
    for rule in ("block", "greedy_block", *own):
        for dialled, fill in (("0.80", "full"), ("0.50", "none")):
            series = sorted(select(lines, scope="whole_loop", rule=rule, family="zipf", dialled=dialled, vocab=1000,
                                   temperature=1.0), key=lambda line: line.gamma)
            label, colour, marker, _ = style(series[0], lines)
            left.errorbar([s.gamma for s in series], [100 * s.gain for s in series], [100 * s.gain_se for s in series],
                          label=f"{label}, β = {float(dialled):g}", color=colour, marker=marker, fillstyle=fill,
                          linestyle="-" if fill == "full" else ":", capsize=2.5, elinewidth=1.2)
            said += words(f"{label}, β = {float(dialled):g}, by γ", series, lambda s: s.gamma, lambda s: 100 * s.gain, 1)
        series = sorted(select(lines, scope="whole_loop", rule=rule, family="zipf", gamma=8, vocab=1000,
                               temperature=1.0), key=lambda line: line.beta)
        plot(right, [s.beta for s in series], [100 * s.gain for s in series], [100 * s.gain_se for s in series],
             series[0], lines)
        said += words(f"{label}, γ = 8, by β", series, lambda s: round(s.beta, 2), lambda s: 100 * s.gain, 1)
    left.set(title="by draft length", xlabel="draft length γ (tokens)", xticks=[1, 2, 4, 6, 8, 12, 16],
             ylabel="more tokens per target call\nthan token verification (%)")
    right.set(title="by drafter, γ = 8", xlabel="acceptance rate β of the drafter", xlim=(0, 1.02))
    for axes in (left, right):
        axes.axhline(0, color=INK, linewidth=1)
    finish(fig, left, 2, f"{ZIPF}, whole generations; {ERRORS}.")
    save(fig, folder / "gain.svg", "Gain of block and greedy block verification over token verification in per cent", said)


def gain_by_family(lines, folder):
    """The gain of block verification by the kind of the drafter's errors, and by temperature."""
    fig, (axes, bars) = figure(2, 4.8, width_ratios=[1.55, 1], sharey=True)
    said = ""
    for family, (colour, marker) in FAMILIES.items():
        series = sorted(select(lines, scope="whole_loop", rule="block", family=family, gamma=8, vocab=1000,
                               temperature=1.0), key=lambda line: line.beta)
        series = [s for s in series if 0.45 < s.beta < 0.97]
        axes.errorbar([s.beta for s in series], [100 * s.gain for s in series], [100 * s.gain_se for s in series],
                      label=family, color=colour, marker=marker, capsize=2.5, elinewidth=1.2)
        said += words(f"{family}, by β", series, lambda s: round(s.beta, 2), lambda s: 100 * s.gain, 1)
    axes.set(title="by family of rows, T = 1", xlabel="acceptance rate β of the drafter",
             ylabel="block verification: more tokens per\ntarget call than token verification (%)")
    series = sorted(select(lines, scope="whole_loop", rule="block", family="zipf", dialled="0.70", gamma=8, vocab=1000),
                    key=lambda line: line.temperature)
    bars.errorbar(range(len(series)), [100 * s.gain for s in series], [100 * s.gain_se for s in series],
                  color=BLUE, marker="s", capsize=2.5, elinewidth=1.2)
    said += words("zipf, by temperature", series, lambda s: s.temperature, lambda s: 100 * s.gain, 1)
    bars.set(title="zipf, by temperature", xlabel="temperature T of both (and β)", xlim=(-0.4, len(series) - 0.6))
    bars.set_xticks(range(len(series)), [f"{s.temperature:g}\n{s.beta:.2f}" for s in series])
    for panel in (axes, bars):
        panel.axhline(0, color=INK, linewidth=1)
    finish(fig, axes, 3, f"Synthetic rows, V = 1000, γ = 8, whole generations; {ERRORS}.")
    save(fig, folder / "gain_by_family.svg", "Gain of block over token verification in per cent, by family of rows and by temperature",
         said)


def speed_up(lines, folder):
    """Expected speed-up over the cost of a drafted token, if a target call costs the same for any γ."""
    fig, panels = figure(2, 4.9, sharey=True)
    costs = [10 ** (-3 + 3 * i / 120) for i in range(121)]
    shades = {2: (ORANGE, "-."), 4: (GREEN, "--"), 8: (BLUE, "-"), 16: (INK, ":")}
    said = ""
    for axes, dialled in zip(panels, ["0.50", "0.80"]):
        here = select(lines, scope="whole_loop", rule="block", family="zipf", dialled=dialled, vocab=1000, temperature=1.0)
        for gamma, (colour, dashes) in shades.items():
            line, = select(here, gamma=gamma)
            axes.plot(costs, [line.block_efficiency / (1 + gamma * c) for c in costs], color=colour, linestyle=dashes,
                      label=f"block, γ = {gamma}")
            said += f"β = {float(dialled):g}, γ = {gamma}: {line.block_efficiency:.2f} / (1 + {gamma} c). "
        token = [max(t.block_efficiency / (1 + t.gamma * c) for t in
                     select(lines, scope="whole_loop", rule="token", family="zipf", dialled=dialled, vocab=1000,
                            temperature=1.0)) for c in costs]
        axes.plot(costs, token, color=PINK, linewidth=3, alpha=0.6, label="token, best γ")
        axes.axhline(1, color=INK, linewidth=1)
        axes.set(title=f"acceptance rate β = {float(dialled):g}", xscale="log",
                 xlabel="c, cost of a drafted token (target calls)")
    panels[0].set(ylabel="speed-up over the target alone (×)", ylim=(0, None))
    finish(fig, panels[0], 3, f"{ZIPF}, whole generations. Computed, for target calls that cost the same for any γ.")
    save(fig, folder / "speed_up.svg", "Expected speed-up over the cost of a drafted token", said)


def verify_cost(folder):
    """Time of a verification over the vocabulary size, from the timing benches."""
    medians = {}
    with open(folder / "cost.txt") as file:
        rows = [line for line in csv.reader(file) if len(line) > 3 and line[0].endswith("_median")]
    for row in rows:
        rule, _, vocab, _, order, *_ = row[0].removeprefix("verify_").split("/")
        medians[rule, order, int(vocab.split(":")[1])] = float(row[2])
    fig, axes = figure(1, 4.4)
    said = ""
    for rule, order in dict.fromkeys((rule, order) for rule, order, _ in medians):
        name, colour, marker, _ = STYLES[rule]
        series = sorted((vocab, t) for (r, o, vocab), t in medians.items() if (r, o) == (rule, order))
        label = f"{name}, {'by frequency' if order == 'ordered' else 'shuffled'}"
        axes.plot(*zip(*series), color=colour, marker=marker, linestyle="-" if order == "ordered" else ":",
                  fillstyle="full" if order == "ordered" else "none", label=label)
        said += f"{label}: " + ", ".join(f"V = {vocab} {time:.3g} µs" for vocab, time in series) + ". "
    axes.set(xscale="log", yscale="log", xlabel="vocabulary V (tokens)", ylabel="one verification (µs)")
    axes.set_xticks([1000, 32000, 128256, 256000], ["1 000", "32 000", "128 256", "256 000"])
    axes.minorticks_off()
    finish(fig, axes, 3, "γ = 8, acceptance rate 0.7, rows of float probabilities from memory; ids by frequency or shuffled. One core "
           f"of: {processor()}.")
    save(fig, folder / "verify_cost.svg", "Time of a verification by the size of the vocabulary", said)


def processor():
    """The name of this machine's processor."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main():
    """With `kept` as second argument, draws only the pictures that are kept, into that folder."""
    folder = pathlib.Path(sys.argv[1])
    lines = read(folder / "acceptance.csv")
    for picture in (accepted_length, gain, gain_by_family):
        picture(lines, folder)
    if sys.argv[2:] == ["kept"]:
        return
    for picture in (block_efficiency, speed_up):
        picture(lines, folder)
    if (folder / "cost.txt").exists():
        verify_cost(folder)


if __name__ == "__main__":
    main()
