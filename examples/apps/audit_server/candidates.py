# SPDX-License-Identifier: MIT
"""What servers say of a place in a text: a list of token ids with their probabilities. Each server has its own fields.

A list is always aligned with its token by ids. The texts of tokens will not do: two tokens may have one text, and a token that
is a part of a character has none.
"""

import math

from http_json import ServerError, ids_in, number_in, object_in

REST = 1e-4  # the least probability that is taken from a difference: logarithms with 7 digits give it to 1e-3
ROUNDING = 1e-5  # what may be missing in a list that is brought to another temperature


class Candidates:
    """The tokens that a server lists for a place, {id: probability}. `whole`: the vocabulary has no others."""

    def __init__(self, probabilities, whole=False):
        self.probabilities, self.whole = probabilities, whole

    @property
    def missing(self):
        """The probability of all tokens that are not listed. It is a difference, so a small one is known badly."""
        return 0.0 if self.whole else max(1 - math.fsum(self.probabilities.values()), 0.0)

    def log_probability(self, token):
        """Of a token that is not listed: what is left for all of them together, or little."""
        rest = 0.0 if self.whole else max(self.missing, REST)
        return math.log(max(self.probabilities.get(token, rest), 1e-9))

    def likeliest(self):
        """The id of the likeliest token. None where none is listed."""
        return max(self.probabilities, key=self.probabilities.get, default=None)

    def readings(self, token):
        """What the server may have listed on its own, if it has listed this for `token`.

        Some servers add the token of the text to the likeliest ones. Nothing in the list tells whether they did, nor how many they list
        on their own: their limit may be under what was asked for. But a token that was added is the unlikeliest of the list. If it
        is another one, the list is the server's own. Otherwise there are two readings.
        """
        p = self.probabilities
        if self.whole or token not in p or p[token] > min(p.values()):
            return [self]
        return [self, Candidates({i: value for i, value in p.items() if i != token})]

    def classes(self):
        """The ids that are a class each, and the probability of all other tokens together, None if the list is whole.

        The unlikeliest of the list joins the others: so a token that was added is in one class with them, by both readings. Others
        follow where the probability of all other tokens is a small difference.
        """
        if self.whole:
            return sorted(self.probabilities), None
        least = min(self.probabilities.values(), default=0.0)
        ids = sorted((i for i, p in self.probabilities.items() if p > least), key=self.probabilities.get, reverse=True)
        rest = 1 - math.fsum(self.probabilities[i] for i in ids)
        while ids and rest < REST:
            rest += self.probabilities[ids.pop()]
        return sorted(ids), rest

    def greedy(self):
        """All on the likeliest token: what a drafter that does not draw will draft."""
        return Candidates({self.likeliest(): 1.0}, True) if self.probabilities else self

    def at_temperature(self, temperature):
        """p^(1/T), normalised. It needs the whole list. What rounding has lost is less yet under T = 1."""
        if temperature == 1:
            return self
        if not self.whole and (temperature > 1 or self.missing > ROUNDING):
            raise ServerError(f"a list of {len(self.probabilities)} tokens cannot be brought to temperature {temperature}: "
                              "ask for the whole vocabulary, or sample at temperature 1")
        most = max(self.probabilities.values())
        powers = {i: (p / most) ** (1 / temperature) if p > 0 else 0.0 for i, p in self.probabilities.items()}
        total = sum(powers.values())
        return Candidates({i: p / total for i, p in powers.items()}, self.whole)


def listed(pairs, of, vocabulary=None):
    """Candidates of (id, probability). The list is whole if it has the whole vocabulary, where its size is known. The sum does not
    show it: a token that is left out may be as unlikely as rounding is large, and would be impossible."""
    probabilities = dict(pairs)
    if not all(p >= 0 for p in probabilities.values()):
        raise ServerError(f"{of}: a candidate has a probability that is negative or NaN")
    total = math.fsum(probabilities.values())
    if not total <= 1.01:
        raise ServerError(f"{of}: {len(probabilities)} candidates have probability {total:.4f} together")
    return Candidates(probabilities, vocabulary is not None and len(probabilities) >= vocabulary)


def probability(logarithm, name, of):
    """From a logarithm. One over 0 is left to who reads the probability."""
    return math.exp(min(number_in(logarithm, name, of), 1.0))


def _number(entry, of):
    if "logprob" in entry:
        return probability(entry["logprob"], "logprob", of)
    if "prob" in entry:
        return number_in(entry["prob"], "prob", of)
    raise ServerError(f"{of} has no field logprob, and no field prob")


def token_id(name, of):
    """The id in "token_id:17", or in a key "17"."""
    words = str(name).removeprefix("token_id:")
    if not words.isdecimal():
        raise ServerError(f"{of} names the token {name!r} by its text. Ids are wanted: vLLM gives them with "
                          "return_tokens_as_token_ids")
    return int(words)


def from_entry(entry, of, vocabulary=None):
    """An entry of llama.cpp's completion_probabilities, or of an OpenAI-like logprobs.content. None where its list is empty."""
    object_in(entry, of)
    found = entry.get("top_logprobs", entry.get("top_probs"))
    if found is None:
        raise ServerError(f"{of} has no field top_logprobs, and no field top_probs")
    if not found:
        return None
    for one in found:
        if "id" not in object_in(one, f"a candidate of {of}"):
            raise ServerError(f"{of}: the candidate {one.get('token', one.get('tok_str'))!r} has no field id. "
                              "Candidates are aligned by ids")
        ids_in([one["id"]], "id", of)
    return listed([(one["id"], _number(one, of)) for one in found], of, vocabulary)


def from_named(entry, of, vocabulary=None):
    """A dictionary of OpenAI's older logprobs.top_logprobs: {"token_id:17": -1.5}."""
    return listed([(token_id(name, of), probability(logprob, name, of)) for name, logprob in object_in(entry, of).items()],
                  of, vocabulary)


def from_ranked(entry, of, vocabulary=None):
    """An entry of vLLM's prompt_logprobs: {"17": {"logprob": -1.5, "rank": 3}}. The token of the text is always there."""
    return listed([(token_id(name, of), _number(object_in(one, f"token {name} of {of}"), of))
                   for name, one in object_in(entry, of).items()], of, vocabulary)
