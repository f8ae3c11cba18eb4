"""Check an audit before it runs: each component is built, each local file of texts is read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from epsilometer.core.attack import KIND, Checked
from epsilometer.core.component import EMBEDDED, build, find
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.mechanism import build_mechanism
from epsilometer.corpora import hub, tab
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import read_relations
from epsilometer.models.classifier import TRANSFORMER
from epsilometer.models.locate import would_download
from epsilometer.project import cells
from epsilometer.project.confinement import code_paths, data_paths
from epsilometer.project.corpora import corpus
from epsilometer.project.params import Params
from epsilometer.project.parts import check_parts, with_parts
from epsilometer.project.sections import Dataset, FineTuning
from epsilometer.runtime import checksums
from epsilometer.utility.labelled import to_rewrite
from epsilometer.utility.similarity import metric

_SAMPLE = 1000  # texts of a generator
_TEXT = 1000  # least bytes that a text takes, its embedding included


def check(params: Params) -> list[str]:
    """The names of what the audit would download; loads no model.

    Raises UserError for anything that cannot be built or is invalid; and, when all else is right, for missing files,
    with the list of downloads.
    """
    _check_writable(params)
    _check_memory(params)
    checksums.check(EMBEDDED)
    _check_links(params)
    absent = [
        f"{setting}: there is no {path!r}; put it there, or correct the path"
        for setting, path in data_paths(params)
        if not setting.endswith(".training.model") and not Path(params.path(path)).exists()
    ]
    pins = _check_corpora(params)
    models = _models_of_stages(params)
    for entry in params.auxiliaries.values():
        if entry.relations is not None and Path(params.path(entry.relations)).exists():
            read_relations(params.path(entry.relations))
    _check_resources(params)
    for cell in (*params.cells.values(), *params.downstream.values(), *params.anonymity.values()):
        cells.build(params, cell)
    _check_rewriters(params)
    _check_reconstruction(params)
    for name, cell in params.sweeps.items():
        for setting, _, _, settings in params.variations(name):
            build_mechanism(str(params.code(cell)), settings, cell.resource, f"sweeps.{name}.vary.{setting}")
    models += [*_check_attacks(params), *_check_metrics(params), *_check_membership(params)]
    texts = {f"{pin.dataset}@{pin.revision}": pin for pin in pins}
    downloads = [
        *(f"data set {name}" for name, pin in texts.items() if hub.would_download(pin)),
        *(f"model {model}" for model in dict.fromkeys(models) if would_download(model)),
    ]
    if absent:
        raise UserError("\n".join([*absent, *(f"would be downloaded: {name}" for name in downloads)]))
    return downloads


def _check_corpora(params: Params) -> list[hub.Pin]:
    """Read all texts that lie here; the pins of the others, unread."""
    pins = [
        _check_dataset(params, name, dataset)
        for name, dataset in params.datasets.items()
        if Path(params.path(dataset.source)).exists()
    ]
    for kind in ("triples", "autoencoders", "noise_aware"):
        for entry in getattr(params, kind).values():
            pins.append(_pinned_corpus(params.path(entry.corpus.source)))
    return [pin for pin in pins if pin is not None]


def _models_of_stages(params: Params) -> list[str]:
    """The models that stages read or train on, as the hub calls them."""
    models = [params.embedding.model]
    for name, source in params.models.items():
        models += _pinned_model(params.path(source), f"models.{name}")
    for name, source in params.words.sources.items():
        models += _pinned_model(params.path(source), f"words.sources.{name}")
    models += [entry.encoder for entry in params.triples.values()]
    for place, training in _trainings(params):
        models += _classifier_model(params, training.model, place)
    return models


def _check_attacks(params: Params) -> list[str]:
    """Build each attack; the models that they load."""
    models = []
    for name, settings in params.attacks.items():
        attack = build(find(KIND, name, "guess"), settings, f"attacks.{name}")
        if isinstance(attack, Checked):
            for dataset in params.datasets.values():
                attack.check(dataset.public)
        remote = getattr(attack, "endpoint", False)
        model = getattr(attack, "model", None)
        outputs = {f"data/models/{stage}" for stage in params.models}  # of a stage, so it may not be there yet
        models += [model] if model and not remote and model not in outputs else []
    return models


def _check_membership(params: Params) -> list[str]:
    """Build each membership attack, which must be content with its references; the models that they load."""
    from epsilometer.project import membership  # what it trains with loads slowly

    models = []
    for name, entry in params.membership.items():
        built = membership.attacks(entry, f"membership.{name}")
        membership.check_references(params.references[entry.references], built, f"membership.{name}")
        models += [str(model) for one in built.values() if (model := getattr(one, "masked_lm", None))]
    return [model for model in models if model not in {f"data/models/{stage}" for stage in params.models}]


def _check_metrics(params: Params) -> list[str]:
    """Build each metric; the models that they load, apart from the embedded ones."""
    used = (getattr(metric(name, settings), "model", None) for name, settings in params.utility.metrics.items())
    return [model for model in used if model and not (EMBEDDED / model).is_dir()]


def _check_reconstruction(params: Params) -> None:
    """Build the attacks on what is sent; they stand beside code that needs torch."""
    if params.reconstruction:
        from epsilometer.project import sending

        for name in params.reconstruction:
            sending.built(params, name)


def _check_rewriters(params: Params) -> None:
    """Build what rewriters are trained by; their settings stand beside code that needs torch."""
    if params.rewriters:
        from epsilometer.mechanisms.anonymisers.shared.adversarial_rewriter import AdversarialTraining

        for name, entry in params.rewriters.items():
            cells.build(params, entry.cell)
            build(AdversarialTraining, entry.training, f"rewriters.{name}.training")


def _check_resources(params: Params) -> None:
    """Refuse a resource that neither lies there nor is made by a stage."""
    outputs = [
        *(f"data/prepared/{name}.parquet" for name in params.datasets),
        *(f"data/vectors/{name}.npz" for name in params.words.sources),
        "data/lists.npz",
        *(
            f"data/{kind}/{name}"
            for kind in ("models", "triples", "autoencoders", "noise_aware", "auxiliaries", "rewriters")
            for name in getattr(params, kind)
        ),
    ]
    for kind in ("cells", "downstream", "anonymity"):
        for name, cell in getattr(params, kind).items():
            resource = cell.resource
            if resource is not None and os.path.normpath(resource) not in outputs and not Path(resource).exists():
                raise UserError(
                    f"{unknown(f'resource in {kind}.{name}.resource', resource, outputs)}; a resource is made by a "
                    "stage, or is a file or folder of your own"
                )


def _check_memory(params: Params) -> None:
    """Refuse numbers of trials and of generated texts that do not fit into the memory that is free."""
    needs = [("trials.count", params.trials.count, _trial(params.trials.candidates))]
    needs += [
        (f"ablations.{name}.trials", cell.trials, _trial(max((params.trials.candidates, *cell.candidates))))
        for name, cell in params.ablations.items()
    ]
    needs += [(f"sweeps.{n}.trials", s.trials, _trial(params.trials.candidates)) for n, s in params.sweeps.items()]
    needs += [("instrument.trials", params.instrument.trials, _trial(2))]
    needs += [
        (f"datasets.{name}.count", dataset.count, _TEXT)
        for name, dataset in params.datasets.items()
        if dataset.count is not None and dataset.source.endswith(".py")
    ]
    gib, free = 2**30, psutil.virtual_memory().available
    for setting, count, each in needs:
        if count * each > free:
            raise UserError(
                f"{setting}: {count:,} take at least {count * each / gib:,.1f} GiB of memory, and {free / gib:,.1f} "
                f"GiB are free; give at most {free // each:,}, or free some"
            )


def _trial(candidates: int) -> int:
    """The least bytes that a trial takes: its candidates, its target's slot, its number, its claim, a guess."""
    return 4 * candidates + 20


