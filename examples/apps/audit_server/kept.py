# SPDX-License-Identifier: MIT
"""What an audit has seen, in a file of JSON lines that json_lines.py reads. A later run bets on it again, and goes on after it.

So two runs are the one long run that they would have been, and what convicts a server can be shown to others.
"""

import json
import math

from http_json import ServerError

# Options that bets do not depend on, and what may have moved.
FREE = ("alpha", "go_on", "texts", "keep", "url", "off_url", "key_variable", "prompts", "reference")


class Kept:
    """A file, or nothing if `path` is None. Settings that differ from those of the file are an error: bets that are chosen after
    one has seen the texts prove nothing."""

    def __init__(self, path, options):
        self.path, self.count = path, 0
        settings = {name: value for name, value in vars(options).items() if name not in FREE}
        self.settings = json.loads(json.dumps({**settings, "reference": bool(getattr(options, "reference", None))}))

    def lines(self):
        """The lines of earlier runs. After the last one, `count` says how many there were."""
        if self.path is None:
            return
        if not self.path.exists():
            self.write({"settings": self.settings})
        with open(self.path) as file:
            first = file.readline()
            self._check(first)
            yield first
            for line in file:
                yield line
                self.count += 1

    def _check(self, line):
        try:
            settings = json.loads(line)["settings"]
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError(f"{self.path} does not begin with the settings of an audit: --keep has not written it") from error
        for name, value in {"mode": self.settings["mode"], **self.settings}.items():
            if settings.get(name) != value:
                raise ServerError(f"{self.path} was begun with {name} = {settings.get(name)!r}, not {value!r}. To change it after texts "
                                  "were seen is another audit: name another file")

    def remarks(self):
        """What a reader should know of earlier runs."""
        if self.count:
            yield f"{self.path} had {self.count} of these texts, or pairs of texts"

    def text(self, prompt, tokens, lists, references, end):
        """Keeps a text, and gives back what TextBets.add_text takes. Lists that are not kept need not all be there at a time."""
        if self.path is not None:
            lists, references = [*lists], references and [*references]
            self.write(text_line(prompt, tokens, lists, references, end))
        return prompt, tokens, lists, references, end

    def write(self, line):
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(json.dumps(line) + "\n")


def text_line(prompt, tokens, lists, references, end):
    """A text as a line."""
    line = {"prompt": prompt, "tokens": tokens, "candidates": [*map(_logarithms, lists)]}
    left_out = [place for place, listed in enumerate(lists) if listed is None]
    whole = [len(listed.probabilities) for listed in lists if listed and listed.whole]
    optional = {"left_out": left_out, "vocabulary": min(whole, default=None), "end": end,
                "reference": [*map(_logarithms, references)] if references else None}
    return {**line, **{name: value for name, value in optional.items() if value not in (None, [])}}


def _logarithms(listed):
    return listed and {str(i): math.log(p) if p > 0 else -math.inf for i, p in listed.probabilities.items()}
