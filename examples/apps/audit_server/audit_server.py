#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is the text that a server writes its model's? An audit over HTTP, without code in the server.

See examples/prove/audit_server.md.

    audit_server.py rescore http://127.0.0.1:8080            texts with speculation, scored again by the server without it
    audit_server.py compare http://127.0.0.1:8080            texts with speculation and without: which is which?
    audit_server.py lines FILE                               what another program has asked a server

The evidence E is a bet's wealth: a right server ever reaches 1/alpha with probability alpha at most, so the audit may be stopped
or go on at any time. Ends with status 0 if nothing speaks against the server, 1 if it is convicted, 2 for errors.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import sys

from http_json import Server, ServerError
from json_lines import read_lines
from llama_server import LlamaServer
from openai_server import OpenAiServer
from pair_bets import PairBets
from samples import PROMPTS, Samples, read_prompts
from text_bets import EDGES, TextBets

DRAFT_MAX = 16  # where a server does not say it


def pair(words):
    """name=value, where the value is JSON, or else a text."""
    name, equal, value = words.partition("=")
    if not equal:
        raise argparse.ArgumentTypeError(f"{words!r} is not name=value")
    with contextlib.suppress(ValueError):
        value = json.loads(value)
    return name, value


def number(kind, least, most=float("inf"), over=False):
    """A type of arguments: numbers from `least`, or over it, up to `most`."""
    def read(words):
        value = kind(words)
        if not least <= value <= most or (over and value == least):
            raise argparse.ArgumentTypeError(
                f"{words} is not " + (f"over {least}" if over else f"{least} or more") + (f", up to {most}" if most < float("inf") else ""))
        return value
    return read


def arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--alpha", type=number(float, 0, 1, over=True), default=1e-6, help="convict at E = 1/alpha (default 1e-6)")
    common.add_argument("--top", type=number(int, 0), default=0, help="candidates a list, 2 or more; 0: the whole vocabulary")
    common.add_argument("--tolerance", type=number(float, 0, 1), default=1e-3, help="what logarithms of probabilities may be wrong by")
    common.add_argument("--go-on", action="store_true", help="go on after a conviction")

    asking = argparse.ArgumentParser(add_help=False)
    asking.add_argument("url", help="http://127.0.0.1:8080")
    asking.add_argument("--api", choices=("llama", "openai"), default="llama", help="the fields of the server")
    asking.add_argument("--model", help="its name, for --api openai")
    asking.add_argument("--key-variable", metavar="NAME", help="the environment variable that holds the server's key")
    asking.add_argument("--prompts", type=pathlib.Path, default=PROMPTS, help="a prompt a line, as text or as a list of ids")
    asking.add_argument("--texts", type=number(int, 1), default=300, help="how many texts, or pairs of texts")
    asking.add_argument("--tokens", type=number(int, 1), default=32, help="tokens of each text that are used")
    asking.add_argument("--draft-max", type=number(int, 0), help="the most tokens of a draft; one more is left out at the end of each text")
    asking.add_argument("--temperature", type=number(float, 0, over=True), default=1.0)
    asking.add_argument("--seed", type=int, default=1, help="the seed of the first text")
    asking.add_argument("--end-token", type=int, help="the id of the end token, for servers that do not return it")
    asking.add_argument("--field", type=pair, action="append", default=[], metavar="NAME=VALUE", help="a field of every request")
    asking.add_argument("--off-field", type=pair, action="append", metavar="NAME=VALUE",
                        help="a field of requests without speculation (llama: speculative.n_max=0)")
    asking.add_argument("--off-url", help="a server without speculation for these requests; default: the same server")

    rescore_ = modes.add_parser("rescore", parents=[asking, common], help="score texts again, without speculation")
    rescore_.add_argument("--reference", metavar="URL", help="a server of the draft model: its lists find more, sooner")
    rescore_.add_argument("--drafts", choices=("likeliest", "drawn"), default="likeliest",
                          help="whether the drafter takes its likeliest token (llama.cpp), or draws one")
    rescore_.add_argument("--after", action="store_true", help="llama: probabilities after the samplers (top-k, penalties, ...)")
    rescore_.add_argument("--by", choices=("prompt", "next"), default="prompt", help="openai: the fields to score by")
    compare_ = modes.add_parser("compare", parents=[asking, common], help="tell texts with speculation from texts without")
    compare_.add_argument("--score", action="store_true", help="also by what the server says of each text: a request a token")
    lines = modes.add_parser("lines", parents=[common], help="read JSON lines")
    lines.add_argument("file", nargs="?", default="-", help="-: the standard input")
    read = parser.parse_args(given)
    if read.top == 1:
        parser.error("--top 1: the last of a list is left out, so nothing stays. Say 2 or more")
    return read


