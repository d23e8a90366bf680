#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is the text that a server writes its model's? An audit over HTTP, without code in the server.

See examples/prove/audit_server.md.

    audit_server.py rescore http://127.0.0.1:8080            texts with speculation, scored again by the server without it
    audit_server.py compare http://127.0.0.1:8080            texts with speculation and without: which is which?
    audit_server.py lines FILE                               what another program has asked a server

The evidence E is a bet's wealth: a right server ever reaches 1/alpha with probability alpha at most, so the audit may be stopped
or go on at any time, with --keep also in a later run. Ends with status 0 if nothing speaks against the server, 1 if it is convicted, 2
for errors, and for texts that are not independent.
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
from kept import Kept
from llama_server import LlamaServer
from openai_server import OpenAiServer
from pair_bets import PairBets
from reports import report_pairs, report_text
from samples import PROMPTS, Samples, read_prompts
from text_bets import TextBets

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
    common.add_argument("--tolerance", type=number(float, 0, 1), default=1e-3, help="what logarithms of probabilities may be wrong by")
    by_text = argparse.ArgumentParser(add_help=False)
    by_text.add_argument("--token", type=number(int, 0), action="append", default=[], metavar="ID",
                         help="a token that is bet on by itself, as end tokens are")
    by_text.add_argument("--drafts", choices=("likeliest", "drawn"),
                         help="whether the drafter takes the reference's likeliest token (llama.cpp; the default of rescore), or "
                              "draws one (the default of lines)")

    asking = argparse.ArgumentParser(add_help=False)
    asking.add_argument("url", help="http://127.0.0.1:8080")
    asking.add_argument("--api", choices=("llama", "openai"), default="llama", help="the fields of the server")
    asking.add_argument("--go-on", action="store_true", help="go on after a conviction")
    asking.add_argument("--keep", type=pathlib.Path, metavar="FILE", help="keep what was seen, and go on after what is there")
    asking.add_argument("--top", type=number(int, 0), default=0, help="candidates a list, 2 or more; 0: the whole vocabulary")
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

    rescore_ = modes.add_parser("rescore", parents=[asking, common, by_text], help="score texts again, without speculation")
    rescore_.add_argument("--reference", metavar="URL", help="a server of the draft model: its lists find more, sooner")
    rescore_.add_argument("--after", action="store_true", help="llama: probabilities after the samplers (top-k, penalties, ...)")
    rescore_.add_argument("--by", choices=("prompt", "next"), default="prompt", help="openai: the fields to score by")
    compare_ = modes.add_parser("compare", parents=[asking, common], help="tell texts with speculation from texts without")
    compare_.add_argument("--score", action="store_true", help="also by what the server says of each text: a request a token")
    lines = modes.add_parser("lines", parents=[common, by_text], help="read JSON lines")
    lines.add_argument("file", nargs="?", default="-", help="-: the standard input")
    read = parser.parse_args(given)
    if getattr(read, "top", 0) == 1:
        parser.error("--top 1: the last of a list is left out, so nothing stays. Say 2 or more")
    if read.mode != "compare" and read.drafts is None:
        read.drafts = "likeliest" if read.mode == "rescore" else "drawn"
    return read


def server_at(url, options, model=None):
    http = Server(url, os.environ.get(options.key_variable) if options.key_variable else None)
    more, off = dict(options.field), dict(options.off_field) if options.off_field else None
    if options.api == "llama":
        return LlamaServer(http, options.top, options.temperature, getattr(options, "after", False), more, off)
    return OpenAiServer(http, model, options.top, options.temperature, getattr(options, "by", "prompt"),
                        options.end_token, more, off)


def samples_of(server, options, begun):
    draft_max = options.draft_max
    if draft_max is None:
        draft_max = server.draft_max()
    if draft_max is None:
        draft_max = DRAFT_MAX
        print(f"the server does not say how many tokens it drafts: {draft_max + 1} places are left out at the end of texts")
    return Samples(server, read_prompts(server, options.prompts), options.tokens, draft_max + 1, options.seed, begun)


