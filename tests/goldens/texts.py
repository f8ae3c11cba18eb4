"""Generated texts, and the command line in this process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.cli import main
from epsilometer.corpora.synthetic import generate


def write_texts() -> None:
    """Write texts, tables of reviews, facts about people and word vectors into the current folder."""
    requests = generate("queries", 60, 1)["text"]
    Path("requests.txt").write_text("\n".join(requests) + "\n")
    reviews = generate("reviews", 240, 1).select("text", "rating", "gender")
    reviews.write_csv("reviews.csv")
    masked = pl.Series("rewrite", [" ".join(text.split()[::2]) for text in reviews["text"]])
    reviews.head(120).rename({"text": "original"}).with_columns(masked.head(120)).write_csv("rewrites.csv")
    reviews.head(120).write_csv("audited.csv")
    reviews.tail(120).write_csv("labelled.csv")
    people = reviews.select("text", claims=pl.concat_list(pl.col("text").str.split(" ").list.head(4).list.join(" ")))
    people.head(80).write_ndjson("people.jsonl")
    Path("vectors.txt").write_text(vectors([*requests, *reviews["text"]]))


def vectors(texts: Iterable[str]) -> str:
    """Return word vectors for the words of texts, in the format of GloVe."""
    words = sorted({word for text in texts for word in re.findall("[a-z]+", text.lower())})
    normal = np.random.default_rng(0).standard_normal((len(words), 10)) / 8
    return "".join(f"{word} {' '.join(f'{x:.3f}' for x in row)}\n" for word, row in zip(words, normal, strict=True))


def call(*words: object) -> tuple[int, str]:
    """Run a command: its exit code, and what it prints on standard output."""
    code = 0
    with redirect_stdout(StringIO()) as said:
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, said.getvalue()