def server_at(url, options, model=None):
    http = Server(url, os.environ.get(options.key_variable) if options.key_variable else None)
    more, off = dict(options.field), dict(options.off_field) if options.off_field else None
    if options.api == "llama":
        return LlamaServer(http, options.top, options.temperature, getattr(options, "after", False), more, off)
    return OpenAiServer(http, model, options.top, options.temperature, getattr(options, "by", "prompt"),
                        options.end_token, more, off)


def samples_of(server, options):
    draft_max = options.draft_max
    if draft_max is None:
        draft_max = server.draft_max()
    if draft_max is None:
        draft_max = DRAFT_MAX
        print(f"the server does not say how many tokens it drafts: {draft_max + 1} places are left out at the end of texts")
    return Samples(server, read_prompts(server, options.prompts), options.tokens, draft_max + 1, options.seed)


class Progress:
    """A line now and then, at each doubling of the texts."""

    def __init__(self):
        self.next = 8

    def tell(self, texts, bets):
        if texts >= self.next:
            self.next *= 2
            print(f"  {texts} texts: E = 10^{bets.evidence:.2f}", flush=True)


def take_texts(options, bets, take):
    """Takes texts until they convict. What went wrong before that, or None: the evidence so far stays."""
    progress = Progress()
    for done in range(1, options.texts + 1):
        try:
            take()
        except Exception as error:
            return error
        progress.tell(done, bets)
        if bets.convicts(options.alpha) and not options.go_on:
            break
    return None


def status_after(status, error):
    """Of a report. A conviction stays one, whatever went wrong after it."""
    if error:
        tell(error)
    return 2 if error and status == 0 else status


def rescore(options):
    server = server_at(options.url, options, options.model)
    scorer = server_at(options.off_url, options, options.model) if options.off_url else server
    reference = server_at(options.reference, options) if options.reference else None
    bets, samples = TextBets(options.tolerance, options.seed), samples_of(server, options)
    left_out = 0

    def take():
        nonlocal left_out
        prompt = samples.next_prompt()
        text = samples.after(prompt, speculate=True)
        beside = reference.score(prompt, text) if reference else [None] * len(text)
        for token, listed, seen in zip(text, scorer.score(prompt, text), beside):
            if listed is None:
                left_out += 1
            else:
                bets.add(token, listed, seen.greedy() if seen and options.drafts == "likeliest" else seen)

    error = take_texts(options, bets, take)
    if bets.audit.report().tokens == 0:
        raise error or ServerError(f"the server has no list for any of {left_out} places")
    remarks = [*samples.remarks()]
    if left_out:
        remarks.append(f"{left_out} places without a list were left out")
    return status_after(report_text(bets, options.alpha, remarks), error)


