# SPDX-License-Identifier: MIT
"""This library as an engine under check_engine.py, through its Python module: the rules that the module has."""

import numpy
import specdec

LINES = {"token": "token", "block": "block", "any": "block", "argmax": "argmax", "match": "sample-match"}
TREES = {"recursive_rejection": "recursive-rejection", "traversal": "traversal", "k_seq": "k-seq"}
RULES = [*LINES, *TREES, "greedy_block"]


def rows(given, count, vocab_size):
    """A matrix of float32. A draft row may be shorter than the vocabulary: what the draft model has not has probability 0."""
    matrix = numpy.zeros((count, vocab_size), numpy.float32)
    for row, numbers in zip(matrix, given if given is not None else []):
        row[: len(numbers)] = numbers
    return matrix


def arguments(step, vocab_size):
    tokens = numpy.asarray(step.tokens, numpy.int32)
    return rows(step.target, len(tokens) + 1, vocab_size), rows(step.draft, len(tokens), vocab_size), tokens


def verify(case, seed):
    if case.rule in TREES:
        verdict = specdec.verify_tree(TREES[case.rule], *arguments(case, case.vocab_size),
                                      numpy.asarray(case.parents, numpy.int32), seed=seed)
        return verdict.path, verdict.token
    if case.rule in LINES:
        verdict = specdec.verify(LINES[case.rule], *arguments(case, case.vocab_size), seed=seed)
        return verdict.accepted, verdict.token
    text, offset, verdicts = specdec.GreedyBlock(), 0, []
    for step in case.steps or [case]:
        verdict = text.verify(*arguments(step, case.vocab_size), seed=seed, offset=offset)
        offset = verdict.offset
        verdicts.append((verdict.accepted, verdict.token))
    return verdicts if case.steps else verdicts[0]
