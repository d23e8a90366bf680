# SPDX-License-Identifier: MIT
"""Bets on the tokens of a text, at the odds of what servers list: audits of the module specdec, and bets on single tokens."""

import itertools
import math

from places import EDGES, Audits, Place, words_of
from single_bets import Again, NamedToken, Unlisted
from wealth import Wealth


class TextBets(Wealth):
    """Shares of the wealth: 5/16 are with an audit of all places, 5/16 with audits of groups of places (places.py), 1/8 with a gambler
    on tokens that no list has, 1/8 with one on the first token that is named, 1/16 on the next one, and so on. The share of tokens
    that nobody has named yet stays as it is.

    Where a list has two readings, each gambler goes on by the one that pays him less. He would have no less by the right one.

    drafts: "likeliest" if the reference's likeliest token is what is drafted, and not a token that is drawn from its row
    """

    def __init__(self, tolerance=1e-3, seed=1, named=(), drafts="drawn"):
        self.tolerance, self.greedy = tolerance, drafts == "likeliest"
        self.all, self.groups = Audits((), tolerance, seed), Audits(EDGES, tolerance, seed)
        self.unlisted, self.named = Unlisted(tolerance), {}
        self.again, self.largest_again = Again(tolerance), 0.0
        self.left_out = self.blind = 0  # places without a list, and those whose list has one token: it may have been added
        self.name(named)

    def name(self, tokens):
        """From now on gamblers bet on these tokens, too."""
        for token in tokens:
            self.named.setdefault(token, NamedToken(token, self.tolerance))

    def add_text(self, prompt, tokens, lists, references=None, end=None):
        """A text, with candidates for each token, and those of the draft model if there is one. `end`: the token that has ended it."""
        self.again.begin(prompt)
        for token, listed, reference in zip(tokens, lists, references or itertools.repeat(None)):
            self.add(token, listed, reference)
        self.name([] if end is None else [end])  # not before its own text was bet on

    def add(self, token, listed, reference=None):
        """The next token, the target's candidates (None: left out), and those of a draft model that has read the text."""
        if listed is None:
            self.left_out += 1
        else:
            self._bet([Place(token, one, other) for one in listed.readings(token) for other in self._references(reference, token)])
            self.blind += len(listed.probabilities) < 2
        self.again.learn(token)

    def _references(self, reference, token):
        for one in reference.readings(token) if reference else [None]:
            yield one.greedy() if one and self.greedy else one

    def _bet(self, readings):
        self.all, self.groups, self.unlisted, self.again = (
            least(gambler, readings) for gambler in (self.all, self.groups, self.unlisted, self.again))
        self.named = {token: least(gambler, readings) for token, gambler in self.named.items()}
        self.largest_again = max(self.largest_again, self.again.evidence)
        self.remember()

    def add_numbers(self, p, r):
        """A token of which two models say how probable it is: p by the target, r by the reference."""
        self.all.audits[0].add_numbers(p, r)
        self.remember()

    def report(self):
        """Of the audit of all places."""
        return self.all.audits[0].report()

    def shares(self):
        parts = [(5 / 16, self.all.evidence), (5 / 16, self.groups.evidence), (1 / 8, self.unlisted.evidence)]
        parts += [(2.0 ** -(3 + k), gambler.evidence) for k, gambler in enumerate(self.named.values())]
        return [*parts, (1 - math.fsum(share for share, _ in parts), 0.0)]

    def winner(self):
        audits = [*self.all.parts(), *self.groups.parts()]
        where, report = max(audits, key=lambda part: part[1].evidence)
        single = max([self.unlisted, *self.named.values()], key=lambda gambler: gambler.evidence)
        return single.words() if single.evidence > report.evidence else f"{where}, {words_of(report)}"

    def depends(self, alpha):
        """Whether the texts are not independent: they go on as earlier texts did, and this has won far more than all other bets, twice as
        many digits: likely tokens that come too often bring texts together, too. Wrongly with probability alpha at most."""
        return self.largest_again >= max(-math.log10(alpha), 2 * self.largest_evidence)


def least(gambler, readings):
    """The gambler after a place, by the reading that pays him least."""
    return min((gambler.at(place) for place in readings), key=lambda after: after.evidence)
