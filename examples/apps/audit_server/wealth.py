# SPDX-License-Identifier: MIT
"""What gamblers have won who began with one unit together: the evidence of an audit."""

import math


def log_mean(shares):
    """log10 of the mean wealth, from (share, log10 of the wealth of one unit)."""
    most = max(log for _, log in shares)
    return most if math.isinf(most) else most + math.log10(math.fsum(share * 10 ** (log - most) for share, log in shares))


class Wealth:
    """The wealth E of gamblers together. If the server is right it ever reaches 1/alpha with probability alpha at most."""

    largest_evidence = 0.0
    won = None  # in words: what had won most when E was largest

    def shares(self):
        """(share, log10 of its wealth) of each gambler: of the unit that they began with, and of what one unit is with him now."""
        raise NotImplementedError

    def winner(self):
        """In words what has won most."""
        raise NotImplementedError

    @property
    def evidence(self):
        """log10 of E, as it is now."""
        return log_mean(self.shares())

    def remember(self):
        """Called after each bet: E may fall again, and what it has reached stays."""
        evidence = self.evidence
        if evidence > self.largest_evidence:
            self.largest_evidence, self.won = evidence, self.winner()

    def convicts(self, alpha):
        return self.largest_evidence >= -math.log10(alpha)

    def found(self, alpha):
        """In words what the audit has found: never both that nothing speaks against the server, and a conviction."""
        if self.convicts(alpha):
            return self.won
        return f"this is no conviction, but {self.won}" if self.largest_evidence >= 1 else "nothing speaks against the server"
