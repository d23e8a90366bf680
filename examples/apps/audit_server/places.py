# SPDX-License-Identifier: MIT
"""Audits of the module specdec, fed with what servers list for places in a text."""

import copy

from http_json import ServerError

try:
    import numpy as np
    import specdec
except ImportError:  # the comparison of two samples works without it
    specdec = None

EDGES = (0.25, 0.5, 0.75)  # of the groups of places


class Place:
    """A token, with one reading of what is listed for its place: by the target, and by a reference that has read the text.

    The tokens that are listed are a class each, the tokens that are not listed are one more (Candidates.classes). The classes
    depend on the text before the token alone. The token falls into one of them, and is drawn from the listed probabilities if
    the server is right.
    """

    def __init__(self, token, listed, reference=None):
        self.token, self.listed, self.reference = token, listed, reference
        self.likely = listed.probabilities.get((reference or listed).likeliest(), 0.0)
        ids, rest = listed.classes()
        row = [listed.probabilities[i] for i in ids]
        if rest is not None:
            row.append(rest)
        if token in ids:
            chosen = ids.index(token)
        else:
            chosen = -1 if rest is None else len(ids)  # -1: a token of probability 0
        self.given = [np.array([row]), np.array([chosen])]
        beside = _reference_row(reference, ids, rest is not None) if reference else None
        if beside is not None:
            self.given.append(np.array([beside]))


def _reference_row(reference, ids, has_rest):
    """The reference's probabilities of the classes. Any function of the text will do, so what is unknown counts as 0."""
    known = reference.probabilities
    row = [known.get(i, 0.0) for i in ids]
    if has_rest:
        row.append(max(sum(known.values()) - sum(row), 0.0))
    return row if sum(row) > 0 else None


class Audits:
    """An audit a group of places: each bets only where a likely token has a probability in its group, since lenience shows where
    likely tokens are accepted. The token is the one that the reference likes most, or else the likeliest. So the group is a function
    of the text. The wealth of audits that bet at different places is multiplied. Without edges, one audit has all places.
    """

    def __init__(self, edges, tolerance, seed):
        if specdec is None:
            raise ServerError("Python does not find numpy, or the module specdec. examples/engine/python.md says how to build it; "
                              "PYTHONPATH says where it is")
        self.edges = edges
        self.audits = [specdec.TextAudit(tolerance=tolerance, seed=seed, stream=k + bool(edges)) for k in range(len(edges) + 1)]

    def at(self, place):
        """The audits after a place."""
        twin, group = copy.copy(self), sum(place.likely >= edge for edge in self.edges)
        twin.audits = [*self.audits]
        twin.audits[group] = copy.copy(self.audits[group])
        twin.audits[group].add(*place.given)
        return twin

    @property
    def evidence(self):
        return sum(audit.evidence for audit in self.audits)

    def parts(self):
        """(which places, the report of their audit), of groups that have places."""
        for low, high, audit in zip((0.0, *self.edges), (*self.edges, 1.0), self.audits):
            if audit.report().tokens:
                yield f"where a likely token has {low} to {high}" if self.edges else "at all places", audit.report()


def words_of(report):
    """In words which bet of an audit has won most, and what that means."""
    bets = {"rank": report.by_rank, "ids": report.by_id, "the ratio to the reference": report.by_ratio,
            "two numbers": report.by_two_numbers}
    if report.impossible:
        return report.fault
    best = max(bets, key=bets.get)
    if bets[best] < 1:
        return "tokens do not come as often as their lists say, though no single bet has won much"
    return f"the bet by {best} has won most: {report.fault}"
