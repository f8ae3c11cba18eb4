"""The anonymity study's part of params.yaml: classifiers, anonymisers' auxiliaries, cells and attackers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from epsilometer.core.errors import UserError, unknown
from epsilometer.models.classifier import TRANSFORMER
from epsilometer.project import params
from epsilometer.project.params import ProjectParams
from epsilometer.project.references import check_cell, check_dataset, check_entry, check_label
from epsilometer.project.sections import Cell, MechanismEntry, Precision, Probability, Section

Kind = Literal["transformer", "linear", "encoder"]


Attacker = Literal["static", "relabelled", "adaptive", "augmented", "folded", "author", "detector"]


class FineTuning(Section):
    """Settings of `models.classifier.FineTuning`."""

    model: str = Field(
        "data/embedded/models/deberta",
        description="A model folder or pin, relative to the project's folder, or the id of a model on a hub.",
    )
    rate: Annotated[float, Field(gt=0)] = Field(5e-4, description="The learning rate.")
    batch: PositiveInt = Field(8, description="Texts per step.")
    longest: Annotated[int, Field(ge=8)] = Field(128, description="The length in tokens at which texts are truncated.")
    precision: Precision = Field(
        "float32",
        description="The precision of the computation; `auto` is bfloat16 if the hardware supports its products.",
    )
    epochs: PositiveInt = Field(1, description="Passes over the training texts.")
    decay: Annotated[float, Field(ge=0)] = Field(0.01, description="The weight decay.")
    layers: PositiveInt | None = Field(
        None, description="How many of the last layers are trained, with the head; null is the whole model."
    )


class Labels(Section):
    """The labels of a data set by role: tasks, and private attributes."""

    tasks: tuple[str, ...] = Field((), description="Labels that a classifier should still learn from rewrites.")
    attributes: tuple[str, ...] = Field((), description="Private labels that an attacker infers.")


class ClassifiedLabels(Labels):
    """The labels of a data set by role: tasks, private attributes, and numbers that a regression predicts."""

    numbers: tuple[str, ...] = Field(
        (),
        description="Labels that are numbers, which a ridge regression should still learn from rewrites (kinds "
        "`linear` and `encoder`).",
    )


class AuxiliariesEntry(Labels):
    """Classifiers, vectors and word relations that anonymisers read."""

    dataset: str = Field(description="The data set whose training texts the auxiliaries learn from.")
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] = Field(description="Labels to hide.")
    share: Probability = Field(0.5, description="The share of the training texts that the auxiliaries learn from.")
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = Field(
        ("transformer",), description="The kinds of classifier; one of each kind is trained for each label."
    )
    vectors: str = Field(description="The word vectors, by their name in `words.sources`.")
    relations: str | None = Field(
        None, description="A file with the columns a, b and relation, relative to the project's folder."
    )
    training: FineTuning = Field(FineTuning(), description="How transformers are fine-tuned.")


class RewriterEntry(Section):
    """An encoder-decoder trained on the auxiliaries' texts of a data set, for adversarial_back_translation."""

    dataset: str = Field(description="The data set whose training texts the rewriter learns from.")
    count: PositiveInt | None = Field(
        None, description="The number of texts that the rewriter learns from; null is all."
    )
    attribute: str = Field(description="The label that its hidden states should not reveal.")
    model: str = Field(description="The encoder-decoder to start from, `data/models/NAME`.")
    round_trip: MechanismEntry = Field(description="The mechanism whose rewrites the rewriter learns to imitate.")
    training: Mapping[str, Any] = Field(
        {}, description="Settings of `epsilometer/mechanisms/anonymisers/shared/adversarial_rewriter.py`."
    )

    @property
    def cell(self) -> Cell:
        """The cell of the mechanism `round_trip`, whose rewrites the model learns to write."""
        return Cell(dataset=self.dataset, **dict(self.round_trip))


