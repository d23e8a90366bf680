# SPDX-License-Identifier: MIT
"""An OpenAI-like server, as vLLM's: /v1/completions, with token ids."""

from candidates import from_entry, from_named, from_ranked, token_id
from http_json import ServerError, field, ids_in
from sample import Sample

WHERE = "/v1/completions"
ATTEMPTS = 16  # to get a list, where the token that is drawn is a part of a character
SEED = 2_000_000_000  # of scoring: no text has it


class OpenAiServer:
    """Requests to /v1/completions. Prompts and texts are token ids.

    model        its name; None: the first of /v1/models
    top          how many candidates to ask for. A server has a limit (vLLM: --max-logprobs)
    temperature  of the texts. Another than 1 needs lists of the whole vocabulary
    by           "prompt": a text is scored in one request, by prompt_logprobs; "next": a token in one request, by logprobs
    end_token    the id of the token that ends a text: some servers do not return it
    more, off    fields of every request, and of those without speculation
    """

    def __init__(self, http, model=None, top=20, temperature=1.0, by="prompt", end_token=None, more=None, off=None):
        self.http, self.top, self.temperature, self.by, self.end_token = http, top or 20, temperature, by, end_token
        self.more, self.off = more or {}, off or {}
        self.lists = False  # whether it ever had one
        self.model = model or field(http.get("/v1/models"), "data", 0, "id", of="/v1/models")

    def draft_max(self):
        return None

    def tokens_of(self, text):
        answer = self.http.post("/tokenize", {"model": self.model, "prompt": text})
        return ids_in(field(answer, "tokens", of="/tokenize"), "tokens", "/tokenize")

    def _post(self, prompt, **fields):
        body = {"model": self.model, "prompt": prompt, "temperature": self.temperature, "top_p": 1,
                "return_tokens_as_token_ids": True, **fields}
        answer = self.http.post(WHERE, body)
        return {**field(answer, "choices", 0, of=WHERE), "usage": answer.get("usage") or {}}

    def sample(self, prompt, count, seed, speculate):
        """A text of `count` tokens, fewer if it ends."""
        choice = self._post(prompt, max_tokens=count, seed=seed, logprobs=1, return_token_ids=True, **self.more,
                            **({} if speculate else self.off))
        tokens = choice.get("token_ids")
        if tokens is None:
            tokens = self._logprob_ids(choice)
        ids_in(tokens, "token_ids", f"{WHERE}: choices[0]")
        ended = choice.get("finish_reason") == "stop"
        if ended and self.end_token is None:
            raise ServerError(f"{WHERE}: a text has ended. Name the end token's id (--end-token): it is a token as any other, and "
                              "to leave it out would convict a right server")
        if ended and tokens[-1:] != [self.end_token]:
            tokens = [*tokens, self._left_out(tokens, choice["usage"].get("completion_tokens"))]
        return Sample(tokens, ended, None)

    # The end token of a text without it: it was written, so it is counted. Else the text was ended by another token.
    def _left_out(self, tokens, written):
        if written != len(tokens) + 1:
            raise ServerError(f"{WHERE}: a text of {len(tokens)} tokens was ended by another token than --end-token {self.end_token}, or "
                              f"it does not count it: its last one is {tokens[-1:]}, and usage.completion_tokens is {written}")
        return self.end_token

    # The ids beside the log-probabilities, which some servers do not give for tokens that are parts of characters.
    def _logprob_ids(self, choice):
        of = f"{WHERE}: choices[0]"
        logprobs = field(choice, "logprobs", of=of)
        if "content" in logprobs:
            ids = [field(entry, "id", of=of + ".logprobs.content") for entry in logprobs["content"]]
        else:
            ids = [token_id(name, of + ".logprobs.tokens") for name in field(logprobs, "tokens", of=of + ".logprobs")]
        written = choice["usage"].get("completion_tokens", len(ids))
        if written != len(ids):
            raise ServerError(f"{of}.logprobs has {len(ids)} entries for {written} tokens, and there is no field "
                              "token_ids (llama.cpp: --api llama)")
        return ids

    def score(self, prompt, text):
        """For each token of the text the candidates for its place."""
        scored = self._by_prompt(prompt, text) if self.by == "prompt" else self._by_next(prompt, text)
        for listed in scored:
            yield listed and listed.at_temperature(self.temperature)

    def _by_prompt(self, prompt, text):
        choice = self._post([*prompt, *text], max_tokens=1, prompt_logprobs=self.top, **self.more, **self.off)
        entries = field(choice, "prompt_logprobs", of=f"{WHERE}: choices[0]")
        if len(entries) != len(prompt) + len(text):
            raise ServerError(f"{WHERE}: prompt_logprobs has {len(entries)} entries for {len(prompt) + len(text)} tokens")
        for place, entry in enumerate(entries[len(prompt) :], len(prompt)):
            of = f"{WHERE}: choices[0].prompt_logprobs[{place}]"
            if entry is None:
                raise ServerError(f"{of} is null, though it belongs to a token of the text: a prompt that is read from a cache has no "
                                  "lists. Switch the server's prefix cache off, or score with --by next")
            yield from_ranked(entry, of)

    # Where the token that the server draws now is a part of a character, some servers have no list. It draws again then: the list is
    # the same.
    def _by_next(self, prompt, text):
        for place in range(len(text)):
            yield self._next([*prompt, *text[:place]])

    def _next(self, prefix):
        for attempt in range(ATTEMPTS):
            choice = self._post(prefix, max_tokens=1, logprobs=self.top, seed=SEED + attempt, **self.more, **self.off)
            if choice.get("logprobs"):
                self.lists = True
                return self._next_candidates(choice["logprobs"])
        if not self.lists:
            raise ServerError(f"{WHERE}: choices[0] has no field logprobs, in {ATTEMPTS} answers")
        return None

    def _next_candidates(self, logprobs):
        of = f"{WHERE}: choices[0].logprobs"
        if "content" in logprobs:
            return from_entry(field(logprobs, "content", 0, of=of), of + ".content[0]")
        return from_named(field(logprobs, "top_logprobs", 0, of=of), of + ".top_logprobs[0]")
