# SPDX-License-Identifier: MIT
"""What a server wrote and listed, from a file: a JSON object a line. For servers that cannot score a text again.

    {"token": 17, "candidates": {"17": -1.5, "3": -0.3}, "reference": {"17": -0.7}}   a token; ids with log-probabilities
    {"token": 17, "logprob": -1.5, "reference_logprob": -0.7}                         a token, under two models
    {"prompt": [1], "tokens": [17, 3], "candidates": [{...}, {...}]}                  a text, with lists for each token
    {"tokens": [17, 3], "completion_probabilities": [...]}                            an answer of llama.cpp's server
    {"choices": [{"logprobs": {...}}]}                                                an answer of an OpenAI-like server
    {"prompt": [1], "tokens": [17, 3], "choices": [{"prompt_logprobs": [...]}]}       an answer of vLLM that scores a text
    {"prompt": [1], "on": [17, 3], "off": [4]}                                        a pair of texts, with speculation and without
"""

import json

from candidates import from_entry, from_named, from_ranked, probability, token_id
from http_json import ServerError, field, ids_in

SPECULATED = ("Servers list none beside tokens that were speculated, or that are parts of characters. The other tokens are "
              "chosen by the step or by their value, and have not the target's law: score the text again")


def read_lines(lines, top, add_text, add_numbers, add_pair):
    """Reads lines, and calls add_text(token, candidates, reference), add_numbers(p, r) or add_pair(prompt, on, off).

    top: how many candidates the lists were asked for; 0: they are whole
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            _read_line(_parse(line, number), f"line {number}", top, add_text, add_numbers, add_pair)


def _parse(line, number):
    try:
        read = json.loads(line)
    except ValueError as error:
        raise ServerError(f"line {number} is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise ServerError(f"line {number} is no JSON object")
    return read


def _read_line(line, of, top, add_text, add_numbers, add_pair):
    if "on" in line or "off" in line:
        add_pair(*[ids_in(value, name, of) for name, value in (
            ("prompt", line.get("prompt", [])), ("on", field(line, "on", of=of)), ("off", field(line, "off", of=of)))])
    elif "reference_logprob" in line:
        add_numbers(*[probability(field(line, name, of=of), name, of) for name in ("logprob", "reference_logprob")])
    else:
        for token, listed, reference in _scored(line, of, top):
            add_text(token, listed, reference)


# (token, candidates, reference or None) for each token of a line.
def _scored(line, of, top):
    if "token" in line:
        if "candidates" not in line:
            raise ServerError(f"{of} has no field candidates, and no field reference_logprob. The probability of the token alone "
                              "cannot be bet on: a list for its place is wanted, or what another model says of the token")
        tokens, listed = ids_in([line["token"]], "token", of), [line["candidates"]]
        references = [line.get("reference")]
    else:
        tokens, listed = _text(line, of)
        ids_in(tokens, "tokens", of)
        references = line.get("reference", [None] * len(tokens))
    for name, value in ("what is listed for the tokens", listed), ("the field reference", references):
        if not isinstance(value, list):
            raise ServerError(f"{of}: {name} is no list")
    if len(listed) != len(tokens) or len(references) != len(tokens):
        raise ServerError(f"{of} has {len(tokens)} tokens, but {len(listed)} lists and {len(references)} references. {SPECULATED}")
    for place, (token, entry, reference) in enumerate(zip(tokens, listed, references)):
        at = f"{of}, token {place}"
        candidates = _candidates(entry, top, at)
        if candidates is None:
            raise ServerError(f"{at} has no list. {SPECULATED}")
        yield token, candidates, reference and _candidates(reference, 1 << 30, at)


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


def _candidates(entry, top, of):
    if not entry:
        return None
    if isinstance(entry, list):  # of {"id", "logprob"}, or of pairs
        entry = {"top_logprobs": [one if isinstance(one, dict) else {"id": one[0], "logprob": one[1]} for one in entry]}
    if not isinstance(entry, dict):
        raise ServerError(f"{of}: the candidates are no list, and no object")
    if "top_logprobs" in entry or "top_probs" in entry:
        return from_entry(entry, top, of)
    if all(isinstance(value, dict) for value in entry.values()):
        return from_ranked(entry, top, of)
    return from_named(entry, top, of)
