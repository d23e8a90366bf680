#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains the byte-pair tokenizer, writes it in llama2.c's format and encodes the corpus with it.

Writes tokenizer.model (sentencepiece), tokenizer.bin, train.npy and valid.npy (the ids of all documents in a row,
each document after BOS) and starts.npy (where sentences begin in train.npy). As in Llama's tokenizer, ids 0, 1, 2 are
<unk>, BOS and EOS and byte b is id b + 3.
"""

import argparse
import pathlib
import re
import struct

import numpy
import sentencepiece

BOS, EOS = 1, 2


def sentences(text):
    for line in text.splitlines():
        yield from (piece for piece in re.split(r"(?<=[.!?;:]) ", line) if piece)


def train(text, size, model):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences(text), model_prefix=str(model.with_suffix("")), model_type="bpe", vocab_size=size,
        byte_fallback=True, character_coverage=0.99995, split_digits=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=True, allow_whitespace_only_pieces=True,
        unk_id=0, bos_id=BOS, eos_id=EOS, pad_id=-1, num_threads=1, minloglevel=1)


def write_bin(processor, path):
    """llama2.c's tokenizer.bin: the longest piece's length, then score, length and bytes of every piece."""
    control = {BOS: "\n<s>\n", EOS: "\n</s>\n"}
    pieces = [control.get(index, processor.id_to_piece(index)).replace("\u2581", " ").encode("utf-8")
              for index in range(processor.get_piece_size())]
    with open(path, "wb") as file:
        file.write(struct.pack("<i", max(map(len, pieces))))
        for index, piece in enumerate(pieces):
            file.write(struct.pack("<fi", processor.get_score(index), len(piece)) + piece)


def encode(processor, text):
    ids = []
    for document in text.rstrip("\n").split("\n\n"):
        ids += [BOS] + processor.encode(document)
    return numpy.array(ids, dtype=numpy.uint16)


def sentence_starts(processor, ids):
    """Positions of ids where a sentence begins with a space. The first word of a prompt begins with a space, too."""
    pieces = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    spaced = numpy.array([piece.startswith("\u2581") for piece in pieces])
    final = numpy.array([piece.endswith((".", "!", "?", ".\"")) for piece in pieces])
    final[BOS] = True
    return 1 + numpy.flatnonzero(final[ids[:-1]] & spaced[ids[1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="folder of train.txt and valid.txt")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    parser.add_argument("--vocab-size", type=int, default=1024)
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    texts = {name: (options.corpus / f"{name}.txt").read_text("utf-8") for name in ("train", "valid")}
    model = options.out / "tokenizer.model"
    train(texts["train"], options.vocab_size, model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    assert processor.piece_to_id("<0x0A>") == 13 and processor.get_piece_size() == options.vocab_size
    write_bin(processor, options.out / "tokenizer.bin")
    for name, text in texts.items():
        ids = encode(processor, text)
        numpy.save(options.out / f"{name}.npy", ids)
        if name == "train":
            numpy.save(options.out / "starts.npy", sentence_starts(processor, ids))
        print(f"{name}: {len(ids)} tokens, {len(text) / len(ids):.3f} characters a token")


if __name__ == "__main__":
    main()
