# SPDX-License-Identifier: MIT
"""llama.cpp's server: texts with and without speculation, and what it says of a finished text."""

from candidates import from_entry
from http_json import ServerError, field, ids_in, number_in
from sample import Sample

NO_SPECULATION = {"speculative.n_max": 0}
ATTEMPTS = 16  # to get a list, where the token that is drawn is a part of a character
SEED = 2_000_000_000  # of scoring: no text has it


class LlamaServer:
    """Requests to /completion. Prompts and texts are token ids.

    top          how many candidates to ask for; 0: the whole vocabulary
    temperature  of the texts
    after        ask for probabilities after the chain of samplers, with the fields of `more`. Otherwise the chain is the temperature
                 alone, and probabilities are those before it
    more, off    fields of every request, and of those without speculation
    """

    def __init__(self, http, top=0, temperature=1.0, after=False, more=None, off=None):
        self.http, self.temperature, self.after = http, temperature, after
        self.more = {} if more is None else more
        self.off = NO_SPECULATION if off is None else off
        self.vocabulary = None if top else self._vocabulary()
        self.asked = top or self.vocabulary
        self.first = True
        self.lists = False  # whether it ever had one
        self.chain = {"temperature": temperature} if after else {"temperature": temperature, "samplers": ["temperature"]}

    def _vocabulary(self):
        return field(self.http.get("/v1/models"), "data", 0, "meta", "n_vocab", of="/v1/models")

    def draft_max(self):
        """The most tokens that a draft has, or None if the server does not say. (/props has llama.cpp's default, not the server's.)"""
        answer = self.http.post("/completion", {"prompt": "a", "n_predict": 1, **self.more})
        settings = answer.get("generation_settings")
        most = settings.get("speculative.n_max") if isinstance(settings, dict) else None
        return most if type(most) is int else None

    def tokens_of(self, text):
        answer = self.http.post("/tokenize", {"content": text, "add_special": True})
        return ids_in(field(answer, "tokens", of="/tokenize"), "tokens", "/tokenize")

    def sample(self, prompt, count, seed, speculate):
        """A text of `count` tokens, fewer if it ends."""
        body = {"prompt": prompt, "n_predict": count, "seed": seed, "return_tokens": True, "cache_prompt": True,
                **self.chain, **self.more, **({} if speculate else self.off)}
        if speculate and self.first:
            body["n_probs"], self.first = 1, False
        answer = self.http.post("/completion", body)
        tokens = ids_in(field(answer, "tokens", of="/completion"), "tokens", "/completion")
        if not tokens:
            raise ServerError("/completion has an empty field tokens, though return_tokens was asked for")
        return Sample(tokens, answer.get("stop_type") == "eos", speculated(answer))

    def score(self, prompt, text):
        """For each token of the text the candidates for its place, or None where there are none: one request a token.

        The first request computes the prompt anew. So a cache that speculation has spoilt is not read.
        """
        slot = {}
        for place in range(len(text)):
            body = {"prompt": [*prompt, *text[:place]], "n_predict": 1, "n_probs": self.asked, "cache_prompt": place > 0,
                    "post_sampling_probs": self.after, **self.chain, **self.more, **self.off, **slot}
            listed, answer = self._candidates(body)
            if "id_slot" in answer:
                slot = {"id_slot": answer["id_slot"]}
            yield listed

    # Where the token that the server draws now is a part of a character, there is no entry. It draws again then: the list is the same.
    def _candidates(self, body):
        for attempt in range(ATTEMPTS):
            answer = self.http.post("/completion", {**body, "seed": SEED + attempt})
            entries = answer.get("completion_probabilities")
            if entries:
                self.lists = True
                listed = from_entry(entries[0], "completion_probabilities[0] of /completion", self.vocabulary)
                return listed and listed.at_temperature(1.0 if self.after else self.temperature), answer
            body = {**body, "cache_prompt": True}
        if not self.lists:
            raise ServerError(f"/completion has no field completion_probabilities, in {ATTEMPTS} answers")
        return None, answer


def speculated(answer):
    """Whether tokens were drafted, if the answer says so. Newer servers count them. All of them list nothing beside speculated tokens,
    which the first text is asked to show."""
    timings = answer.get("timings")
    if isinstance(timings, dict) and "draft_n" in timings:
        return number_in(timings["draft_n"], "timings.draft_n", "/completion") > 0
    entries = answer.get("completion_probabilities")
    return None if entries is None else any(not entry.get("top_logprobs", entry.get("top_probs")) for entry in entries)