class Progress:
    """A line now and then, at each doubling of the texts."""

    def __init__(self, begun):
        self.next = 8
        while self.next <= begun:
            self.next *= 2

    def tell(self, texts, bets):
        if texts >= self.next:
            self.next *= 2
            print(f"  {texts} texts: E = 10^{bets.evidence:.2f}", flush=True)


def take_texts(options, begun, bets, take):
    """Takes texts until they convict. What went wrong before that, or None: the evidence so far stays."""
    progress = Progress(begun)
    for count in range(begun, begun + options.texts):
        if not options.go_on and (bets.convicts(options.alpha) or bets.depends(options.alpha)):
            break
        try:
            take()
        except Exception as error:
            return error
        progress.tell(count + 1, bets)
    return None


def status_after(status, error):
    """Of a report. A conviction stays one, whatever went wrong after it."""
    if error:
        tell(error)
    return 2 if error and status == 0 else status


def text_bets(options):
    end = getattr(options, "end_token", None)
    named = options.token if end is None else [end, *options.token]
    return TextBets(options.tolerance, getattr(options, "seed", 1), named, options.drafts)


def rescore(options):
    server = server_at(options.url, options, options.model)
    scorer = server_at(options.off_url, options, options.model) if options.off_url else server
    reference = server_at(options.reference, options) if options.reference else None
    bets, kept = text_bets(options), Kept(options.keep, options)
    read_lines(kept.lines(), lambda: bets, None)
    samples = samples_of(server, options, kept.count)

    def take():
        prompt = samples.next_prompt()
        text = samples.after(prompt, speculate=True)
        beside = reference.score(prompt, text) if reference else None
        bets.add_text(*kept.text(prompt, text, scorer.score(prompt, text), beside, samples.end))

    error = take_texts(options, kept.count, bets, take)
    if bets.report().tokens == 0:
        raise error or ServerError(f"the server has no list for any of {bets.left_out} places")
    return status_after(report_text(bets, options.alpha, [*kept.remarks(), *samples.remarks()]), error)


def compare(options):
    server = server_at(options.url, options, options.model)
    without = server_at(options.off_url, options, options.model) if options.off_url else server
    bets, kept = PairBets(options.score), Kept(options.keep, options)
    read_lines(kept.lines(), None, lambda _: bets)
    samples = samples_of(server, options, kept.count)
    others = Samples(without, [[]], options.tokens, samples.spare, options.seed + 1_000_000, kept.count)
    coin = random.Random(options.seed + kept.count)

    def take():
        prompt = samples.next_prompt()
        texts = {speculate: (samples if speculate else others).after(prompt, speculate) for speculate in in_any_order(coin)}
        scores = {"scores": scores_of(without, prompt, texts, coin)} if options.score else {}
        kept.write({"prompt": prompt, "on": texts[True], "off": texts[False], **scores})
        bets.add(prompt, texts[True], texts[False], **scores)

    error = take_texts(options, kept.count, bets, take)
    if bets.pairs == 0:
        raise error
    return status_after(report_pairs(bets, options.alpha, [*kept.remarks(), *samples.remarks()]), error)


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
    text, pairs = None, None

    def texts():
        nonlocal text
        text = text or text_bets(options)
        return text

    def pairs_of(scored):
        nonlocal pairs
        pairs = pairs or PairBets(scored)
        return pairs

    with contextlib.nullcontext(sys.stdin) if options.file == "-" else open(options.file) as file:
        read_lines(file, texts, pairs_of)
    if not text and not pairs:
        raise ServerError(f"{options.file} has no line")
    alpha = options.alpha / 2 if text and pairs else options.alpha  # two tests share it
    found = [report_text(text, alpha, [])] if text else []
    found += [report_pairs(pairs, alpha, [])] if pairs else []
    return 1 if 1 in found else max(found)


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
