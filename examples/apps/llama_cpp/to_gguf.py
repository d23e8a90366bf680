#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Converts a llama2.c checkpoint and its tokenizer.bin to GGUF, the file format of llama.cpp.

    to_gguf.py checkpoint.bin tokenizer.bin model.gguf [--type f32|f16] [--name NAME]

It reads the checkpoints of https://github.com/karpathy/llama2.c (version 0: seven int32, then float32 weights) and
those of examples/apps/transformer (magic "24ka", version 1 with float32 or 16 with half weights). Only numpy is needed. The
rotary embedding of these models rotates neighbouring pairs. llama.cpp expects this of the architecture "llama", so no
weight is permuted.
"""
import argparse
import math
import struct
import sys

import numpy as np

MAGIC = 0x616B3432
RMS_EPSILON, ROPE_BASE = 1e-5, 10000.0


class Checkpoint:
    """A checkpoint: its hyper-parameters, and `tensors`, the weights by their names in GGUF."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        try:
            self.read()
        except (struct.error, ValueError) as error:
            sys.exit(f"to_gguf.py: {path} is no llama2.c checkpoint: {error}")

    def read(self):
        magic, version = struct.unpack_from("<Ii", self.data)
        if magic == MAGIC:
            if version not in (1, 16):
                raise ValueError(f"version {version} is neither 1 nor 16")
            sizes = struct.unpack_from("<7iB", self.data, 8)
            shared = bool(sizes[7])
            self.offset, self.type = 256, np.dtype("<f2" if version == 16 else "<f4")
        else:
            sizes = struct.unpack_from("<7i", self.data)
            shared = sizes[5] > 0
            self.offset, self.type = 28, np.dtype("<f4")
        self.dim, self.hidden, self.layers, self.heads, self.kv_heads, vocab, self.context = sizes[:7]
        self.vocab = abs(vocab)
        if min(self.dim, self.hidden, self.layers, self.heads, self.kv_heads, self.vocab, self.context) < 1:
            raise ValueError(f"sizes {sizes[:7]}")
        if self.dim % self.heads or self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads and {self.kv_heads} key heads over {self.dim} numbers")

        self.tensors = {}
        for name, shape in self.order(legacy=magic != MAGIC, shared=shared):
            self.take(name, shape)
        if self.offset != len(self.data):
            raise ValueError(f"{len(self.data)} bytes, where its sizes make {self.offset}")

    def order(self, legacy, shared):
        """Names and shapes in the order of the file. A name with a {} stands for all layers, one after another."""
        head = self.dim // self.heads
        kv = head * self.kv_heads
        embedding = ("token_embd", (self.vocab, self.dim))
        attention_norm, ffn_norm = ("blk.{}.attn_norm", (self.dim,)), ("blk.{}.ffn_norm", (self.dim,))
        output_norm = ("output_norm", (self.dim,))
        attention = [
            ("blk.{}.attn_q", (self.dim, self.dim)),
            ("blk.{}.attn_k", (kv, self.dim)),
            ("blk.{}.attn_v", (kv, self.dim)),
            ("blk.{}.attn_output", (self.dim, self.dim)),
        ]
        ffn = [
            ("blk.{}.ffn_gate", (self.hidden, self.dim)),
            ("blk.{}.ffn_down", (self.dim, self.hidden)),
            ("blk.{}.ffn_up", (self.hidden, self.dim)),
        ]
        classifier = [] if shared else [("output", (self.vocab, self.dim))]
        if not legacy:
            return [attention_norm, ffn_norm, output_norm, embedding, *attention, *ffn, *classifier]
        rotation = [("", (self.context, head // 2))] * 2  # cosines and sines; llama.cpp computes its own
        return [embedding, attention_norm, *attention, ffn_norm, *ffn, output_norm, *rotation, *classifier]

    def take(self, name, shape):
        for layer in range(self.layers if "{}" in name else 1):
            count = math.prod(shape)
            if self.offset + count * self.type.itemsize > len(self.data):
                raise ValueError(f"it ends within {name.format(layer) or 'the rotary table'}")
            weights = np.frombuffer(self.data, self.type, count, self.offset).reshape(shape)
            self.offset += count * self.type.itemsize
            if name:
                self.tensors[name.format(layer) + ".weight"] = weights


def read_tokenizer(path, vocab):
    """Texts and scores by token id. The texts are in sentencepiece's form."""
    data = open(path, "rb").read()
    texts, scores, offset = [], [], 4  # after the length of the longest token
    try:
        for _ in range(vocab):
            score, length = struct.unpack_from("<fi", data, offset)
            offset += 8
            if not 0 <= length <= len(data) - offset:
                raise ValueError(f"token {len(texts)} has {length} bytes")
            texts.append(data[offset : offset + length].replace(b" ", "\u2581".encode()))
            scores.append(score)
            offset += length
        if offset != len(data):
            raise ValueError(f"it has more than the {vocab} tokens of the model")
    except (struct.error, ValueError) as error:
        sys.exit(f"to_gguf.py: {path} is no tokenizer of {vocab} tokens: {error}")
    texts[:3] = [b"<unk>", b"<s>", b"</s>"]
    return texts, scores


def token_types(texts):
    """The types of tokens, with llama.cpp's numbers: 1 normal, 2 unknown, 3 control, 6 a single byte "<0xHH>"."""
    byte_texts = {f"<0x{byte:02X}>".encode() for byte in range(256)}
    return [2, 3, 3] + [6 if text in byte_texts else 1 for text in texts[3:]]


class Gguf:
    """A GGUF file of version 3: a header, keys with values, descriptions of the tensors, then the tensors."""

    U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
    ALIGNMENT = 32

    def __init__(self):
        self.keys, self.tensors = [], []

    @staticmethod
    def text(value):
        value = value.encode() if isinstance(value, str) else value
        return struct.pack("<Q", len(value)) + value

    def value(self, kind, value):
        if kind == self.STRING:
            return self.text(value)
        return struct.pack({self.U32: "<I", self.I32: "<i", self.F32: "<f", self.BOOL: "<?"}[kind], value)

    def add(self, key, kind, value):
        self.keys.append(self.text(key) + struct.pack("<I", kind) + self.value(kind, value))

    def add_array(self, key, kind, values):
        head = struct.pack("<IIQ", self.ARRAY, kind, len(values))
        self.keys.append(self.text(key) + head + b"".join(self.value(kind, value) for value in values))

    def add_tensor(self, name, array):
        self.tensors.append((name, np.ascontiguousarray(array)))

    def padding(self, size):
        return b"\0" * (-size % self.ALIGNMENT)

    def write(self, path):
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys)) + b"".join(self.keys)
        offset = 0
        for name, array in self.tensors:
            kind = {"<f4": 0, "<f2": 1}[array.dtype.str]
            shape = array.shape[::-1]  # GGUF names the innermost dimension first
            head += self.text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            head += struct.pack("<IQ", kind, offset)
            offset += array.nbytes + len(self.padding(array.nbytes))
        with open(path, "wb") as file:
            file.write(head + self.padding(len(head)))
            for _, array in self.tensors:
                file.write(array.tobytes() + self.padding(array.nbytes))


def convert(checkpoint, texts, scores, half, name):
    out = Gguf()
    out.add("general.architecture", out.STRING, "llama")
    out.add("general.name", out.STRING, name)
    out.add("general.file_type", out.U32, 1 if half else 0)
    for key, value in {
        "vocab_size": checkpoint.vocab,
        "context_length": checkpoint.context,
        "embedding_length": checkpoint.dim,
        "block_count": checkpoint.layers,
        "feed_forward_length": checkpoint.hidden,
        "rope.dimension_count": checkpoint.dim // checkpoint.heads,
        "attention.head_count": checkpoint.heads,
        "attention.head_count_kv": checkpoint.kv_heads,
    }.items():
        out.add("llama." + key, out.U32, value)
    out.add("llama.attention.layer_norm_rms_epsilon", out.F32, RMS_EPSILON)
    out.add("llama.rope.freq_base", out.F32, ROPE_BASE)

    out.add("tokenizer.ggml.model", out.STRING, "llama")
    out.add_array("tokenizer.ggml.tokens", out.STRING, texts)
    out.add_array("tokenizer.ggml.scores", out.F32, scores)
    out.add_array("tokenizer.ggml.token_type", out.I32, token_types(texts))
    for token, key in enumerate(("unknown", "bos", "eos")):
        out.add(f"tokenizer.ggml.{key}_token_id", out.U32, token)
    out.add("tokenizer.ggml.add_bos_token", out.BOOL, True)
    out.add("tokenizer.ggml.add_eos_token", out.BOOL, False)
    out.add("tokenizer.ggml.add_space_prefix", out.BOOL, True)

    for tensor, weights in checkpoint.tensors.items():  # llama.cpp wants vectors in float32
        out.add_tensor(tensor, weights.astype("<f2" if half and weights.ndim > 1 else "<f4"))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("tokenizer")
    parser.add_argument("output")
    parser.add_argument("--type", choices=("f32", "f16"), help="of the matrices; default: as the checkpoint")
    parser.add_argument("--name", default="llama2.c")
    options = parser.parse_args()
    try:
        checkpoint = Checkpoint(options.checkpoint)
        texts, scores = read_tokenizer(options.tokenizer, checkpoint.vocab)
        half = options.type == "f16" if options.type else checkpoint.type.itemsize == 2
        convert(checkpoint, texts, scores, half, options.name).write(options.output)
    except OSError as error:
        sys.exit(f"to_gguf.py: {error}")


main()
