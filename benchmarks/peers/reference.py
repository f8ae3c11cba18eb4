"""The reference code as it was fetched, and what stands in for what it needs and cannot have.

No line of it is changed. Each function loads one repository and says in its docstring what was substituted; where that
matters for speed, it makes the reference faster, never slower.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.peers.fetch import CODE


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(content)
    return module


@contextmanager
def _path(*parts: str, **modules: ModuleType) -> Any:
    """Import from a fetched folder; modules stand in for others (a double underscore for a dot)."""
    folder = CODE.joinpath(*parts)
    if not folder.is_dir():
        raise FileNotFoundError(f"{parts[0]} is not there; run `python -m benchmarks.peers.fetch`")
    named = {name.replace("__", "."): module for name, module in modules.items()}
    before = {name: sys.modules.get(name) for name in named}
    sys.modules.update(named)
    try:
        with patch.object(sys, "path", [str(folder), *sys.path]):
            yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _nltk() -> ModuleType:
    """NLTK without its data: texts split at white space (the benchmark's hold nothing else), no stop-words."""
    from nltk.stem.wordnet import WordNetLemmatizer
    from nltk.tokenize.treebank import TreebankWordDetokenizer

    stopwords = SimpleNamespace(words=lambda language: [])
    return _module(
        "nltk",
        download=lambda *_, **__: True,
        word_tokenize=str.split,
        corpus=_module("nltk.corpus", stopwords=stopwords),
        data=SimpleNamespace(find=lambda name: name),
        stopwords=stopwords,
        WordNetLemmatizer=WordNetLemmatizer,
        TreebankWordDetokenizer=TreebankWordDetokenizer,
    )


def _nltk_modules() -> dict[str, ModuleType]:
    nltk = _nltk()
    return {
        "nltk": nltk,
        "nltk__corpus": _module("nltk.corpus", stopwords=nltk.stopwords, wordnet=None),
        "nltk__tokenize": _module("nltk.tokenize", word_tokenize=str.split),
    }


def keyed_vectors(words: Sequence[str], vectors: np.ndarray) -> Any:
    """gensim's form of word vectors, which both of the authors' packages take."""
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(list(words), vectors)
    return keyed


def one_thread() -> None:
    """faiss keeps to one thread as everything else does."""
    import faiss

    faiss.omp_set_num_threads(1)


def diffractor(method: str, epsilon: float, words: Sequence[str]) -> Callable[[Sequence[str]], list[str]]:
    """1-Diffractor on one list, the words as they stand.

    Substituted: NLTK's data (`_nltk`), so that no stop-word list is read for each word; the pool of processes by a call
    in this process, so that no word is sent anywhere; the list, since its making is no part of rewriting.
    """
    with _path("Diffractor", "src", **_nltk_modules()):
        core = importlib.import_module("diffractor.core")
    config = core.DiffractorConfig(method=method, epsilon=epsilon, verbose=False)
    with patch.object(core, "ensure_embeddings"), patch.object(core, "EmbeddingManager"):
        reference = core.Diffractor(config)
    ordered = list(words)
    reference.mgr = SimpleNamespace(lists=[ordered], word_to_idx=[{word: i for i, word in enumerate(ordered)}])
    core._RESOURCES = {
        "list": ordered,
        "mapping": reference.mgr.word_to_idx[0],
        "config": config,
        "rng": np.random.default_rng(0),
    }

    class Here:
        def starmap(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
            return [function(*each) for each in arguments]

    reference._pool = Here()
    return reference.rewrite  # type: ignore[no-any-return]


def mldp(name: str, epsilon: float, vectors: Any) -> Callable[[str], str]:
    """A mechanism of MLDP with its default settings: faiss's index of 100 lists where it has one.

    Substituted: NLTK's data (only SynTF, not run here, needs it). Truncated Gumbel is told the smallest and largest
    distance, which it otherwise takes from one random word by a call that Python 3.11 no longer has; and it is asked
    once more where its Poisson number of candidates is 0, as it is for one of n words, since faiss refuses that.
    """
    with _path("MLDP", "src", **_nltk_modules()):
        mechanisms = importlib.import_module("mldp_text.mechanisms")
    more = {"min_inter_dist": 1.0, "max_inter_dist": 40.0} if name == "TruncatedGumbel" else {}
    mechanism = getattr(mechanisms, name)
    built = mechanism(
        epsilon, embedding_matrix=vectors, dim=vectors.vector_size, vocab=set(vectors.key_to_index), **more
    )

    def again(word: str) -> str:
        try:
            return built.replace_word(word)  # type: ignore[no-any-return]
        except AssertionError:
            return built.replace_word(word)  # type: ignore[no-any-return]

    return again if name == "TruncatedGumbel" else built.replace_word


def santext() -> ModuleType:
    """SanText, nothing substituted."""
    with _path("SanText"):
        return importlib.import_module("SanText")


def custext(folder: Path, epsilon: float, words: Sequence[str], vectors: np.ndarray, texts: Sequence[str]) -> Any:
    """CusText on SST2's form of data and its default vectors' form, both written to `folder`.

    Substituted: the command line, its logger and matplotlib, which rewriting does not need; NLTK's data; pandas' former
    way to give the separator, and `to_csv`, so that nothing is written.
    """
    import pandas

    (folder / "datasets/sst2").mkdir(parents=True)
    (folder / "embeddings").mkdir()
    lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True))
    (folder / "embeddings/ct_vectors.txt").write_text("".join(lines))
    for split in ("train", "dev"):
        pandas.DataFrame({"sentence": texts}).to_csv(folder / f"datasets/sst2/{split}.tsv", sep="\t", index=False)
    plot = {"matplotlib": _module("matplotlib"), "matplotlib__pyplot": _module("matplotlib.pyplot")}
    logger = _module("logger", get_logger=None)
    with (
        _path("CusText", "CusText/sst2", logger=logger, **plot, **_nltk_modules()),
        patch.object(sys, "argv", ["main.py", "--eps", str(epsilon)]),
    ):
        utils = importlib.import_module("utils")
    read = pandas.read_csv
    table = SimpleNamespace(read_csv=lambda file, separator: read(file, sep=separator))
    utils.pd = table
    utils.trange = range
    utils.print = lambda *_: None
    utils.os = SimpleNamespace(path=utils.os.path, mkdir=lambda name: None)
    return utils


