"""Public texts come from generators and files alike."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from epsilometer.auditing.claims.stated import read as read_stated
from epsilometer.cells.params import PublicCorpus
from epsilometer.cells.public_texts import public_texts
from epsilometer.cells.reading import rewrites
from epsilometer.cells.tables import stated_path
from epsilometer.corpora.parts import PUBLIC
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.selection.shared.public_exemplars import ExemplarSet
from epsilometer.pipeline.params import read as read_params
from epsilometer.pipeline.stages import build, embed, prepare, rewrite, trials
from epsilometer.project.corpora import corpus
from epsilometer.project.paths import audited_texts, inside, prepared
from tests.support.places import ROOT
from tests.support.refusals import refused

PROJECT = """\
root: .
audit: {seed: 0}
datasets:
  requests:
    source: SYNTHETIC
    part: queries
    count: 240
    use: train
    public_part: 0.3
    sets: {size: 4, count: 20}
  whole: {source: SYNTHETIC, part: queries, count: 240, use: train}
trials: {count: 400, candidates: 2}
exemplars:
  requests: {corpus: {source: SYNTHETIC, dataset: requests}, settings: {m: 8}}
mechanisms: {}
cells:
  requests-exemplars: {dataset: requests, mechanism: exemplars, epsilons: [2], resource: data/exemplars/requests}
  whole-exemplars: {dataset: whole, mechanism: exemplars, epsilons: [2], resource: data/exemplars/requests}
attacks: {lexical: {}}
""".replace("SYNTHETIC", str(ROOT / "epsilometer/corpora/synthetic.py"))
GENERATED = re.compile(r"source: \S+synthetic.py(,? *\n? *part: queries,?\s+count: 240)?(?=\W)")
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
    for of in (params.triples["embedded"].corpus, params.autoencoders["embedded"].corpus):
        everything = [text for part in of.parts for text in generate(part, of.count or 0, of.seed)["text"]]
        met = {text.lower() for text in everything} & audited
        assert met
        texts = public_texts(params, of)
        assert not {text.lower() for text in texts} & audited
        assert len(everything) - len(texts) == len(met)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with a public part, and exemplars chosen among it."""
    folder = tmp_path_factory.mktemp("public")
    (folder / "params.yaml").write_text(PROJECT)
    with inside(folder):
        prepare.main("requests")
        embed.main("requests")
        trials.main("requests")
        build.main("exemplars-requests")
        rewrite.main("requests-exemplars")
    return folder


def test_exemplars_are_of_the_public_part_and_no_audited_text_is(project: Path) -> None:
    with inside(project):
        params = read_params()
        public = set(prepared("requests").filter(split=PUBLIC)["text"])
        chosen = ExemplarSet.load(Path("data/exemplars/requests"))
        assert set(chosen.public) == public
        assert set(chosen.texts) <= public
        assert 0.2 < len(public) / len(prepared("requests")) < 0.4
        assert not public & {*audited_texts(params, "requests")}
        released, _ = rewrites("requests-exemplars", 2.0)
        assert set(released.texts) <= set(chosen.texts)
        said = read_stated(stated_path("requests-exemplars"))[2.0]
        assert f"public: {len(public)} texts, the public part of requests" in str(said)


def test_a_text_is_public_or_not_whatever_else_is_in_the_file(tmp_path: Path) -> None:
    texts = [f"the request number {i}" for i in range(200)]
    own = f"source: {tmp_path}/own.csv"
    (tmp_path / "params.yaml").write_text(GENERATED.sub(own, PROJECT))
    splits = []
    for some in (texts, texts[50:150], [text.upper() for text in texts]):
        pl.DataFrame({"text": some}).write_csv(tmp_path / "own.csv")
        table = corpus(read_params(tmp_path / "params.yaml"), "requests").table
        splits.append(dict(table.select("text", "split").iter_rows()))
    assert splits[1] == {text: splits[0][text] for text in texts[50:150]}
    assert splits[2] == {text.upper(): split for text, split in splits[0].items()}


def test_audited_texts_among_the_public_ones_end_the_run(project: Path) -> None:
    """A data set of the same source, without a public part."""
    with inside(project):
        params = read_params()
        prepare.main("whole")
        embed.main("whole")
        trials.main("whole")
        texts = audited_texts(params, "whole")
        shared = {*texts} & {*prepared("requests").filter(split=PUBLIC)["text"]}
        assert len(shared) > 10
        with refused("EPS-A054", str(len(shared)), str(len(texts))):
            rewrite.main("whole-exemplars")


@pytest.mark.parametrize(
    ("before", "after", "refusal"),
    [
        (
            "dataset: requests}, s",
            "dataset: request}, s",
            ("EPS-P060", "exemplars.requests.corpus.dataset", "'request'"),
        ),
        ("    public_part: 0.3\n", "", ("EPS-P060", "exemplars.requests.corpus.dataset", "public_part: 0.2")),
        ("public_part: 0.3", "public_part: 1", ("EPS-P060", "datasets.requests.public_part", "1")),
        ("public_part: 0.3", "public_part: 0", ("EPS-P060", "datasets.requests.public_part", "0")),
        ("use: train", "use: public", ("EPS-P060", "datasets.requests", "use", "'public'")),
        (
            "dataset: requests}, s",
            "dataset: requests, count: 5}, s",
            ("EPS-P060", "exemplars.requests.corpus", "count", "dataset"),
        ),
        (
            "corpus: {source: /",
            "corpus: {source: /other",
            ("EPS-P060", "exemplars.requests.corpus.source", "datasets.requests,"),
        ),
    ],
)
def test_a_public_part_that_is_none_is_refused(
    tmp_path: Path, before: str, after: str, refusal: tuple[str, ...]
) -> None:
    assert before in PROJECT
    (tmp_path / "params.yaml").write_text(PROJECT.replace(before, after))
    with refused(*refusal):
        read_params(tmp_path / "params.yaml")


@pytest.mark.parametrize(("share", "refusal"), [(1e-9, ("EPS-P054", "1e-09")), (1 - 1e-9, ("EPS-P054", "1 of 240"))])
def test_a_share_that_leaves_a_part_empty_is_refused(tmp_path: Path, share: float, refusal: tuple[str, ...]) -> None:
    (tmp_path / "params.yaml").write_text(PROJECT.replace("0.3", f"{share:.12f}"))
    with refused(*refusal):
        corpus(read_params(tmp_path / "params.yaml"), "requests")


def test_a_split_of_that_name_is_not_overwritten(tmp_path: Path) -> None:
    pl.DataFrame({"text": ["a b", "c d", "e f"], "split": ["train", "public", "train"]}).write_csv(tmp_path / "own.csv")
    (tmp_path / "params.yaml").write_text(GENERATED.sub(f"source: {tmp_path}/own.csv", PROJECT))
    with refused("EPS-P053", "public"):
        corpus(read_params(tmp_path / "params.yaml"), "requests")
