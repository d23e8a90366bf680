#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the sampler of rejection_sampler.py: as it should be, and with mistakes that engines have made."""

import functools
import sys

import specdec
from rejection_sampler import DRAFT, always_zero, draw_draft, rejection_sampler

SAMPLERS = {
    "no mistake": {},
    "u is always 0": {"coins": always_zero},
    "p/(q + 0.05)": {"added_to_q": 0.05},
    "the replacement from the next row": {"replacement_row": 1},
    "the bonus token from the draft's row": {"bonus_from": "draft"},
    "noise shared by draft and replacement": {"replacement_noise": DRAFT},
}


def main():
    reports = {}
    for name, mistake in SAMPLERS.items():
        sampler = functools.partial(rejection_sampler, **mistake)
        reports[name] = specdec.check_sampler(sampler, batch=250, draw=draw_draft)
        print(f"{name}\n  {reports[name]}")
    return [name for name, report in reports.items() if not report.convicted] != ["no mistake"]


if __name__ == "__main__":
    sys.exit(main())
