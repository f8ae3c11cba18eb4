"""Public texts come from generators and files alike."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from epsilometer.corpora.synthetic import generate
from epsilometer.pipeline.params import read as read_params
from epsilometer.studies.texts.params import PublicCorpus
from epsilometer.studies.texts.public_texts import public_texts
from tests.support.places import ROOT

PARAMS = SimpleNamespace(path=str, datasets={}, audit=SimpleNamespace(seed=0))


def test_a_generator_makes_as_many_of_each_part() -> None:
    source = str(ROOT / "epsilometer/corpora/synthetic.py")
    texts = public_texts(PARAMS, PublicCorpus(source=source, parts=("queries", "reviews"), count=20))  # type: ignore[arg-type]
    assert len(texts) == 40
    other = public_texts(PARAMS, PublicCorpus(source=source, parts=("queries",), count=20, seed=2))  # type: ignore[arg-type]
    assert texts[:20] != other


@pytest.mark.parametrize(("count", "expected"), [(None, ["a b", "c d", "e f"]), (2, ["a b", "c d"])])
def test_of_a_file_the_first(tmp_path: Path, count: int | None, expected: list[str]) -> None:
    pl.DataFrame({"line": ["a b", "c d", "e f"]}).write_csv(tmp_path / "texts.csv")
    corpus = PublicCorpus(source=str(tmp_path / "texts.csv"), text="line", count=count)
    assert public_texts(PARAMS, corpus) == expected  # type: ignore[arg-type]


def test_no_model_is_trained_on_what_is_audited() -> None:
    """The generator writes some requests under both seeds; those of the audited data set are left out."""
    params = read_params(ROOT / "profiles/teda.yaml")
    audited = {text.lower() for text in generate("queries", 3200, params.audit.seed)["text"]}
    for corpus in (params.triples["embedded"].corpus, params.autoencoders["embedded"].corpus):
        everything = [text for part in corpus.parts for text in generate(part, corpus.count, corpus.seed)["text"]]
        met = {text.lower() for text in everything} & audited
        assert met
        texts = public_texts(params, corpus)
        assert not {text.lower() for text in texts} & audited
        assert len(everything) - len(texts) == len(met)