class TextCounts(Section):
    """The maximum numbers of texts for training and testing classifiers, and for choosing settings."""

    train: PositiveInt = Field(1000, description="The maximum number of texts to train on.")
    test: PositiveInt = Field(1000, description="The maximum number of texts to test on.")
    validation: PositiveInt = Field(1000, description="The maximum number of texts to choose settings on.")
    rewritten: PositiveInt | None = Field(
        None,
        description="How many of the training texts are rewritten, for attackers to learn from; null is all. If all "
        "attackers are static, none are rewritten. Victims always train on all training texts.",
    )

    @property
    def sizes(self) -> dict[str, int]:
        """The maximum number of texts of each split that classifiers are trained and tested on."""
        return {"train": self.train, "test": self.test}

    @property
    def anonymized(self) -> dict[str, int]:
        """The maximum number of texts of each split that are rewritten if attackers learn from rewrites."""
        return {"train": min(self.train, self.rewritten or self.train), "test": self.test}


class Training(FineTuning):
    """Settings of training with several seeds. Each seed gives one classifier."""

    seeds: PositiveInt = Field(5, description="How many classifiers are trained, each with its own seed.")


class Classification(Section):
    """Settings of the classifiers of clean and rewritten texts."""

    labels: Mapping[str, ClassifiedLabels] = Field(
        {}, description="The labels of each data set that has cells in `downstream` or `anonymity`, by data set."
    )
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = Field(
        ("transformer",),
        description="The kinds of classifiers: of clean texts, for victims and static attackers, and of rewrites in "
        "`downstream`.",
    )
    texts: TextCounts = Field(TextCounts(), description="How many texts are used.")
    training: Training = Field(Training(), description="How classifiers are trained.")
    grammar: str | None = Field(
        None,
        description="A text classifier trained on CoLA, by id or folder, which rates the grammar of changed rewrites "
        "and of their texts; null measures no grammar.",
    )


class AnonymityCell(Cell):
    """A cell whose rewrites are attacked by classifiers that infer attributes."""

    part: Literal["test", "validation"] = Field(
        "test",
        description="`test`: rewrite the texts that results are measured on, and those from whose rewrites attackers "
        "learn. `validation`: rewrite only the texts on which settings are chosen.",
    )
    true_labels: bool | None = Field(
        None,
        description="Whether a mechanism that asks classifiers gets the true labels instead of their answers; null: "
        "only if it runs `as_published`, as in the papers.",
    )


class Attackers(Section):
    """Attackers who infer attributes from a cell's rewrites (`auditing.attributes.attackers`)."""

    names: tuple[Attacker, ...] = Field(
        ("static", "relabelled", "adaptive", "augmented", "folded", "author", "detector"),
        description="The attackers (`epsilometer/auditing/attributes/attackers.py`).",
    )
    kinds: tuple[Kind, ...] | None = Field(
        None, description="The kinds of their classifiers, among `classification.kinds`; null is all of them."
    )
    seeds: PositiveInt = Field(1, description="The maximum number of seeds of each kind.")
    authors: tuple[PositiveInt, ...] = Field((1, 5, 20), description="How many texts of one author are read together.")
    llm: Mapping[str, Mapping[str, Any]] = Field(
        {},
        description="Language models that attack, by their names in tables, with the settings of "
        "`epsilometer/studies/anonymity/llm_inference.py`.",
    )