def _check_links(params: Params) -> None:
    """Refuse a link that leads out of the project, as a relative path out of it is refused.

    What comes with the package counts as the project's: `project.starting` links it.
    """
    project = Path(params.root).resolve()
    outside = [EMBEDDED.parent.resolve(), *(Path(params.path(folder)).resolve() for folder in params.outside)]
    for paths, folders in ((data_paths(params), [project, *outside]), (code_paths(params), [project])):
        for setting, path in paths:
            real = Path(params.path(path)).resolve()
            if not Path(path).is_absolute() and not any(real.is_relative_to(folder) for folder in folders):
                raise UserError(
                    f"{setting}: {path!r} is a link that leads out of the project, to {str(real)!r}; copy what is "
                    "there into the project, name its folder under `outside` (data only), or give its absolute path"
                )


def _check_writable(params: Params) -> None:
    """Refuse a folder that results, or DVC's record of them, cannot be written to."""
    folders = [folder for folder in Path("data").glob("*/") if folder.name != "embedded"]
    for folder in (Path("data"), *folders, Path("reports"), Path(params.root, ".dvc")):
        place = next(part for part in (folder, *folder.parents) if part.exists())
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            raise UserError(
                f"{place.resolve()} must be writable, since the audit keeps its results there, but is not "
                f"({error.strerror}); mount it writable, change its permissions, or run in another folder"
            ) from error


