# SPDX-License-Identifier: MIT
"""Mutations of `generate` that were looked at and change nothing that a test could hold to a promise.

(header in include/specdec/, operator, the line before, the line after): why
"""

EQUIVALENTS = {
    ("loop/step.hpp", "constant",
     "if (done()) return {.nodes = 0, .depth = 0};",
     "if (done()) return {.nodes = 0, .depth = 1};"):
        "a draft without a token has no depth",
}
