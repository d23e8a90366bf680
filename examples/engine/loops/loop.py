# SPDX-License-Identifier: MIT
"""An engine loop in Python that calls the shared library by ctypes: loop.py libspecdec_c.so. See loop.c."""

import ctypes
import sys
from ctypes import byref, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64

TARGET = [[0.1, 0.6, 0.2, 0.1], [0.5, 0.1, 0.3, 0.1], [0.2, 0.2, 0.1, 0.5], [0.7, 0.1, 0.1, 0.1]]  # row x: after token x
DRAFT = [[0.2, 0.5, 0.2, 0.1], [0.3, 0.2, 0.4, 0.1], [0.1, 0.2, 0.1, 0.6], [0.4, 0.2, 0.2, 0.2]]
VOCABULARY, GAMMA, WANTED = 4, 3, 20
PROBABILITIES, BLOCK = 0, 0


class Philox(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("offset", c_uint64), ("stream", c_uint64)]


class Verdict(ctypes.Structure):
    _fields_ = [("accepted", c_int64), ("token", c_int32)]


library = ctypes.CDLL(sys.argv[1])
assert library.specdec_c_version() == 3
error, size = ctypes.create_string_buffer(256), c_size_t(256)


def checked(status):
    if status != 0:
        raise ValueError(error.value.decode())


def floats(rows):
    return (c_float * (VOCABULARY * len(rows)))(*sum(rows, []))


# Drafts and verifications take their random numbers from different streams.
verifying, drafting = Philox(seed=42, stream=0), Philox(seed=42, stream=1)
text, calls = [0], 0
while len(text) <= WANTED:
    tokens, q, token = [], [], c_int32()
    while len(tokens) < GAMMA:
        q.append(DRAFT[(text + tokens)[-1]])
        checked(library.specdec_draw_flat(PROBABILITIES, floats(q[-1:]), c_int64(VOCABULARY), c_double(0), byref(drafting),
                                          byref(token), error, size))
        tokens.append(token.value)
    p = [TARGET[x] for x in [text[-1]] + tokens]
    verdict, status = Verdict(), c_int32()
    checked(library.specdec_verify_flat(PROBABILITIES, floats(p), floats(q), c_int64(VOCABULARY), None, byref(c_int32(BLOCK)),
                                        None, (c_int32 * GAMMA)(*tokens), None, (c_int64 * 2)(0, GAMMA), c_int64(1),
                                        byref(verifying), None, byref(verdict), byref(status), error, size))
    text += tokens[:verdict.accepted] + [verdict.token]  # both caches then keep all tokens but the last
    calls += 1
print(*text[1:WANTED + 1], "in", calls, "target calls")
