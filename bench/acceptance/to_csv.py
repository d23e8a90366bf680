# SPDX-License-Identifier: MIT
"""Converts Google Benchmark's JSON to a table without times: to_csv.py acceptance.json acceptance.csv [kept]

With `kept` the table has only the rows that the pictures and the tables of bench/README.md show.
"""

import csv
import json
import sys

COLUMNS = ["scope", "rule", "law", "family", "gamma", "dialled", "vocab", "temperature", "beta",
           "block_efficiency", "block_efficiency_se", "gain", "gain_se", "accepted_fraction", "exact",
           "beyond"]


def setting(name):
    """The parts of scope/rule/family/gamma:8/beta:0.70/vocab:1000[/temperature:0.6]/iterations:1"""
    scope, rule, family, *rest = name.split("/")
    values = dict(part.split(":") for part in rest)
    return {"scope": scope, "rule": rule, "family": family, "gamma": values["gamma"], "dialled": values["beta"],
            "vocab": values["vocab"], "temperature": values.get("temperature", "1")}


def converted(bench):
    shares = [bench[f"beyond_{i}"] for i in range(99) if f"beyond_{i}" in bench]
    found = {column: f"{bench[column]:.7g}" for column in COLUMNS if column in bench}
    return {**setting(bench["name"]), "law": bench["label"], **found, "beyond": " ".join(f"{share:.7g}" for share in shares)}


def shown(row):
    """Whether bench/README.md or a picture in bench/pictures shows the row."""
    scope, rule, family, gamma, dialled = (row[name] for name in ("scope", "rule", "family", "gamma", "dialled"))
    if scope == "one_step":
        lengths = family == "toy" or (family, gamma, dialled) == ("zipf", "8", "0.70")  # of what is accepted, by all rules
        return rule in ("token", "block", "greedy_block") or lengths
    return rule in ("token", "block") or rule == "greedy_block" and family in ("zipf", "toy")


def main():
    source, target, *kept = sys.argv[1:]
    with open(source) as file:
        benches = json.load(file)["benchmarks"]
    rows = [converted(bench) for bench in benches if not bench.get("error_occurred")]
    with open(target, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in rows if not kept or shown(row))


main()
