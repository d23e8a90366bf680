#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares generate_gguf with llama.cpp's own llama-speculative-simple: equal models, prompts, temperature, draft length.

    compare.py generate_gguf llama-speculative-simple target.gguf draft.gguf [--temperature 0.8 1] [--gamma 4 8]

Prints tokens per target call and tokens per second for each rule of ours and for the other program. Tokens per target
call are over all texts, with the standard error over texts; tokens per second are of the median text. Sampling is not
truncated, and drafts are never cut short. One program runs at a time, with one thread. Only Python is needed.
"""
import argparse
import math
import pathlib
import re
import statistics
import subprocess
import sys

PROMPTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "prompts.txt"
RULES = ("block", "token", "sample-match")
SAMPLING = ("--top-k", "0", "--top-p", "1", "--min-p", "0")


def run(command):
    """Runs a program and returns its output, stdout and stderr together."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        sys.exit(f"compare.py: {' '.join(command)} failed: {done.stderr[-300:]}")
    return done.stdout + done.stderr


def number(pattern, text):
    found = re.search(pattern, text, re.M)
    if not found:
        sys.exit(f"compare.py: found no '{pattern}' in the output")
    return float(found[1])


def ours(arguments, rule, prompt, seed, temperature, gamma):
    """(tokens, target calls, tokens per second)"""
    text = run([arguments.ours, "-m", arguments.target, "-md", arguments.draft, "-p", prompt, "-n",
                str(arguments.tokens), "--temp", temperature, *SAMPLING, "--gamma", gamma, "--verifier", rule,
                "--seed", str(seed), "--threads", "1"])
    row = rf"^{rule}, gamma {gamma} "
    return (number(row + r" *(\d+)", text), number(row + r" *\d+ +(\d+)", text),
            number(row + r" *\d+ +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", text))


def theirs(arguments, prompt, seed, temperature, gamma):
    text = run([arguments.theirs, "-m", arguments.target, "-md", arguments.draft, "-p", prompt, "-n",
                str(arguments.tokens), "--temp", temperature, *SAMPLING, "--draft-max", gamma, "--draft-min", "0",
                "--draft-p-min", "0", "-s", str(seed), "-t", "1"])
    tokens = number(r"n_predict += (\d+)", text)
    return tokens, tokens - number(r"n_accept += (\d+)", text), tokens / number(r"decoded +\d+ tokens in +([\d.]+)", text)


def tokens_per_call(texts):
    """The ratio of the sums, and its standard error over texts."""
    tokens, calls, _ = (sum(column) for column in zip(*texts))
    ratio, n = tokens / calls, len(texts)
    variance = sum((t - ratio * c) ** 2 for t, c, _ in texts) / (n - 1) / n if n > 1 else math.nan
    return ratio, math.sqrt(variance) / (calls / n)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ours", help="generate_gguf")
    parser.add_argument("theirs", help="llama-speculative-simple")
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--temperature", nargs="+", default=["0.8", "1"])
    parser.add_argument("--gamma", nargs="+", default=["4", "8"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--prompts", type=pathlib.Path, default=PROMPTS)
    arguments = parser.parse_args()
    prompts = [line for line in arguments.prompts.read_text().splitlines() if line]
    for temperature in arguments.temperature:
        for gamma in arguments.gamma:
            print(f"T = {temperature}, gamma = {gamma}, {len(prompts)} prompts, {arguments.seeds} seeds")
            texts = [(prompt, seed) for prompt in prompts for seed in range(1, arguments.seeds + 1)]
            rows = {rule: [] for rule in (*RULES, "llama.cpp")}
            for text in texts:  # in turns, so that a busy machine slows all of them
                for rule in RULES:
                    rows[rule].append(ours(arguments, rule, *text, temperature, gamma))
                rows["llama.cpp"].append(theirs(arguments, *text, temperature, gamma))
            for name, measured in rows.items():
                ratio, error = tokens_per_call(measured)
                rate = statistics.median(speed for _, _, speed in measured)
                print(f"  {name:14} {ratio:.2f} +- {error:.2f} tokens per target call {rate:7.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
