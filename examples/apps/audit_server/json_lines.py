# SPDX-License-Identifier: MIT
"""What a server wrote and listed, from a file: a JSON object a line. For servers that cannot score a text again.

    {"token": 17, "candidates": {"17": -1.5, "3": -0.3}, "reference": {"17": -0.7}}   a token; ids with log-probabilities
    {"token": 17, "logprob": -1.5, "reference_logprob": -0.7}                         a token, under two models
    {"prompt": [1], "tokens": [17, 3], "candidates": [{...}, {...}]}                  a text, with lists for each token
    {"tokens": [17, 3], "completion_probabilities": [...]}                            an answer of llama.cpp's server
    {"choices": [{"logprobs": {...}}]}                                                an answer of an OpenAI-like server
    {"prompt": [1], "tokens": [17, 3], "choices": [{"prompt_logprobs": [...]}]}       an answer of vLLM that scores a text
    {"prompt": [1], "on": [17, 3], "off": [4]}                                        a pair of texts, with speculation and without

A text may have "end", the token that has ended it, and "vocabulary", the number of all tokens: a list of so many is whole. A pair may
have "scores" of both texts. --keep writes such lines; places that had no list are then named in "left_out".
"""

import json

from candidates import from_entry, from_named, from_ranked, probability, token_id
from http_json import ServerError, field, ids_in, object_in

SPECULATED = ("Servers list none beside tokens that were speculated, or that are parts of characters. The other tokens are "
              "chosen by the step or by their value, and have not the target's law: score the text again")


def read_lines(lines, texts, pairs):
    """Reads lines, and adds what they say to texts(), which are TextBets, or to pairs(scored), which are PairBets."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            _read_line(_parse(line, number), f"line {number}", texts, pairs)


def _parse(line, number):
    try:
        read = json.loads(line)
    except ValueError as error:
        raise ServerError(f"line {number} is no JSON: {error}") from error
    return object_in(read, f"line {number}")


def _read_line(line, of, texts, pairs):
    if "settings" in line:  # of an audit that kept what it saw
        return
    if "on" in line or "off" in line:
        prompt, on, off = [ids_in(value, name, of) for name, value in (
            ("prompt", line.get("prompt", [])), ("on", field(line, "on", of=of)), ("off", field(line, "off", of=of)))]
        pairs("scores" in line).add(prompt, on, off, line.get("scores"))
    elif "reference_logprob" in line:
        texts().add_numbers(*[probability(field(line, name, of=of), name, of) for name in ("logprob", "reference_logprob")])
    elif "token" in line:
        if "candidates" not in line:
            raise ServerError(f"{of} has no field candidates, and no field reference_logprob. The probability of the token alone "
                              "cannot be bet on: a list for its place is wanted, or what another model says of the token")
        tokens, lists = ids_in([line["token"]], "token", of), [line["candidates"]]
        texts().add(tokens[0], *[one[0] for one in _candidates(line, of, tokens, lists, [line.get("reference")])])
    else:
        tokens, lists = _text(line, of)
        ids_in(tokens, "tokens", of)
        read = _candidates(line, of, tokens, lists, line.get("reference", [None] * len(tokens)))
        texts().add_text(ids_in(line.get("prompt", []), "prompt", of), tokens, *read, line.get("end"))


# The candidates for each token, and those of the reference, or None.
def _candidates(line, of, tokens, lists, references):
    for name, value in ("what is listed for the tokens", lists), ("the field reference", references):
        if not isinstance(value, list):
            raise ServerError(f"{of}: {name} is no list")
    if len(lists) != len(tokens) or len(references) != len(tokens):
        raise ServerError(f"{of} has {len(tokens)} tokens, but {len(lists)} lists and {len(references)} references. {SPECULATED}")
    read, left_out = [], line.get("left_out", [])
    for place, entry in enumerate(lists):
        read.append(None if place in left_out else _entry(entry, f"{of}, token {place}", line.get("vocabulary")))
        if read[-1] is None and place not in left_out:
            raise ServerError(f"{of}, token {place} has no list. {SPECULATED}")
    return read, [entry and _chosen(_entry(entry, f"{of}, reference {place}")) for place, entry in enumerate(references)]


# A reference that puts all on one token was made by hand, or by a greedy drafter: no server has added this token.
def _chosen(reference):
    return reference.greedy() if reference and [*reference.probabilities.values()] == [1.0] else reference


# Token ids of a text, and what is listed for each.
def _text(line, of):
    if "candidates" in line:
        return field(line, "tokens", of=of), line["candidates"]
    if "completion_probabilities" in line:
        entries = line["completion_probabilities"]
        return line.get("tokens") or [field(entry, "id", of=of) for entry in entries], entries
    choice = field(line, "choices", 0, of=of)
    if choice.get("prompt_logprobs"):
        prompt, tokens = field(line, "prompt", of=of), field(line, "tokens", of=of)
        return tokens, choice["prompt_logprobs"][len(prompt) :][: len(tokens)]
    logprobs = field(choice, "logprobs", of=f"{of}: choices[0]")
    if "content" in logprobs:
        entries = logprobs["content"]
        return choice.get("token_ids") or [field(entry, "id", of=of) for entry in entries], entries
    names = field(logprobs, "tokens", of=f"{of}: choices[0].logprobs")
    return [token_id(name, of) for name in names], field(logprobs, "top_logprobs", of=f"{of}: choices[0].logprobs")


def _entry(entry, of, vocabulary=None):
    if not entry:
        return None
    if isinstance(entry, list):  # of {"id", "logprob"}, or of pairs
        entry = {"top_logprobs": [one if isinstance(one, dict) else {"id": one[0], "logprob": one[1]} for one in entry]}
    if not isinstance(entry, dict):
        raise ServerError(f"{of}: the candidates are no list, and no object")
    if "top_logprobs" in entry or "top_probs" in entry:
        return from_entry(entry, of, vocabulary)
    if all(isinstance(value, dict) for value in entry.values()):
        return from_ranked(entry, of, vocabulary)
    return from_named(entry, of, vocabulary)
