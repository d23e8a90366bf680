# SPDX-License-Identifier: MIT
"""Prints the claims of the block verification paper beside the measured values, as Markdown: claims.py acceptance.csv

With a page as second argument it checks instead that this page has the measured values: each with a ± in the two tables of
synthetic rows in its section "Beside the paper".

Source of the claims: Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025,
arXiv:2403.10444, Sections 2 and 6 and Appendix C.
"""

import contextlib
import io
import pathlib
import re
import sys

from measured import read, select


def per_cent(line):
    return f"{100 * line.gain:+.1f} ± {100 * line.gain_se:.1f}"


def series(lines, key, **wanted):
    return sorted(select(lines, **wanted), key=lambda line: getattr(line, key))


def loops(lines, rule, key, **wanted):
    wanted = {"scope": "whole_loop", "rule": rule, "family": "zipf", "vocab": 1000, "temperature": 1.0} | wanted
    return series(lines, key, **wanted)


def toy(lines):
    found = {line.rule: line for line in select(lines, scope="one_step", family="toy", gamma=2)}
    shown = ", ".join(f"{found[rule].block_efficiency - 1:.3f} ± {found[rule].block_efficiency_se:.3f}"
                      for rule in ("token", "block", "full_information"))
    return "toy model, γ = 2, accepted: token 10/9 = 1.111, block 11/9 = 1.222, full information 12/9 = 1.333", shown


def everywhere(lines):
    steps = select(lines, scope="one_step", rule="block")
    whole = select(lines, scope="whole_loop", rule="block")
    worst = min(whole, key=lambda line: line.gain)
    return ("block never accepts less than token", f"least gain of {len(steps)} settings in one step "
            f"{100 * min(line.gain for line in steps):+.1f} %, of {len(whole)} over generations {per_cent(worst)} %")


def size(lines):
    of = {}
    for family in dict.fromkeys(line.family for line in lines if line.family != "toy"):
        best = max(loops(lines, "block", "beta", gamma=8, family=family), key=lambda line: line.gain)
        of[family] = f"{family} {per_cent(best)} (β {best.beta:.2f})"
    return "γ = 8: +7.00 to +10.06 %, mean +8.30 %", "at most, by family: " + "; ".join(of.values())


def by_length(lines):
    found = loops(lines, "block", "gamma", dialled="0.70")
    return "the gain grows with γ", "β 0.7, γ " + ", ".join(f"{x.gamma}: {per_cent(x)}" for x in found)


def by_drafter(lines):
    found = loops(lines, "block", "beta", gamma=8)
    return "the gain grows with the drafter's quality", "γ 8, β " + ", ".join(
        f"{x.beta:.2f}: {per_cent(x)}" for x in found)


def by_temperature(lines):
    found = [line for line in select(lines, scope="whole_loop", rule="block", family="zipf", dialled="0.70", gamma=8,
                                     vocab=1000)]
    found.sort(key=lambda line: line.temperature)
    return "the gain grows with temperature; none at T = 0", "γ 8, T " + ", ".join(
        f"{x.temperature:g}: {per_cent(x)}" for x in found)


def greedy(lines):
    block, whole = loops(lines, "block", "beta", gamma=8), loops(lines, "greedy_block", "beta", gamma=8)
    middle = [x for x in whole if 0.25 < x.beta < 0.97]
    between = sum(0 < x.gain < b.gain for b, x in zip(block, whole) if x in middle)
    return ("greedy block lies between token and block over generations, above both in one step",
            f"between in {between} of {len(middle)} settings (γ 8, β 0.3 to 0.95); at β 0.7 " + "; ".join(
                f"{name}: block {per_cent(b)}, greedy {per_cent(g)}" for name, scope in
                (("one step", "one_step"), ("generations", "whole_loop"))
                for b, g in zip(loops(lines, "block", "beta", gamma=8, dialled="0.70", scope=scope),
                                loops(lines, "greedy_block", "beta", gamma=8, dialled="0.70", scope=scope))))


def rates(lines):
    """T5's acceptance rates at T = 1 (Leviathan et al., arXiv:2211.17192, Table 2), their formula, and measured values."""
    print("\n| acceptance rate α of | α | (1 − α⁹)/(1 − α) | token, measured | block, measured | gain, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for models, dialled in (("CNN-DM, T5-small", "0.53"), ("EnDe, T5-small", "0.62"), ("EnDe, T5-large", "0.71")):
        token, = loops(lines, "token", "beta", gamma=8, dialled=dialled)
        block, = loops(lines, "block", "beta", gamma=8, dialled=dialled)
        alpha = float(dialled)
        print(f"| {models} | {dialled} | {(1 - alpha ** 9) / (1 - alpha):.3f} | {token.block_efficiency:.3f} ± "
              f"{token.block_efficiency_se:.3f} | {block.block_efficiency:.3f} ± {block.block_efficiency_se:.3f} | "
              f"{per_cent(block)} |")


def comparison(lines):
    """All rules side by side, rules added by the reader included."""
    rates = ("0.50", "0.70", "0.80", "0.90")
    here = [line for line in select(lines, scope="whole_loop", family="zipf", gamma=8, vocab=1000, temperature=1.0)
            if line.dialled in rates]
    print("\n| tokens a target call, γ = 8 | law | " + " | ".join(f"β {rate}" for rate in rates) + " |")
    print("| --- | --- |" + " --- |" * len(rates))
    for rule in dict.fromkeys(line.rule for line in here):
        found = {line.dialled: line for line in here if line.rule == rule}
        print(f"| {rule.replace('_', ' ')} | {found[rates[0]].law} | " + " | ".join(
            f"{found[rate].block_efficiency:.3f} ± {found[rate].block_efficiency_se:.3f}" for rate in rates) + " |")


def report(lines):
    print("| the paper | measured here (gains in per cent, ± one standard error) |")
    print("| --- | --- |")
    for claim in (toy, everywhere, size, by_length, by_drafter, by_temperature, greedy):
        print("| {} | {} |".format(*claim(lines)))
    rates(lines)
    comparison(lines)


def check(lines, page):
    """The values of the page that were not measured."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        report(lines)
    value = r"[+-]?\d+(?:\.\d+)? ± \d+(?:\.\d+)?"
    section = re.split(r"\n## ", page.read_text(encoding="utf-8").split("\n## Beside the paper\n", 1)[1], maxsplit=1)[0]
    tables = [table for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE) if not table.startswith("| pair |")]
    said, measured = set(re.findall(value, "".join(tables))), set(re.findall(value, printed.getvalue()))
    if len(said) < 30:
        sys.exit(f"{page} has {len(said)} measured values only: its tables were not found")
    if said - measured:
        sys.exit(f"{page} has values that {sys.argv[1]} does not have: {', '.join(sorted(said - measured))}")


lines = read(sys.argv[1])
if sys.argv[2:]:
    check(lines, pathlib.Path(sys.argv[2]))
else:
    report(lines)
