# SPDX-License-Identifier: MIT
"""Two samples, texts with speculation and texts without: can one tell which is which?

Both texts of a pair continue one prompt. If speculation is right they have one law, so either of them is the one with speculation
with probability 1/2, whatever one has seen before. A gambler looks at a number of each text, and bets that the larger one is
of the text with speculation (or without), as often as it was so far. If he was right n times of N, he believes to be right with
probability (n + 1/2) / (N + 1) (Krichevsky and Trofimov 1981), and twice this is the factor of his wealth: its mean is 1, given the
past. The mean wealth E of the gamblers reaches 1/alpha with probability alpha at most, at any time.
"""

import collections
import math

from wealth import Wealth


class Gambler:
    """Bets on the sign of a difference."""

    def __init__(self):
        self.larger = self.smaller = 0
        self.log_wealth = 0.0

    def take(self, difference):
        """The number of the text with speculation, minus the number of the other one. Equal numbers are no bet, and NaN is none."""
        if not abs(difference) > 0:
            return
        hits = self.larger if difference > 0 else self.smaller
        self.log_wealth += math.log(2 * (hits + 0.5) / (self.larger + self.smaller + 1))
        if difference > 0:
            self.larger += 1
        else:
            self.smaller += 1

    @property
    def evidence(self):
        return self.log_wealth / math.log(10)


class Counts:
    """How often tokens came in texts, alone and after the token before. It learns."""

    def __init__(self):
        self.alone, self.after, self.total = collections.Counter(), collections.defaultdict(collections.Counter), 0

    def learn(self, prompt, text):
        for before, token in zip([*prompt[-1:], *text], text):
            self.alone[token] += 1
            self.after[before][token] += 1
            self.total += 1

    def surprise(self, prompt, text):
        """The mean of -log of a token's share, the share after the last token being mixed with the share alone."""
        sum_ = 0.0
        for before, token in zip([*prompt[-1:], *text], text):
            alone = (self.alone[token] + 0.5) / (self.total + 0.5 * len(self.alone) + 1)
            after = self.after.get(before, {})
            seen = sum(after.values()) if after else 0
            sum_ -= math.log((after.get(token, 0) + 4 * alone) / (seen + 4))
        return sum_ / max(len(text), 1)


class Repeats:
    """How many texts are equal to an earlier text after the same prompt."""

    def __init__(self):
        self.texts, self.later, self.equal = collections.defaultdict(set), 0, 0

    def add(self, prompt, text):
        earlier = self.texts[tuple(prompt)]
        self.later += bool(earlier)
        self.equal += tuple(text) in earlier
        earlier.add(tuple(text))

    def most(self):
        return 2 * self.equal > self.later

    def __str__(self):
        return f"{self.equal} of {self.later} texts are equal to an earlier text of their prompt"


def repeats(prompt, text):
    """The share of pairs of tokens that stand further up already."""
    whole = [*prompt[-1:], *text]
    pairs = list(zip(whole, whole[1:]))
    return 1 - len(set(pairs)) / max(len(pairs), 1)


class PairBets(Wealth):
    """Gamblers on what speculation gone wrong does to texts."""

    # What is known if a number is larger in the texts with speculation, and if it is smaller.
    names = {
        "surprise": ("are more surprising, after the texts so far", "are less surprising, after the texts so far"),
        "learnt": ("are like those with speculation so far", "are like those without speculation so far"),
        "repeats": ("repeat themselves more", "repeat themselves less"),
        "length": ("are longer", "are shorter"),
        "score": ("have likelier tokens", "have unlikelier tokens"),
    }

    def __init__(self, scored=False):
        self.gamblers = {name: Gambler() for name in self.names if name != "score" or scored}
        self.all, self.on, self.off = Counts(), Counts(), Counts()
        self.on_texts, self.off_texts = Repeats(), Repeats()
        self.pairs = 0

    def add(self, prompt, on, off, scores=None):
        """The next pair: token ids of the prompt, of a text with speculation, and of a text without; and any number of each text that a
        function of the text gives, as its mean log-probability."""
        one, other = self._numbers(prompt, on), self._numbers(prompt, off)
        one["score"], other["score"] = scores or (0.0, 0.0)
        for name, gambler in self.gamblers.items():
            gambler.take(one[name] - other[name])
        self.pairs += 1
        self.remember()
        for counts, texts in (self.all, (on, off)), (self.on, (on,)), (self.off, (off,)):
            for text in texts:
                counts.learn(prompt, text)
        self.on_texts.add(prompt, on)
        self.off_texts.add(prompt, off)

    # Numbers of one text, from the pairs before. None of them knows whether the text is one with speculation.
    def _numbers(self, prompt, text):
        return {
            "surprise": self.all.surprise(prompt, text),
            "learnt": self.off.surprise(prompt, text) - self.on.surprise(prompt, text),
            "repeats": repeats(prompt, text),
            "length": len(text),
        }

    def shares(self):
        return [(1 / len(self.gamblers), gambler.evidence) for gambler in self.gamblers.values()]

    def winner(self):
        """In words what the gambler who won most has bet on."""
        name = max(self.gamblers, key=lambda name: self.gamblers[name].evidence)
        larger, smaller = self.gamblers[name].larger, self.gamblers[name].smaller
        words = self.names[name][larger < smaller]
        return f"texts with speculation {words} ({name}: larger in {larger} pairs, smaller in {smaller})"

    def depends(self, alpha):
        """Whether pairs that convict are not independent: most texts without speculation are one that came before. What tells such texts
        from others may be the seed alone."""
        return self.convicts(alpha) and self.off_texts.most()