def dpmlm(model: Path) -> Any:
    """DP-MLM on a masked language model from a folder.

    Substituted: NLTK's data; `wn`, which is imported and not used.
    """
    with _path("DPMLM", wn=_module("wn"), **_nltk_modules()):
        module = importlib.import_module("DPMLM")
    return module.DPMLM(MODEL=str(model))


def ldp_audit(trials: int, epsilon: float) -> Any:
    """LDP-Auditor for generalised randomised response on two values.

    Substituted: Ray by calls in this process; pure-ldp, of which this protocol uses nothing; xxhash, which takes bytes
    only by now.
    """
    import psutil

    def remote(function: Any) -> Any:
        function.remote = function
        return function

    ray = _module("ray", remote=remote, init=lambda **_: None, shutdown=lambda: None, get=lambda values: values)
    unary = _module("unary", UEClient=None, UEServer=None)
    stand_ins = {"ray": ray, "pure_ldp": _module("pure_ldp"), "pure_ldp__frequency_oracles": _module("oracles")}
    package = _module("ldp_audit", __path__=[str(CODE / "ldp-audit/ldp_audit")])
    with (
        _path("ldp-audit", ldp_audit=package, pure_ldp__frequency_oracles__unary_encoding=unary, **stand_ins),
        patch.object(psutil, "cpu_count", lambda: 1),
    ):
        auditor = importlib.import_module("ldp_audit.base_auditor")
    hashed = auditor.xxhash.xxh32
    auditor.xxhash = SimpleNamespace(xxh32=lambda text, **more: hashed(text.encode(), **more))
    with patch.object(psutil, "cpu_count", lambda: 1):
        return auditor.LDPAuditor(nb_trials=trials, epsilon=epsilon, k=2, n_jobs=1)
