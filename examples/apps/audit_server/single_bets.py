# SPDX-License-Identifier: MIT
"""Bets on whether one token comes: the end token, another one that was named, one that no list has, one that came before.

A bet on all tokens sees little of one token that comes too often, if it is seldom. A gambler on this token alone sees it.
"""

import copy
import math

from wealth import log_mean


class SingleBet:
    """Bets that something comes. With probability p it does, and q is believed: if it comes, the factor of the wealth is q/p, and else
    (1 - q) / (1 - p). Its mean is 1, whatever q is.

    If p is wrong by a factor of e^tolerance at most, the mean is 1 + |q - p| / (1 - p) * (e^tolerance - 1) at most, which is taken off.
    """

    def __init__(self, tolerance):
        self.error = math.expm1(tolerance)
        self.came, self.expected, self.log_wealth = 0, 0.0, 0.0

    def believed(self, p):
        """So far it came `came` times, where one expected `expected`: so it is believed to come (came + 1/2) / (expected + 1/2) times as
        often as p says (the counts of Krichevsky and Trofimov 1981)."""
        return min(p * (self.came + 0.5) / (self.expected + 0.5), (1 + p) / 2)

    def after(self, p, comes, q=None):
        """The gambler after one bet. None, 0 and 1 are no p to bet on."""
        if p is None or not 0 < p < 1:
            return self
        q, twin = self.believed(p) if q is None else q, copy.copy(self)
        twin.log_wealth += math.log(q / p if comes else (1 - q) / (1 - p)) - math.log1p(abs(q - p) / (1 - p) * self.error)
        twin.came += comes
        twin.expected += p
        return twin

    @property
    def evidence(self):
        return self.log_wealth / math.log(10)

    def __str__(self):
        return f"10^{self.evidence:.2f}, came {self.came} times where {self.expected:.1f} were expected"


class NamedToken:
    """Bets on one token, at places whose list has it: one half by what came so far, the other half that it comes more often where the
    reference gives it more than p, half way to that. A drafted end token that needs no verdict shows there."""

    def __init__(self, token, tolerance):
        self.token, self.by_counts, self.by_reference = token, SingleBet(tolerance), SingleBet(tolerance)

    def at(self, place):
        p, comes, twin = place.listed.probabilities.get(self.token), place.token == self.token, copy.copy(self)
        twin.by_counts = self.by_counts.after(p, comes)
        r = place.reference.probabilities.get(self.token, 0.0) if place.reference else 0.0
        if p is not None and r > p:
            twin.by_reference = self.by_reference.after(p, comes, (p + min(r, 1.0)) / 2)
        return twin

    @property
    def evidence(self):
        return log_mean([(0.5, self.by_counts.evidence), (0.5, self.by_reference.evidence)])

    def words(self):
        count = self.by_counts
        often = self.by_reference.evidence > count.evidence or count.came > count.expected
        return f"token {self.token} comes too {'often' if often else 'seldom'} (a drafted end token that is accepted without a " \
               "verdict? a token that is forced or banned while drafts are judged?)"

    def __str__(self):
        return f"10^{self.evidence:.2f}, of which by the reference 10^{self.by_reference.evidence:.2f}, came {self.by_counts.came} " \
               f"times where {self.by_counts.expected:.1f} were expected"


class Unlisted(SingleBet):
    """Bets that tokens come which the list does not have, more often than what the list leaves to them. That is a difference, so it
    is known up to the tolerance. Every p that is too large is fair."""

    def believed(self, p):
        return max(super().believed(p), p)

    def at(self, place):
        if place.listed.whole:
            return self
        missing = place.listed.missing
        return self.after(missing + max(self.error, 1e-5) * (1 - missing), place.token not in place.listed.probabilities)

    def words(self):
        return "tokens come that no list has (a cut, as top-k, that drafts or their replacements are not held to?)"


class Again(SingleBet):
    """Bets that a text which has begun as an earlier one after the same prompt goes on as that one: after n tokens in a row that did
    with probability (n + 1/2) / (n + 1). If texts are independent, the token of the earlier one is a token as any other.

    It bets only where that token is unlikely. Speculation gone wrong makes likely tokens come again, too; a copy has them all.
    """

    UNLIKELY = 0.1

    def __init__(self, tolerance):
        super().__init__(tolerance)
        self.nodes, self.next = {}, {}  # of the tree of all texts, and the token that came last after each
        self.node, self.run = None, 0

    def begin(self, prompt):
        self.run = 0
        self._step(None, tuple(prompt))

    def at(self, place):
        token = self.next.get(self.node)
        p = place.listed.probabilities.get(token, 1.0)
        return self.after(p, place.token == token, max(p, (self.run + 0.5) / (self.run + 1))) if p < self.UNLIKELY else self

    def learn(self, token):
        self.run += self.next.get(self.node) == token
        self.next[self.node] = token
        self._step(self.node, token)

    def _step(self, node, token):
        self.node = self.nodes.setdefault((node, token), len(self.nodes))