def _pinned_corpus(source: str) -> hub.Pin | None:
    """The pin of a corpus that is a pin and exists; None for others."""
    pinned = source.endswith(".json") and Path(source).exists() and not tab.holds(Path(source))
    return hub.read_pin(Path(source)) if pinned else None


def _check_dataset(params: Params, name: str, dataset: Dataset) -> hub.Pin | None:
    """Refuse a source without the named columns or split, or with too few texts. A pin is returned unread.

    Of a generator, a sample is checked.
    """
    source = params.path(dataset.source)
    if source.endswith(".json") and not tab.holds(Path(source)):
        return hub.read_pin(Path(source))
    sampled = source.endswith(".py") and dataset.count is not None and dataset.count > _SAMPLE
    table = corpus(params, name, _SAMPLE if sampled else None).table
    splits = table["split"]
    if dataset.use not in splits:
        raise unknown(f"split in datasets.{name}.use", dataset.use, splits.unique())
    if (texts := (splits == dataset.use).sum()) < params.trials.candidates:
        raise UserError(
            f"trials.candidates (k) must be at most the number of distinct texts, {texts} in the split {dataset.use!r} "
            f"of {name}, got {params.trials.candidates}"
        )
    if not sampled and params.private_training:
        from epsilometer.project.trainings import check_cells

        check_cells(params, name, table)
    if not sampled and (labels := params.classification.labels.get(name)) is not None:
        settings = params.classification
        table = with_parts(params, name, table)
        check_parts(params, name, table)
        sizes = settings.texts.sizes, params.audit.seed, settings.training.batch
        to_rewrite(table, labels.tasks, labels.attributes, *sizes)  # refuses unusable labels
    return None


def _trainings(params: Params) -> Iterator[tuple[str, FineTuning]]:
    """The settings by which transformers are fine-tuned, with their places in params.yaml."""
    if params.classification.labels and TRANSFORMER in params.classification.kinds:
        yield "classification.training.model", params.classification.training
    for name, entry in params.auxiliaries.items():
        if TRANSFORMER in entry.kinds:
            yield f"auxiliaries.{name}.training.model", entry.training


def _classifier_model(params: Params, model: str, place: str) -> list[str]:
    """The model that classifiers start from, as the hub calls it; none where it lies in the project."""
    path = params.path(model)
    return _pinned_model(path, place) if Path(path).exists() else [model]


def _pinned_model(source: str, place: str) -> list[str]:
    """The model that a small file {"model": id, "revision": commit} names; none for other sources."""
    path = Path(source)
    if path.suffix != ".json" or not path.exists():
        return []
    try:
        pin = json.loads(path.read_bytes())
        return ["@".join(pin[key] for key in ("model", "revision") if key in pin)]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f'{place}: {source} must be {{"model": id, "revision": commit}}') from error
