# SPDX-License-Identifier: MIT
"""Bets on the tokens of a text: an audit of the module specdec, fed with what servers list."""

import numpy as np

from http_json import ServerError

try:
    import specdec
except ImportError:  # the comparison of two samples works without it
    specdec = None


class TextBets:
    """Bets on each token at the odds of what a server lists for its place.

    The tokens that are listed are a class each, the tokens that are not listed are one more. The classes depend on the text before the
    token alone. The token falls into one of them, and is drawn from the listed probabilities if the server is right.
    """

    def __init__(self, tolerance=1e-3, seed=1):
        if specdec is None:
            raise ServerError("Python does not find the module specdec. examples/pages/python.md says how to build it; "
                              "PYTHONPATH says where it is")
        self.audit = specdec.TextAudit(tolerance=tolerance, seed=seed)

    def add(self, token, listed, reference=None):
        """A token, the target's candidates, and those of a draft model that has read the text."""
        ids = sorted(listed.probabilities)
        row = [listed.probabilities[i] for i in ids]
        if not listed.whole:
            row.append(max(1 - sum(row), 1e-6))  # what is not listed
        place = listed.probabilities and token in listed.probabilities
        chosen = ids.index(token) if place else -1 if listed.whole else len(ids)  # -1: a token of probability 0
        rows, tokens = np.array([row]), np.array([chosen])
        beside = _reference_row(reference, ids, not listed.whole) if reference else None
        if beside is None:
            self.audit.add(rows, tokens)
        else:
            self.audit.add(rows, tokens, np.array([beside]))

    def add_numbers(self, p, r):
        """A token of which two models say how probable it is: p by the target, r by the reference."""
        self.audit.add_numbers(p, r)


def _reference_row(reference, ids, has_rest):
    """The reference's probabilities of the classes. Any function of the text will do, so what is unknown counts as 0."""
    known = reference.probabilities
    row = [known.get(i, 0.0) for i in ids]
    if has_rest:
        row.append(max(sum(known.values()) - sum(row), 0.0))
    return row if sum(row) > 0 else None
