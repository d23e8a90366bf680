# SPDX-License-Identifier: MIT
"""Models in files of half precision, and heads in files of bytes, as the C++ backend reads them.

The format of a model is llama2.c's "version 1" layout with version number 16. A 256 byte header (zero padded) holds uint32
0x616b3432, int32 16, int32 dim, hidden, layers, heads, kv_heads, vocab, context and uint8 1 for the shared classifier. IEEE
half numbers follow, matrices as rows of outputs: every layer's attention norm, every layer's feed forward norm, the final
norm, the embedding, then for q, k, v, o, gate, down and up in turn every layer's matrix.

The file of a head or an adapter has a header of 256 bytes (zero padded), too: a uint32 that says what kind of file it is,
the int32 version, and int32 words that the trainer names. The numbers follow. In version 1 all of them are IEEE halves,
matrices as rows of outputs. In version 2 a row of a matrix is a half, its scale, and a signed byte for each number, which is
the scale times the byte; vectors are halves.
"""

import struct

import numpy
import torch

from model import Shape, Transformer

MAGIC, VERSION, HEADER_BYTES = 0x616B3432, 16, 256
ORDER = ("attention_norm.weight", "feed_forward_norm.weight", "norm", "embedding",
         "attention.q.weight", "attention.k.weight", "attention.v.weight", "attention.o.weight",
         "feed_forward.gate.weight", "feed_forward.down.weight", "feed_forward.up.weight")


def dimensions(shape):
    return shape.dim, shape.hidden, shape.layers, shape.heads, shape.kv_heads, shape.vocab, shape.context


def parameters(model):
    """The model's parameters in the order of the file."""
    whole = {"embedding": model.embedding.weight, "norm": model.norm.weight}
    for name in ORDER:
        yield from [whole[name]] if name in whole else (layer.get_parameter(name) for layer in model.layers)


def write(model, path):
    header = struct.pack("<Ii7iB", MAGIC, VERSION, *dimensions(model.shape), 1)
    write_numbers(path, header, map(halves, parameters(model)))


def write_adapter(path, magic, words, parameters):
    """Writes a file of version 1."""
    write_numbers(path, struct.pack(f"<Ii{len(words)}i", magic, 1, *words), map(halves, parameters))


def write_head(path, magic, words, parameters):
    """Writes a file of version 2: half of the size, and drafts are as good."""
    write_numbers(path, header_of_head(magic, words),
                  (scaled_bytes(parameter) if parameter.dim() == 2 else halves(parameter) for parameter in parameters))


@torch.no_grad()
def read_head(path, magic, words, parameters):
    """Reads what write_head() wrote with the same words."""
    data = path.read_bytes()
    if data[:HEADER_BYTES] != header_of_head(magic, words):
        raise ValueError(f"{path}: not written by this program, or with other options")
    at = HEADER_BYTES
    for parameter in parameters:
        if parameter.dim() == 2:
            row = numpy.dtype([("scale", "<f2"), ("bytes", "i1", parameter.shape[1])])
            rows = numpy.frombuffer(data, row, len(parameter), at)
            numbers, size = rows["scale"][:, None].astype(numpy.float32) * rows["bytes"], rows.nbytes
        else:
            numbers, size = numpy.frombuffer(data, "<f2", len(parameter), at).astype(numpy.float32), 2 * len(parameter)
        parameter.copy_(torch.from_numpy(numbers))
        at += size
    if at != len(data):
        raise ValueError(f"{path}: expected {at} bytes, found {len(data)}")


def header_of_head(magic, words):
    return struct.pack(f"<Ii{len(words)}i", magic, 2, *words).ljust(HEADER_BYTES, b"\0")


def write_numbers(path, header, parts):
    with open(path, "wb") as file:
        file.write(header.ljust(HEADER_BYTES, b"\0"))
        for part in parts:
            file.write(part)


def halves(parameter):
    return parameter.detach().numpy().astype("<f2").tobytes()


def scaled_bytes(matrix):
    numbers = matrix.detach().numpy()
    scales = (abs(numbers).max(1, keepdims=True) / 127).astype("<f2")
    rounded = numpy.rint(numbers / numpy.maximum(scales.astype(numpy.float32), 1e-12)).clip(-127, 127).astype("i1")
    return b"".join(scale.tobytes() + row.tobytes() for scale, row in zip(scales, rounded))


@torch.no_grad()
def read(path):
    """The model of a file, in float32."""
    data = path.read_bytes()
    magic, version, dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack_from("<Ii7i", data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"{path}: expected a model of version {VERSION}")
    model = Transformer(Shape(dim, layers, heads, kv_heads, hidden, vocab, context))
    numbers = torch.from_numpy(numpy.frombuffer(data, "<f2", offset=HEADER_BYTES).astype(numpy.float32))
    for parameter in parameters(model):
        values, numbers = numbers[:parameter.numel()], numbers[parameter.numel():]
        parameter.copy_(values.view_as(parameter))
    if numbers.numel():
        raise ValueError(f"{path}: {numbers.numel()} numbers too many")
    return model
