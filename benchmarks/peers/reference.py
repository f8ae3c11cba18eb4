"""Loader of the fetched reference code, with substitutes for dependencies that are not available.

The reference code is unchanged. Each function loads one repository, and its docstring lists the substituted parts. If a
substitution affects speed, it makes the reference code faster.
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
    """Allow imports from a fetched folder. modules: substitutes, by name with a double underscore for a dot."""
    folder = CODE.joinpath(*parts)
    if not folder.is_dir():
        raise FileNotFoundError(f"{parts[0]} is missing; run `python -m benchmarks.peers.fetch`")
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
    """Return NLTK without its data: texts are split at white space, and there are no stop-words."""
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
    """Return word vectors in gensim's format, which the authors' packages need."""
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(list(words), vectors)
    return keyed


def one_thread() -> None:
    """Make faiss use one thread, like everything else."""
    import faiss

    faiss.omp_set_num_threads(1)


def diffractor(method: str, epsilon: float, words: Sequence[str]) -> Callable[[Sequence[str]], list[str]]:
    """Return 1-Diffractor's function that rewrites texts, on one list with the words in their order.

    Substituted: NLTK's data (`_nltk`), so that no stop-word list is read for each word; the pool of processes, by calls
    in this process; the making of the list, which is not part of rewriting.
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
    """Return the function of an MLDP mechanism that replaces a word, with its default settings.

    Substituted: NLTK's data, which only SynTF needs. Truncated Gumbel gets the smallest and largest distance, since its
    code computes them by a function that Python 3.11 no longer has. It is called again if its Poisson number of
    candidates is 0 (one of n words), since faiss refuses that.
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
    """Return SanText's module. Nothing is substituted."""
    with _path("SanText"):
        return importlib.import_module("SanText")


def custext(folder: Path, epsilon: float, words: Sequence[str], vectors: np.ndarray, texts: Sequence[str]) -> Any:
    """Return CusText's module, with data in SST2's format and vectors in its default format, both written to `folder`.

    Substituted: the command line, its logger and matplotlib, which rewriting does not need; NLTK's data; pandas' former
    argument for the separator; `to_csv`, so that nothing is written.
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
    """Return DP-MLM with a masked language model from a folder.

    Substituted: NLTK's data; `wn`, which is imported but not used.
    """
    with _path("DPMLM", wn=_module("wn"), **_nltk_modules()):
        module = importlib.import_module("DPMLM")
    return module.DPMLM(MODEL=str(model))


def ldp_audit(trials: int, epsilon: float) -> Any:
    """Return LDP-Auditor for generalised randomised response on two values.

    Substituted: Ray, by calls in this process; pure-ldp, which this protocol does not use; xxhash, which now only
    accepts bytes.
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
