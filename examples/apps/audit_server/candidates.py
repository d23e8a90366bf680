# SPDX-License-Identifier: MIT
"""What servers say of a place in a text: a list of token ids with their probabilities. Each server has its own fields.

A list is always aligned with its token by ids. The texts of tokens will not do: two tokens may have one text, and a token that
is a part of a character has none.
"""

import math

from http_json import ServerError, ids_in, number_in

REST = 1e-4  # the least probability that is taken from a difference: logarithms with 7 digits give it to 1e-3


class Candidates:
    """The tokens that a server lists for a place, {id: probability}. `whole`: what is not listed has probability 0."""

    def __init__(self, probabilities, whole):
        self.probabilities, self.whole = probabilities, whole

    def log_probability(self, token):
        """Of a token that is not listed: what is left for all of them together, or little."""
        rest = 0.0 if self.whole else max(1 - sum(self.probabilities.values()), REST)
        return math.log(max(self.probabilities.get(token, rest), 1e-9))

    def likeliest(self):
        """The id of the likeliest token. None where none is listed."""
        return max(self.probabilities, key=self.probabilities.get, default=None)

    def classes(self):
        """The ids that are a class each, and the probability of all other tokens together, None if the list is whole.

        It is a difference, so a small one is known badly. Then the unlikeliest of the list join the others.
        """
        if self.whole:
            return sorted(self.probabilities), None
        ids = sorted(self.probabilities, key=self.probabilities.get, reverse=True)
        rest = 1 - math.fsum(self.probabilities.values())
        while ids and rest < REST:
            rest += self.probabilities[ids.pop()]
        return sorted(ids), rest

    def greedy(self):
        """All on the likeliest token: what a drafter that does not draw will draft."""
        return Candidates({self.likeliest(): 1.0}, True) if self.probabilities else self

    def at_temperature(self, temperature):
        """p^(1/T), normalised. It needs the whole list."""
        if temperature == 1:
            return self
        if not self.whole:
            raise ServerError(f"a list of {len(self.probabilities)} tokens cannot be brought to temperature {temperature}: "
                              "ask for the whole vocabulary, or sample at temperature 1")
        most = max(self.probabilities.values())
        powers = {i: (p / most) ** (1 / temperature) if p > 0 else 0.0 for i, p in self.probabilities.items()}
        total = sum(powers.values())
        return Candidates({i: p / total for i, p in powers.items()}, True)


def top_of(pairs, count, of):
    """The `count` likeliest of (id, probability), as Candidates. 0: the list is the whole vocabulary, or what a cut left.

    Some servers add the token of the text (or the one that was drawn) to a list that it is not in. This entry must go: a class
    of tokens that is chosen by the token's value is no bet. The place in a list does not show which one was added, and it may be
    as likely as the last of the others. So of a list that is cut only what is likelier than its entry number `count` stays.
    """
    if not all(p >= 0 for _, p in pairs):
        raise ServerError(f"{of}: a candidate has a probability that is negative or NaN")
    total = math.fsum(p for _, p in pairs)
    if not total <= 1.01:
        raise ServerError(f"{of}: {len(pairs)} candidates have probability {total:.4f} together")
    full = total > 1 - 1e-5  # what is missing is rounding: a token outside the list would be impossible
    if count == 0 and not full:
        raise ServerError(f"{of}: {len(pairs)} candidates have probability {total:.6f} together. Say how many were asked for "
                          "(--top)")
    if count == 0 or len(pairs) < count:
        return Candidates(dict(pairs), full)
    last = sorted((p for _, p in pairs), reverse=True)[count - 1]
    return Candidates({i: p for i, p in pairs if p > last}, False)


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


def from_entry(entry, count, of):
    """An entry of llama.cpp's completion_probabilities, or of an OpenAI-like logprobs.content. None where its list is empty."""
    listed = entry.get("top_logprobs", entry.get("top_probs"))
    if listed is None:
        raise ServerError(f"{of} has no field top_logprobs, and no field top_probs")
    if not listed:
        return None
    for one in listed:
        if "id" not in one:
            raise ServerError(f"{of}: the candidate {one.get('token', one.get('tok_str'))!r} has no field id. "
                              "Candidates are aligned by ids")
        ids_in([one["id"]], "id", of)
    return top_of([(one["id"], _number(one, of)) for one in listed], count, of)


def from_named(listed, count, of):
    """A dictionary of OpenAI's older logprobs.top_logprobs: {"token_id:17": -1.5}."""
    return top_of([(token_id(name, of), probability(logprob, name, of)) for name, logprob in listed.items()], count, of)


def from_ranked(listed, count, of):
    """An entry of vLLM's prompt_logprobs: {"17": {"logprob": -1.5, "rank": 3}}. The token of the text is always there."""
    ranked = [(entry.get("rank") or 0, token_id(name, of), _number(entry, of)) for name, entry in listed.items()]
    kept = [(i, p) for rank, i, p in sorted(ranked) if rank <= count or count == 0]
    return top_of(kept, count, of)
