"""Mutations of `generate` that were looked at and change nothing that a test could hold to a promise.

(header in include/specdec/, operator, the line before, the line after): why
"""

EQUIVALENTS = {
}
