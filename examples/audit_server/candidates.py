# SPDX-License-Identifier: MIT
"""What servers say of a place in a text: a list of token ids with their probabilities. Each server has its own fields.

A list is always aligned with its token by ids. The texts of tokens will not do: two tokens may have one text, and a token that
is a part of a character has none.
"""

import math

from http_json import ServerError


class Candidates:
    """The tokens that a server lists for a place, {id: probability}. `whole`: what is not listed has probability 0."""

    def __init__(self, probabilities, whole):
        self.probabilities, self.whole = probabilities, whole

    def log_probability(self, token):
        """Of a token that is not listed: what is left for all of them together, or little."""
        rest = 0.0 if self.whole else 1 - sum(self.probabilities.values())
        return math.log(max(self.probabilities.get(token, rest), 1e-9))

    def likeliest(self):
        """The id of the likeliest token."""
        return max(self.probabilities, key=self.probabilities.get)

    def greedy(self):
        """All on the likeliest token: what a drafter that does not draw will draft."""
        return Candidates({self.likeliest(): 1.0}, True)

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
    of tokens that is chosen by the token's value is no bet.
    """
    total = sum(p for _, p in pairs)
    if total > 1.01:
        raise ServerError(f"{of}: {len(pairs)} candidates have probability {total:.4f} together")
    full = total > 0.999
    if count == 0 and not full:
        raise ServerError(f"{of}: {len(pairs)} candidates have probability {total:.4f} together. Say how many were asked for "
                          "(--top)")
    listed = sorted(pairs, key=lambda pair: -pair[1])[: count or None]  # stable: what was added stands last
    return Candidates(dict(listed), full and (count == 0 or len(pairs) < count))


def _number(entry, of):
    if "logprob" in entry:
        return math.exp(entry["logprob"])
    if "prob" in entry:
        return entry["prob"]
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
    return top_of([(one["id"], _number(one, of)) for one in listed], count, of)


def from_named(listed, count, of):
    """A dictionary of OpenAI's older logprobs.top_logprobs: {"token_id:17": -1.5}."""
    return top_of([(token_id(name, of), math.exp(logprob)) for name, logprob in listed.items()], count, of)


def from_ranked(listed, count, of):
    """An entry of vLLM's prompt_logprobs: {"17": {"logprob": -1.5, "rank": 3}}. The token of the text is always there."""
    ranked = [(entry.get("rank") or 0, token_id(name, of), _number(entry, of)) for name, entry in listed.items()]
    kept = [(i, p) for rank, i, p in sorted(ranked) if rank <= count or count == 0]
    return top_of(kept, count, of)
