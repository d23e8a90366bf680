# SPDX-License-Identifier: MIT
"""An engine's loop in Python over the C interface: python3 engine.py libspecdec_c.so

The target and the draft model are tables: what follows a token depends on that token alone. engine.rs and engine.go write the
same text.
"""

import ctypes
import sys
from ctypes import byref, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64

VOCAB, GAMMA, LENGTH = 8, 4, 40
PROBABILITIES, BLOCK = 0, 0
library = ctypes.CDLL(sys.argv[1])


class Philox(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("offset", c_uint64), ("stream", c_uint64)]


class Verdict(ctypes.Structure):
    _fields_ = [("accepted", c_int64), ("token", c_int32)]


def row(last, a, b, m):
    weights = [1 + (a * last + b * x) % m for x in range(VOCAB)]
    return [w / sum(weights) for w in weights]


def target(last):
    return row(last, 7, 3, 5)


def draft(last):
    return row(last, 5, 2, 7)


def floats(numbers):
    return (c_float * len(numbers))(*numbers)


error = ctypes.create_string_buffer(200)


def check(status):
    if status != 0:
        sys.exit(error.value.decode())


drafting, judging = Philox(seed=42, stream=1), Philox(seed=42)  # the verification must not see the draft's numbers
text, calls = [0], 0
while len(text) < LENGTH:
    drafted, draft_rows = [], []
    for _ in range(GAMMA):
        q, token = draft((text + drafted)[-1]), c_int32()
        check(library.specdec_draw_flat(PROBABILITIES, floats(q), c_int64(VOCAB), c_double(1), byref(drafting), byref(token),
                                        error, c_size_t(len(error))))
        drafted.append(token.value)
        draft_rows += q
    target_rows = [p for last in [text[-1], *drafted] for p in target(last)]  # one call of the target
    verdict, status = Verdict(), c_int32()
    library.specdec_verify_flat(PROBABILITIES, floats(target_rows), floats(draft_rows), c_int64(VOCAB), None,
                                byref(c_int32(BLOCK)), None, (c_int32 * GAMMA)(*drafted), None, (c_int64 * 2)(0, GAMMA),
                                c_int64(1), byref(judging), None, byref(verdict), byref(status), error, c_size_t(len(error)))
    check(status.value)
    text += drafted[:verdict.accepted] + [verdict.token]
    calls += 1
print(" ".join(map(str, text)))
print(len(text) - 1, "tokens in", calls, "calls")