def compare(options):
    server = server_at(options.url, options, options.model)
    without = server_at(options.off_url, options, options.model) if options.off_url else server
    bets = PairBets(options.score)
    samples = samples_of(server, options)
    others = Samples(without, [[]], options.tokens, samples.spare, options.seed + 1_000_000)
    coin = random.Random(options.seed)

    def take():
        prompt = samples.next_prompt()
        texts = {speculate: (samples if speculate else others).after(prompt, speculate) for speculate in in_any_order(coin)}
        scores = scores_of(without, prompt, texts, coin) if options.score else [0.0, 0.0]
        bets.add(prompt, texts[True], texts[False], scores)

    error = take_texts(options, bets, take)
    if bets.pairs == 0:
        raise error
    return status_after(report_pairs(bets, options.alpha, samples.remarks()), error)


def in_any_order(coin):
    """Whether to speculate: with and without, or without and with. What comes second may find another state of the server."""
    return [True, False] if coin.random() < 0.5 else [False, True]


def scores_of(server, prompt, texts, coin):
    """Of the texts with speculation and without. A text has one score, also where a server would round the second time otherwise."""
    if texts[True] == texts[False]:
        return [0.0, 0.0]
    found = {speculate: score(server, prompt, texts[speculate]) for speculate in in_any_order(coin)}
    return [found[True], found[False]]


def score(server, prompt, text):
    """The mean log-probability of a text's tokens."""
    logs = [listed.log_probability(token) for token, listed in zip(text, server.score(prompt, text)) if listed]
    return sum(logs) / max(len(logs), 1)


def lines(options):
    text, pairs = None, PairBets()

    def bets():
        nonlocal text
        text = text or TextBets(options.tolerance)
        return text

    with contextlib.nullcontext(sys.stdin) if options.file == "-" else open(options.file) as file:
        read_lines(file, options.top, lambda *given: bets().add(*given), lambda p, r: bets().add_numbers(p, r), pairs.add)
    if text is None and not pairs.pairs:
        raise ServerError(f"{options.file} has no line")
    alpha = options.alpha / 2 if text and pairs.pairs else options.alpha  # two tests share it
    found = [report_text(text, alpha, [])] if text else []
    found += [report_pairs(pairs, alpha, [])] if pairs.pairs else []
    return max(found)


def report_text(bets, alpha, remarks):
    whole = bets.audit.report()
    if whole.unreadable == whole.tokens:
        raise ServerError(f"none of {whole.tokens} tokens has a row, or numbers, that are probabilities")
    print(whole)
    for low, high, audit in zip((0.0, *EDGES), (*EDGES, 1.0), bets.groups):
        report = audit.report()
        if report.tokens:
            print(f"  where a likely token has {low} to {high}: {report.tokens} tokens, evidence 10^{report.evidence:.2f}")
    print(f"together: evidence 10^{bets.evidence:.2f}, at most 10^{bets.largest_evidence:.2f}")
    return verdict(bets, alpha, remarks)


def report_pairs(bets, alpha, remarks):
    print(f"{bets.pairs} pairs, evidence 10^{bets.evidence:.2f}, at most 10^{bets.largest_evidence:.2f}: {bets.winner()}")
    for name, gambler in bets.gamblers.items():
        print(f"  {name}: 10^{gambler.evidence:.2f}")
    return verdict(bets, alpha, remarks)


def verdict(bets, alpha, remarks):
    for remark in remarks:
        print("  " + remark)
    convicted = bets.convicts(alpha)
    if convicted:
        print(f"CONVICTED. A right server ever reaches this with probability {alpha:g} at most")
    else:
        print("not convicted")
    return int(convicted)


def tell(error):
    """Says what went wrong, in a line."""
    words = str(error)
    if not isinstance(error, (ServerError, OSError)):
        words = f"an answer, a line or an option has another form than expected ({type(error).__name__}: {error})"
    print(f"audit_server.py: {words}", file=sys.stderr)


def main(given=None):
    options = arguments(given)
    try:
        return {"rescore": rescore, "compare": compare, "lines": lines}[options.mode](options)
    except Exception as error:  # a traceback would end with 1, as a conviction does
        tell(error)
        return 2


if __name__ == "__main__":
    sys.exit(main())
