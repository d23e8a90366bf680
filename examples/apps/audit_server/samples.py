# SPDX-License-Identifier: MIT
"""Texts of a server, up to a place that was settled before."""

import itertools
import json
import pathlib

from http_json import ServerError, ids_in

PROMPTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "prompts.txt"


def read_prompts(server, path):
    """A prompt a line: a text, or a JSON list of token ids."""
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    if not lines:
        raise ServerError(f"{path} has no prompts")
    return [_ids(line, path) or server.tokens_of(line) for line in lines]


# None for a text. It may start with a bracket, too: "[INST] hello".
def _ids(line, path):
    try:
        read = json.loads(line)
    except ValueError:
        return None
    return ids_in(read, "prompt", path) if isinstance(read, list) else None


class Samples:
    """Texts after prompts in turn, each of them twice in a row: so it shows soon whether texts repeat one another.

    count  how many tokens of each text are used
    spare  how many more are asked for, and left out. A server that cuts the last draft at the limit gives another law to the last
           places: those that only some drafts reach
    begun  how many texts earlier runs have written: prompts and seeds go on after them
    """

    def __init__(self, server, prompts, count, spare, first_seed, begun=0):
        self.server, self.count, self.spare = server, count, spare
        twice = [prompt for prompt in prompts for _ in range(2)]
        self.prompts = itertools.islice(itertools.cycle(twice), begun % len(twice), None)
        self.seeds = itertools.count(first_seed + begun)
        self.texts = 0
        self.end = None  # the token that has ended the last text
        self.speculated = set()  # what the server said of it
        self.cut_short = 0  # without an end token, within the spare places

    def next_prompt(self):
        return next(self.prompts)

    def after(self, prompt, speculate):
        sample = self.server.sample(prompt, self.count + self.spare, next(self.seeds), speculate)
        if len(sample.tokens) < self.count and not sample.ended:
            raise ServerError(f"a text of {self.count + self.spare} tokens stopped after {len(sample.tokens)}, and not by an end token. "
                              "Is the context full? Ask for shorter texts (--tokens): where a text stops for other reasons, its last "
                              "places have another law")
        self.texts += 1
        self.cut_short += not sample.ended and len(sample.tokens) < self.count + self.spare
        if speculate:
            self.speculated.add(sample.speculated)
        self.end = sample.tokens[-1] if sample.ended else None
        return sample.tokens[: self.count]

    def remarks(self):
        """What a reader should know of the texts."""
        if self.speculated == {None}:
            yield "the server does not say whether it speculated"
        elif True not in self.speculated:
            yield "THE SERVER DID NOT SPECULATE, so this audit says nothing about speculation"
        if self.cut_short:
            yield (f"{self.cut_short} of {self.texts} texts stopped before their limit, without an end token: the server cuts drafts "
                   "there. Those places were left out")
