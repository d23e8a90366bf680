# SPDX-License-Identifier: MIT
"""Bets on the tokens of a text: audits of the module specdec, fed with what servers list."""

from http_json import ServerError
from wealth import Wealth

try:
    import numpy as np
    import specdec
except ImportError:  # the comparison of two samples works without it
    specdec = None

EDGES = (0.25, 0.5, 0.75)  # of the groups of places


class TextBets(Wealth):
    """Bets on each token at the odds of what a server lists for its place.

    The tokens that are listed are a class each, the tokens that are not listed are one more. If that one is tiny, the unlikeliest
    listed tokens join it. The classes depend on the text before the token alone. The token falls into one of them, and is drawn
    from the listed probabilities if the server is right.

    One half of the wealth is with an audit of all places. The other half goes through four audits: each bets only where a likely
    token has a probability in its group, since lenience shows where likely tokens are accepted. The token is the one that the
    reference likes most, or else the likeliest. So the group is a function of the text. The wealth of audits that bet at
    different places is multiplied.
    """

    def __init__(self, tolerance=1e-3, seed=1):
        if specdec is None:
            raise ServerError("Python does not find numpy, or the module specdec. examples/engine/python.md says how to build it; "
                              "PYTHONPATH says where it is")
        self.audit = specdec.TextAudit(tolerance=tolerance, seed=seed)
        self.groups = [specdec.TextAudit(tolerance=tolerance, seed=seed, stream=k + 1) for k in range(len(EDGES) + 1)]

    def add(self, token, listed, reference=None):
        """A token, the target's candidates, and those of a draft model that has read the text."""
        ids, rest = listed.classes()
        row = [listed.probabilities[i] for i in ids]
        if rest is not None:
            row.append(rest)
        if token in ids:
            chosen = ids.index(token)
        else:
            chosen = -1 if listed.whole else len(ids)  # -1: a token of probability 0
        given = [np.array([row]), np.array([chosen])]
        beside = _reference_row(reference, ids, not listed.whole) if reference else None
        if beside is not None:
            given.append(np.array([beside]))
        likely = (reference or listed).likeliest()
        group = sum(listed.probabilities.get(likely, 0.0) >= edge for edge in EDGES)
        for audit in self.audit, self.groups[group]:
            audit.add(*given)
        self.remember()

    def add_numbers(self, p, r):
        """A token of which two models say how probable it is: p by the target, r by the reference."""
        self.audit.add_numbers(p, r)
        self.remember()

    def logs(self):
        return [self.audit.evidence, sum(audit.evidence for audit in self.groups)]


def _reference_row(reference, ids, has_rest):
    """The reference's probabilities of the classes. Any function of the text will do, so what is unknown counts as 0."""
    known = reference.probabilities
    row = [known.get(i, 0.0) for i in ids]
    if has_rest:
        row.append(max(sum(known.values()) - sum(row), 0.0))
    return row if sum(row) > 0 else None
