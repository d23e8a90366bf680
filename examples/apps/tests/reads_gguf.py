#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Converts a checkpoint with to_gguf.py, reads the result by the GGUF specification, and compares the two.

    reads_gguf.py to_gguf.py checkpoint.bin tokenizer.bin made.gguf

Ends with status 0 if the file has all that llama.cpp needs of a model, and the checkpoint's numbers in the right order.
"""

import struct
import subprocess
import sys

import numpy as np

program, checkpoint, tokenizer, made = sys.argv[1:]
subprocess.run([sys.executable, program, checkpoint, tokenizer, made], check=True)
data = open(made, "rb").read()
offset = 0


def take(form):
    global offset
    value, = struct.unpack_from("<" + form, data, offset)
    offset += struct.calcsize("<" + form)
    return value


def text():
    global offset
    length = take("Q")
    offset += length
    return data[offset - length : offset]


def value(kind):
    if kind == 9:
        kind, count = take("I"), take("Q")
        return [value(kind) for _ in range(count)]
    return text() if kind == 8 else take({4: "I", 5: "i", 6: "f", 7: "?"}[kind])


assert take("4s") == b"GGUF" and take("I") == 3
tensor_count, key_count = take("Q"), take("Q")
keys = {}
for _ in range(key_count):
    name = text().decode()
    keys[name] = value(take("I"))
tensors = [(text().decode(), [take("Q") for _ in range(take("I"))], take("I"), take("Q")) for _ in range(tensor_count)]
start = offset + -offset % 32

dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack_from("<7i", open(checkpoint, "rb").read(), 8)
expected = {"embedding_length": dim, "feed_forward_length": hidden, "block_count": layers, "attention.head_count": heads,
            "attention.head_count_kv": kv_heads, "vocab_size": vocab, "context_length": context}
assert all(keys["llama." + name] == size for name, size in expected.items()), keys
assert all(len(keys["tokenizer.ggml." + name]) == vocab for name in ("tokens", "scores", "token_type"))
assert ("token_embd.weight", [dim, vocab]) in [(name, shape) for name, shape, _, _ in tensors], tensors

numbers = [np.frombuffer(data, ("<f4", "<f2")[kind], int(np.prod(shape)), start + at).astype("<f4")
           for _, shape, kind, at in tensors]
read = np.concatenate(numbers)
kept = np.fromfile(checkpoint, {1: "<f4", 16: "<f2"}[struct.unpack_from("<i", open(checkpoint, "rb").read(8), 4)[0]],
                   offset=256).astype("<f4")
assert np.array_equal(read, kept), f"{read.size} numbers, where the checkpoint has {kept.size} or others"
print(f"{tensor_count} tensors of {read.size} numbers")
