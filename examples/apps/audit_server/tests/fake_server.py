# SPDX-License-Identifier: MIT
"""A server with a toy model, on 127.0.0.1: fields of llama.cpp and of vLLM, right speculation or a planted mistake.

It behaves as servers do where it hurts: it lists nothing beside speculated tokens, has no entry for tokens that are parts of
a character, and cuts a draft that is accepted up to the limit.
"""

import contextlib
import functools
import http.server
import json
import math
import random
import threading

VOCABULARY = 14
END, PARTS = 0, (12, 13)  # the end token; tokens that are parts of a character
DRAFT_MAX = 3
SLOT = 7


def row(context, name="target"):
    """The model's row after a context."""
    return row_after(tuple(context[-2:]), name)


@functools.cache
def row_after(last, name):
    """The draft model's row is the target's with noise on it."""
    source = random.Random(repr(("target", last)))
    logits = [1.5 * source.gauss(0, 1) for _ in range(VOCABULARY)]
    logits[END] -= 3
    if name == "draft":
        source = random.Random(repr(("draft", last)))
        logits = [x + 0.7 * source.gauss(0, 1) for x in logits]
    powers = [math.exp(x) for x in logits]
    return [p / sum(powers) for p in powers]


def draw(p, source):
    return source.choices(range(len(p)), p)[0]


class Text:
    """A text that is written with speculation or without. `least`: the planted mistake accepts drafts of this probability."""

    def __init__(self, prompt, count, seed, speculate, least, name):
        source = random.Random(seed)
        self.tokens, self.speculated = [], []
        step = 0
        while len(self.tokens) < count and END not in self.tokens:
            context = [*prompt, *self.tokens]
            p, q = row(context, name), row(context, "draft")
            drafted = max(range(VOCABULARY), key=q.__getitem__)
            token = draw(p, source)
            in_draft = speculate and step % (DRAFT_MAX + 1) > 0
            if in_draft and least is not None and p[drafted] >= least:
                token = drafted
            self.tokens.append(token)
            self.speculated.append(in_draft)
            step = step + 1 if not in_draft or token == drafted else 0
        self.ended = END in self.tokens
        accepted = (step - 1) % (DRAFT_MAX + 1) if step > 0 else 0
        if speculate and not self.ended and accepted > 0:  # a draft that is accepted up to the limit is cut
            del self.tokens[-accepted:], self.speculated[-accepted:]


class Handler(http.server.BaseHTTPRequestHandler):
    wbufsize = -1  # one packet an answer

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer({
            "/v1/models": {"data": [{"id": "toy", "meta": {"n_vocab": VOCABULARY}}]},
        }[self.path])

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        if len(self.server.bodies) > self.server.most:
            return self.send_error(500)
        self.answer({"/tokenize": self.tokenize, "/completion": self.completion,
                     "/v1/completions": self.openai}[self.path](body))

    def answer(self, value):
        for part in [value, *value.get("choices", [])]:
            for name in self.server.without:
                part.pop(name, None)
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def tokenize(self, body):
        return {"tokens": [1 + ord(c) % 11 for c in body.get("content", body.get("prompt"))]}

    def text(self, body, count):
        speculate = body.get("speculative.n_max", DRAFT_MAX) > 0
        seed = body.get("seed", 1) if self.server.seed is None else self.server.seed
        return Text(body["prompt"], count, seed, speculate, self.server.least, self.server.name)

    def completion(self, body):
        text = self.text(body, body["n_predict"])
        answer = {"tokens": text.tokens, "stop_type": "eos" if text.ended else "limit", "id_slot": SLOT,
                  "generation_settings": {"speculative.n_max": DRAFT_MAX}}
        if body.get("n_probs"):
            answer["completion_probabilities"] = self.entries(body, text)
        return answer

    def entries(self, body, text):
        found = []
        for place, (token, speculated) in enumerate(zip(text.tokens, text.speculated)):
            if token in PARTS:
                continue
            p = row([*body["prompt"], *text.tokens[:place]], self.server.name)
            best = sorted(range(VOCABULARY), key=lambda i: -p[i])[: body["n_probs"]]
            listed = [] if speculated else [{"id": i, "token": "?", "logprob": math.log(p[i])} for i in best]
            found.append({"id": token, "logprob": 0 if speculated else math.log(p[token]), "top_logprobs": listed})
        return found

    def openai(self, body):
        text = self.text(body, body["max_tokens"])
        tokens = text.tokens[:-1] if text.ended else text.tokens  # the end token is not returned
        choice = {"token_ids": tokens, "finish_reason": "stop" if text.ended else "length"}
        if "prompt_logprobs" in body:
            choice["prompt_logprobs"] = [None] + [
                ranked(row(body["prompt"][:i], self.server.name), body["prompt"][i], body["prompt_logprobs"])
                for i in range(1, len(body["prompt"]))]
            if self.server.null:
                choice["prompt_logprobs"][-1] = None
        if body.get("logprobs") and text.tokens[0] not in PARTS:
            p = row(body["prompt"], self.server.name)
            first = ranked(p, text.tokens[0], body["logprobs"])
            choice["logprobs"] = {"top_logprobs": [{f"token_id:{i}": entry["logprob"] for i, entry in first.items()}],
                                  "tokens": [f"token_id:{i}" for i in tokens]}
        return {"choices": [choice], "usage": {"completion_tokens": len(text.tokens)}}


def ranked(p, token, count):
    """The `count` likeliest tokens, and this one."""
    order = sorted(range(VOCABULARY), key=lambda i: -p[i])
    return {str(i): {"logprob": math.log(p[i]), "rank": rank}
            for rank, i in enumerate(order, 1) if rank <= count or i == token}


@contextlib.contextmanager
def running(least=None, name="target", without=(), bodies=None, most=float("inf"), seed=None, null=False):
    """The URL of a server that runs.

    without  names of fields that it leaves out
    bodies   a list that the bodies of requests are appended to
    most     it answers so many requests, and then errors
    seed     the seed of all its texts, whatever a request says
    null     in place of the last list of a prompt
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.least, server.name, server.without, server.most, server.seed, server.null = least, name, without, most, seed, null
    server.bodies = [] if bodies is None else bodies
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
