"""What the shipped mechanisms read when nothing else is given, made once and kept in the user's cache.

The pipeline makes the same files in stages of its own, where DVC watches them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from epsilometer.core.component import PACKAGE
from epsilometer.core.errors import UserError, disk_trouble
from epsilometer.runtime import checksums
from epsilometer.runtime.progress import note

EMBEDDED = PACKAGE.parent / "data" / "embedded" / "models"


def vectors(out: Path) -> None:
    """The word vectors of all-MiniLM-L6-v2's token embeddings."""
    from epsilometer.models.locate import locate
    from epsilometer.text.vectors import WordVectors

    WordVectors.from_transformer(locate("all-MiniLM-L6-v2")).save(out)


def lists(out: Path) -> None:
    """Two 1-D lists of those words."""
    from epsilometer.mechanisms.words.shared.lists import WordLists
    from epsilometer.text.vectors import WordVectors

    WordLists.build([WordVectors.load(cached("vectors.npz"))], 2).save(out)


def over_words(kind: str, source: Path | None, count: int, out: Path) -> Path:
    """Write `vectors.npz` or `lists.npz` of the first `count` words of a file of word vectors, or of the embedded."""
    from epsilometer.mechanisms.words.shared.lists import WordLists
    from epsilometer.text.vectors import WordVectors

    few = WordVectors.load(source or cached("vectors.npz")).whole_words().first(count)
    (few if kind == "vectors.npz" else WordLists.build([few], 2)).save(out)
    return out


def masked_lm(out: Path) -> None:
    """The embedded masked language model."""
    from epsilometer.models.locate import locate
    from epsilometer.models.masked_lm import assemble

    assemble(_embedded("minilm-mlm"), locate("all-MiniLM-L6-v2"), out)


def seq2seq(out: Path) -> None:
    """The embedded encoder-decoder."""
    from epsilometer.models.locate import locate
    from epsilometer.models.seq2seq import assemble

    assemble(_embedded("minilm-seq2seq"), locate("all-MiniLM-L6-v2"), out)


def paraphraser(out: Path) -> None:
    """The embedded decoder-only paraphraser."""
    shutil.copytree(_embedded("minilm-paraphraser"), out)


def triples(out: Path) -> None:
    """A public corpus of triples, from the embedded generators' texts."""
    from epsilometer.corpora.synthetic import generate
    from epsilometer.mechanisms.selection.shared.triples import build

    texts = [text for part in ("queries", "reviews") for text in generate(part, 1500, 1)["text"]]
    build(texts, out, [50, 200], seed=1)


def autoencoder(out: Path) -> None:
    """ADePT's autoencoder, trained for some minutes on the embedded generators' texts."""
    from epsilometer.corpora.synthetic import generate
    from epsilometer.mechanisms.latents.shared.autoencoder import Shape, Training, train

    texts = [text for part in ("queries", "reviews") for text in generate(part, 12_000, 1)["text"]]
    model, _ = train(texts, Shape(), Training())
    model.save(out)


def _embedded(name: str) -> Path:
    if not (EMBEDDED / name).is_dir():
        raise UserError(f"the embedded weights are not at {EMBEDDED / name}; give `resource`, the folder of a model")
    checksums.check(EMBEDDED / name)
    return EMBEDDED / name


_MAKERS: dict[str, Callable[[Path], None]] = {
    "vectors.npz": vectors,
    "lists.npz": lists,
    "minilm-mlm": masked_lm,
    "minilm-seq2seq": seq2seq,
    "minilm-paraphraser": paraphraser,
    "triples": triples,
    "autoencoder": autoencoder,
}


def cached(name: str) -> Path:
    """The cached resource of this name, made on first use; a folder for a model.

    Raises UserError where the cache cannot be written to, and leaves nothing half written there.
    """
    from platformdirs import user_cache_path

    path = user_cache_path("epsilometer") / name
    if (EMBEDDED / name).is_dir():  # trained further, they are another model
        from epsilometer.models.bounds import weights_hash

        path = path.with_name(f"{name}-{weights_hash(EMBEDDED / name)[:8]}")
    if not path.exists():
        partial = path.with_name(f"partial-{os.getpid()}-{name}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            what = str(_MAKERS[name].__doc__).removesuffix(".")
            note(f"made once, and kept in {path}: {what[0].lower()}{what[1:]}")
            _MAKERS[name](partial)
            if partial.is_dir():
                checksums.write(partial)
            os.replace(partial, path)
        except OSError as error:
            if (trouble := disk_trouble(error)) is None:
                raise
            raise UserError(f"{name} cannot be kept in {path.parent}: {trouble}, then run again") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True) if partial.is_dir() else partial.unlink(missing_ok=True)
    checksums.check(path)
    return path
