# SPDX-License-Identifier: MIT
"""What gamblers have won who began with one unit together: the evidence of an audit."""

import math


class Wealth:
    """The mean wealth E of gamblers with equal stakes. If the server is right it ever reaches 1/alpha with probability alpha at most."""

    largest_evidence = 0.0

    def logs(self):
        """log10 of the wealth of each gambler, as it is now."""
        raise NotImplementedError

    @property
    def evidence(self):
        """log10 of E, as it is now."""
        logs = self.logs()
        most = max(logs)
        if math.isinf(most):
            return most
        return most + math.log10(sum(10 ** (log - most) for log in logs) / len(logs))

    def remember(self):
        """Called after each bet: E may fall again, and what it has reached stays."""
        self.largest_evidence = max(self.largest_evidence, self.evidence)

    def convicts(self, alpha):
        return self.largest_evidence >= -math.log10(alpha)
