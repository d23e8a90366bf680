# SPDX-License-Identifier: MIT
"""Converts Google Benchmark's JSON to a table without times: to_csv.py acceptance.json acceptance.csv"""

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


def row(bench):
    shares = [bench[f"beyond_{i}"] for i in range(99) if f"beyond_{i}" in bench]
    found = {column: repr(bench[column]) for column in COLUMNS if column in bench}
    return {**setting(bench["name"]), "law": bench["label"], **found, "beyond": " ".join(map(repr, shares))}


def main():
    source, target = sys.argv[1:]
    with open(source) as file:
        benches = json.load(file)["benchmarks"]
    with open(target, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row(bench) for bench in benches if not bench.get("error_occurred"))


main()