class AnonymityParams(ProjectParams):
    """The params.yaml of the study of anonymity."""

    auxiliaries: Mapping[str, AuxiliariesEntry] = Field(
        {}, description="Classifiers, word vectors and word relations that anonymisers read."
    )
    rewriters: Mapping[str, RewriterEntry] = Field(
        {}, description="Encoder-decoders that `adversarial_back_translation` reads."
    )
    classification: Classification = Field(Classification(), description="Classifiers of texts, clean and rewritten.")
    downstream: Mapping[str, Cell] = Field({}, description="Cells whose rewrites train classifiers.")
    anonymity: Mapping[str, AnonymityCell] = Field(
        {}, description="Cells from whose rewrites attackers infer attributes."
    )
    attackers: Attackers = Field(Attackers(), description="The attackers who infer attributes.")

    def check(self) -> None:
        """Check the settings as `ProjectParams.check` does, then that labels, auxiliaries and classifiers fit."""
        super().check()
        cells = [("downstream", self.downstream), ("anonymity", self.anonymity)]
        for kind, name, cell in ((kind, name, cell) for kind, entries in cells for name, cell in entries.items()):
            check_cell(self.datasets, cell, kind, name)
            if cell.dataset not in self.classification.labels:
                raise UserError(
                    f"{kind}.{name}: the roles of the labels of {cell.dataset} are missing; list its tasks and "
                    f"attributes under classification.labels.{cell.dataset}",
                    "EPS-S025",
                )
        for dataset, labels in self.classification.labels.items():
            self._check_labels(dataset, labels, f"classification.labels.{dataset}")
        for name, entry in self.auxiliaries.items():
            self._check_labels(entry.dataset, entry, f"auxiliaries.{name}")
            if entry.vectors not in self.words.sources:
                raise unknown(f"word vectors in auxiliaries.{name}.vectors", entry.vectors, self.words.sources)
        for kind in self.attackers.kinds or ():
            if kind not in self.classification.kinds:
                raise unknown("kind of classifier in attackers.kinds", kind, self.classification.kinds)
        for name, rewriter in self.rewriters.items():
            self._check_rewriter(rewriter, f"rewriters.{name}")
        for name, anonymised in self.anonymity.items():
            self._check_anonymity(anonymised, f"anonymity.{name}")
        for dataset, classified in self.classification.labels.items():
            if classified.numbers and {*self.classification.kinds} <= {TRANSFORMER}:
                raise UserError(
                    f"classification.labels.{dataset}.numbers: a transformer cannot learn numbers here; add `linear` "
                    "or `encoder` to classification.kinds",
                    "EPS-S026",
                )

    @property
    def anonymized(self) -> dict[str, int]:
        """The maximum number of texts of each split that are rewritten for stage `anonymity`."""
        texts = self.classification.texts
        return texts.anonymized if {*self.attackers.names} - {"static"} else {"test": texts.test}

    def fine_tunings(self) -> Iterator[tuple[str, FineTuning]]:
        """Yield the settings for fine-tuning transformers, each with the place of its model in params.yaml."""
        if self.classification.labels and TRANSFORMER in self.classification.kinds:
            yield "classification.training.model", self.classification.training
        for name, entry in self.auxiliaries.items():
            if TRANSFORMER in entry.kinds:
                yield f"auxiliaries.{name}.training.model", entry.training

    def _check_anonymity(self, cell: AnonymityCell, place: str) -> None:
        """Raise UserError for a data set of pairs or without attributes, and for auxiliaries that do not fit it.

        Auxiliaries do not fit if params.yaml lacks them, or if the data set lacks one of their attributes or tasks.
        """
        labels = self.classification.labels[cell.dataset]
        if self.datasets[cell.dataset].pair:
            raise UserError(
                f"{place}: {cell.dataset} consists of pairs, which only `downstream` takes; leave "
                f"datasets.{cell.dataset}.pair out to read both columns as one text",
                "EPS-S027",
            )
        if not labels.attributes:
            raise UserError(
                f"{place}: {cell.dataset} has no attribute to hide; list one under "
                f"classification.labels.{cell.dataset}.attributes",
                "EPS-S028",
            )
        resource = PurePath(cell.resource or "")
        if resource.parent != PurePath("data/auxiliaries"):
            return
        if (name := resource.name) not in self.auxiliaries:
            raise unknown(f"auxiliaries in {place}.resource", name, self.auxiliaries)
        entry = self.auxiliaries[name]
        for role in ("attributes", "tasks"):
            strange = sorted({*getattr(entry, role)} - {*getattr(labels, role)})
            if strange:
                raise UserError(
                    f"{place}.resource: the auxiliaries {name!r} are for {role} that {cell.dataset} does not have "
                    f"({', '.join(strange)}); list them under classification.labels.{cell.dataset}.{role}, or give "
                    "auxiliaries for this data set's labels",
                    "EPS-S029",
                )

    def _check_rewriter(self, entry: RewriterEntry, place: str) -> None:
        """Raise UserError for a rewriter whose label, texts or models are missing from params.yaml."""
        check_dataset(self.datasets, entry.dataset, place)
        check_label(self.datasets, entry.dataset, entry.attribute, f"{place}.attribute")
        if not any(auxiliaries.dataset == entry.dataset for auxiliaries in self.auxiliaries.values()):
            raise UserError(
                f"{place}: a rewriter learns from the auxiliaries' texts of {entry.dataset}, which has no auxiliaries; "
                "add an entry for this data set under `auxiliaries`",
                "EPS-S030",
            )
        check_entry(entry.round_trip, f"{place}.round_trip")
        for setting, path in (("model", entry.model), ("round_trip.resource", entry.round_trip.resource)):
            if path is not None and PurePath(path).parent != PurePath("data/models"):
                raise UserError(
                    f"{place}.{setting} must be data/models/NAME, with NAME under `models`, got {path!r}", "EPS-S031"
                )

    def _check_labels(self, dataset: str, labels: Labels, setting: str) -> None:
        if dataset not in self.datasets:
            raise unknown(f"data set in {setting}", dataset, self.datasets)
        numbers = getattr(labels, "numbers", ())  # auxiliaries have none
        for label in (every := (*labels.tasks, *labels.attributes, *numbers)):
            check_label(self.datasets, dataset, label, setting)
            if every.count(label) > 1:
                raise UserError(f"{setting}: {label!r} is listed twice; give each label one role", "EPS-S032")
            if label.startswith(".") or {*label} & {*"/\\\0"}:
                raise UserError(
                    f"{setting}: {label!r} cannot be part of a folder's name; rename the column", "EPS-S033"
                )
        if not every:
            raise UserError(f"{setting} must list at least one label under tasks, attributes or numbers", "EPS-S034")

    def data_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `ProjectParams.data_paths`, then models to fine-tune and files of word relations."""
        yield from super().data_paths()
        yield "classification.training.model", self.classification.training.model
        if self.classification.grammar is not None:
            yield "classification.grammar", self.classification.grammar
        for name, entry in self.auxiliaries.items():
            yield f"auxiliaries.{name}.training.model", entry.training.model
            if entry.relations is not None:
                yield f"auxiliaries.{name}.relations", entry.relations

    def read_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `ProjectParams.read_paths`, then the initial models of rewriters."""
        yield from super().read_paths()
        yield from ((f"rewriters.{name}.model", entry.model) for name, entry in self.rewriters.items())

    def resources(self) -> Iterator[str]:
        """Yield the paths of `ProjectParams.resources`, then auxiliaries and rewriters."""
        yield from super().resources()
        yield from (f"data/auxiliaries/{name}" for name in self.auxiliaries)
        yield from (f"data/rewriters/{name}" for name in self.rewriters)

    def studied(self) -> Iterator[tuple[str, bool]]:
        """Yield the sections as `ProjectParams.studied` does, with those of this study first."""
        yield "downstream", bool(self.downstream)
        yield "anonymity", bool(self.anonymity)
        yield from super().studied()

    def mechanisms_shown(self) -> Iterator[str]:
        """Yield the mechanisms of `ProjectParams.mechanisms_shown`, then those of the cells under `anonymity`."""
        yield from super().mechanisms_shown()
        yield from (cell.mechanism for cell in self.anonymity.values())

    def cells_by_place(self) -> Iterator[tuple[str, MechanismEntry]]:
        """Yield the cells of `ProjectParams.cells_by_place`, then the round trips of rewriters."""
        yield from super().cells_by_place()
        yield from ((f"rewriters.{name}.round_trip", entry.round_trip) for name, entry in self.rewriters.items())


def read(path: Path | str = "params.yaml") -> AnonymityParams:
    """Read the parameters of this study from a file with `project.params.read`."""
    return params.read(AnonymityParams, path)
