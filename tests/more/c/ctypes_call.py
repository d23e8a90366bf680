# SPDX-License-Identifier: MIT
"""Calls the C interface in a shared library through ctypes: tests/more/c/ctypes_call.py LIBRARY"""

import ctypes
import math
import sys

int32, int64, uint64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64


class Rows(ctypes.Structure):
    _fields_ = [("kind", int32), ("scalar", int32), ("rows", int64), ("vocab_size", int64), ("data", ctypes.c_void_p),
                ("pointers", ctypes.c_void_p), ("row_stride", int64), ("element_stride", int64), ("temperature", ctypes.c_double),
                ("log_sum_exp", ctypes.c_void_p), ("ids", ctypes.c_void_p), ("offsets", ctypes.c_void_p)]


class Philox(ctypes.Structure):
    _fields_ = [("seed", uint64), ("offset", uint64), ("stream", uint64)]


class Verdict(ctypes.Structure):
    _fields_ = [("accepted", int64), ("token", int32)]


BLOCK, ARGMAX = 0, 2
LOGITS, FLOAT, ONE_HOT = 1, 0, 4

library = ctypes.CDLL(sys.argv[1])
assert library.specdec_c_version() == 3
error = ctypes.create_string_buffer(200)
size = ctypes.c_size_t(len(error))


def verify(rule, target, draft, tokens, rng):
    verdict = Verdict()
    status = library.specdec_verify(int32(rule), ctypes.byref(target), ctypes.byref(draft), (int32 * len(tokens))(*tokens),
                                    int64(len(tokens)), ctypes.byref(rng), ctypes.byref(verdict), error, size)
    return status, verdict


# Two tokens chosen without probabilities, judged by three rows of logits.
rows = [[math.log(p) for p in row] for row in ([0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.8, 0.1, 0.1])]
numbers = (ctypes.c_float * 9)(*sum(rows, []))
target = Rows(kind=LOGITS, scalar=FLOAT, rows=3, vocab_size=3, data=ctypes.addressof(numbers), temperature=1.0)
draft = Rows(kind=ONE_HOT)

status, verdict = verify(ARGMAX, target, draft, [1, 0], Philox())
assert (status, verdict.accepted, verdict.token, error.value) == (0, 1, 2, b""), error.value

rng, accepted, trials = Philox(seed=3), [0, 0, 0], 5000
for _ in range(trials):
    status, verdict = verify(BLOCK, target, draft, [1, 0], rng)
    assert status == 0, error.value
    accepted[verdict.accepted] += 1
assert rng.offset > trials
# The first token stays with probability 0.6, both stay with 0.6 * 0.2. Five standard deviations.
for share, expected in ((accepted[1] + accepted[2], 0.6), (accepted[2], 0.12)):
    assert abs(share / trials - expected) < 5 * math.sqrt(expected * (1 - expected) / trials), accepted

token, drawn, trials = int32(-1), [0, 0, 0], 5000
for _ in range(trials):
    status = library.specdec_draw(ctypes.byref(target), int64(1), ctypes.byref(rng), ctypes.byref(token), error, size)
    assert status == 0, error.value
    drawn[token.value] += 1
for count, p in zip(drawn, (0.2, 0.3, 0.5)):
    assert abs(count / trials - p) < 5 * math.sqrt(p * (1 - p) / trials), drawn
library.specdec_check_every.restype = int64
library.specdec_check_every(int64(1))
assert library.specdec_check_every(int64(0)) == 1
assert library.specdec_validate(ctypes.byref(target), ctypes.c_double(1e-3), error, size) == 0, error.value

# The same drafts, twice in one flat call: a line of two chosen tokens, and one without tokens, at temperature 0.
rngs, verdicts, statuses = (Philox * 2)(Philox(seed=3)), (Verdict * 2)(), (int32 * 2)()
both = (ctypes.c_float * 12)(*sum(rows + rows[:1], []))
status = library.specdec_verify_flat(int32(LOGITS), both, None, int64(3), (ctypes.c_double * 2)(1, 0),
                                     (int32 * 2)(BLOCK, ARGMAX), None, (int32 * 2)(1, 0), None, (int64 * 3)(0, 2, 2), int64(2),
                                     rngs, None, verdicts, statuses, None, ctypes.c_size_t(0))
alone = verify(BLOCK, target, draft, [1, 0], Philox(seed=3))[1]
assert status == 0 and (verdicts[0].accepted, verdicts[0].token) == (alone.accepted, alone.token)
assert (verdicts[1].accepted, verdicts[1].token) == (0, 1)

before = rng.offset
status, verdict = verify(BLOCK, target, draft, [1, 3], rng)
assert (status, error.value) == (1, b"specdec: tokens[1] = 3 is outside the vocabulary 0..2"), error.value
assert rng.offset == before
print("all right")
