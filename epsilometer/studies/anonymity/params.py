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
        "data/embedded/models/deberta", description="A folder or pin from the project's folder, or a hub id."
    )
    rate: Annotated[float, Field(gt=0)] = Field(5e-4, description="The learning rate.")
    batch: PositiveInt = Field(8, description="Texts a step.")
    longest: Annotated[int, Field(ge=8)] = Field(128, description="The length in tokens at which texts are cut.")
    precision: Precision = Field(
        "float32", description="The precision that it computes in; `auto` is bfloat16 where the hardware multiplies it."
    )
    epochs: PositiveInt = Field(1, description="Passes over the training texts.")
    decay: Annotated[float, Field(ge=0)] = Field(0.01, description="The weight decay.")
    layers: PositiveInt | None = Field(
        None, description="How many of the last layers are trained, with the head; null is the whole model."
    )


class Labels(Section):
    """The labels of a data set by role: tasks to do, and private attributes to infer."""

    tasks: tuple[str, ...] = Field((), description="Labels that a classifier is to learn from rewrites.")
    attributes: tuple[str, ...] = Field((), description="Private labels that an attacker infers.")


class ClassifiedLabels(Labels):
    """Also which labels are numbers, told by a regression."""

    numbers: tuple[str, ...] = Field(
        (),
        description="Labels that are numbers, which a ridge regression is to learn from rewrites (kinds `linear` and "
        "`encoder`).",
    )


class AuxiliariesEntry(Labels):
    """Classifiers, vectors and word relations that anonymisers read."""

    dataset: str = Field(description="The data set whose training texts they learn from.")
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] = Field(description="Labels to hide.")
    share: Probability = Field(0.5, description="The share of the training texts that they see.")
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = Field(
        ("transformer",), description="The kinds of classifier, one of each for each label."
    )
    vectors: str = Field(description="The word vectors, by their name in `words.sources`.")
    relations: str | None = Field(
        None, description="A file with the columns a, b and relation, from the project's folder."
    )
    training: FineTuning = Field(FineTuning(), description="How transformers are fine-tuned.")


class RewriterEntry(Section):
    """An encoder-decoder, which adversarial_back_translation reads, trained on the auxiliaries' texts of a data set."""

    dataset: str = Field(description="The data set whose training texts it learns from.")
    count: PositiveInt | None = Field(None, description="Learns from the first so many of them; null is all.")
    attribute: str = Field(description="The label that its states are not to show.")
    model: str = Field(description="The encoder-decoder to start from, `data/models/NAME`.")
    round_trip: MechanismEntry = Field(description="The mechanism whose rewrites it learns to write.")
    training: Mapping[str, Any] = Field(
        {}, description="Settings of `epsilometer/mechanisms/anonymisers/shared/adversarial_rewriter.py`."
    )

    @property
    def cell(self) -> Cell:
        """The round trip as a cell."""
        return Cell(dataset=self.dataset, **dict(self.round_trip))


class TextCounts(Section):
    """The largest numbers of texts to train and test classifiers on, and to choose thresholds on."""

    train: PositiveInt = Field(1000, description="The most texts to train on.")
    test: PositiveInt = Field(1000, description="The most texts to test on.")
    validation: PositiveInt = Field(1000, description="The most texts to choose thresholds on.")
    rewritten: PositiveInt | None = Field(
        None,
        description="How many of the training texts are rewritten for attackers to learn from; null is all. None is "
        "where all attackers are static. Victims train on all of them in any case.",
    )

    @property
    def sizes(self) -> dict[str, int]:
        """The bounds of the splits that classifiers are trained and tested on."""
        return {"train": self.train, "test": self.test}

    @property
    def anonymized(self) -> dict[str, int]:
        """The bounds of the splits that are rewritten if attackers learn from rewrites."""
        return {"train": min(self.train, self.rewritten or self.train), "test": self.test}


class Training(FineTuning):
    """Training with several seeds; each gives a classifier of its own."""

    seeds: PositiveInt = Field(5, description="How many classifiers are trained, each with a seed of its own.")


class Classification(Section):
    """Classifiers of texts, clean and rewritten."""

    labels: Mapping[str, ClassifiedLabels] = Field(
        {}, description="By data set, of every data set that has cells in `downstream` or `anonymity`."
    )
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = Field(
        ("transformer",),
        description="The kinds of the classifiers of clean texts, which are victims and static attackers, and of those "
        "that `downstream` trains.",
    )
    texts: TextCounts = Field(TextCounts(), description="How many texts are used.")
    training: Training = Field(Training(), description="How classifiers are trained.")
    grammar: str | None = Field(
        None,
        description="A text classifier trained on CoLA, by id or folder, which says how acceptable changed rewrites "
        "and their texts are; null measures no grammar.",
    )


class AnonymityCell(Cell):
    """A cell whose rewrites are measured by what classifiers still infer from them."""

    part: Literal["test", "validation"] = Field(
        "test",
        description="`test`: the texts that everything is measured on, and those that attackers learn rewrites from; "
        "`validation`: those alone that settings are chosen on.",
    )
    true_labels: bool | None = Field(
        None,
        description="Whether a mechanism that asks classifiers is told the true labels, and does not take their word; "
        "null: where it runs `as_published`, as the papers' are.",
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
    seeds: PositiveInt = Field(1, description="The most seeds of each kind.")
    authors: tuple[PositiveInt, ...] = Field((1, 5, 20), description="How many texts of one author are read together.")
    llm: Mapping[str, Mapping[str, Any]] = Field(
        {},
        description="Language models that are asked, by their names in tables, with the settings of "
        "`epsilometer/studies/anonymity/llm_inference.py`.",
    )


class AnonymityParams(ProjectParams):
    """The params.yaml of the study of anonymity."""

    auxiliaries: Mapping[str, AuxiliariesEntry] = Field(
        {}, description="Classifiers, word vectors and word relations, which anonymisers read."
    )
    rewriters: Mapping[str, RewriterEntry] = Field(
        {}, description="Encoder-decoders, which `adversarial_back_translation` reads."
    )
    classification: Classification = Field(Classification(), description="Classifiers of texts, clean and rewritten.")
    downstream: Mapping[str, Cell] = Field({}, description="Cells whose rewrites train classifiers.")
    anonymity: Mapping[str, AnonymityCell] = Field(
        {}, description="Cells from whose rewrites attackers infer attributes."
    )
    attackers: Attackers = Field(Attackers(), description="Who infers attributes.")

    def check(self) -> None:
        """As `ProjectParams.check`; also checks that labels, auxiliaries and classifiers fit each other."""
        super().check()
        cells = [("downstream", self.downstream), ("anonymity", self.anonymity)]
        for kind, name, cell in ((kind, name, cell) for kind, entries in cells for name, cell in entries.items()):
            check_cell(self.datasets, cell, kind, name)
            if cell.dataset not in self.classification.labels:
                raise UserError(
                    f"{kind}.{name}: say which labels of {cell.dataset} are tasks and which are attributes, under "
                    f"classification.labels.{cell.dataset}",
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
                    f"classification.labels.{dataset}.numbers: a transformer learns classes alone here; name `linear` "
                    "or `encoder` under classification.kinds",
                    "EPS-S026",
                )

    @property
    def anonymized(self) -> dict[str, int]:
        """Upper bounds, by split, on the texts that are rewritten for stage `anonymity`."""
        texts = self.classification.texts
        return texts.anonymized if {*self.attackers.names} - {"static"} else {"test": texts.test}

    def fine_tunings(self) -> Iterator[tuple[str, FineTuning]]:
        """Yield the settings by which transformers are fine-tuned, with their places in params.yaml."""
        if self.classification.labels and TRANSFORMER in self.classification.kinds:
            yield "classification.training.model", self.classification.training
        for name, entry in self.auxiliaries.items():
            if TRANSFORMER in entry.kinds:
                yield f"auxiliaries.{name}.training.model", entry.training

    def _check_anonymity(self, cell: AnonymityCell, place: str) -> None:
        """Refuse a cell without a label to hide, and auxiliaries made for labels of another role or data set."""
        labels = self.classification.labels[cell.dataset]
        if self.datasets[cell.dataset].pair:
            raise UserError(
                f"{place}: {cell.dataset} is of pairs, which `downstream` alone takes; leave datasets.{cell.dataset}."
                "pair out to have both columns read as one text",
                "EPS-S027",
            )
        if not labels.attributes:
            raise UserError(
                f"{place}: {cell.dataset} has no attribute, which is what is hidden; name one under "
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
                    f"{place}.resource: the auxiliaries {name!r} were made for {role} that {cell.dataset} does not "
                    f"have as such ({', '.join(strange)}); name them under classification.labels.{cell.dataset}.{role},"
                    " or give auxiliaries of this data set's labels",
                    "EPS-S029",
                )

    def _check_rewriter(self, entry: RewriterEntry, place: str) -> None:
        """Refuse a rewriter for a label that its data set lacks, without its own texts, or from another model."""
        check_dataset(self.datasets, entry.dataset, place)
        check_label(self.datasets, entry.dataset, entry.attribute, f"{place}.attribute")
        if not any(auxiliaries.dataset == entry.dataset for auxiliaries in self.auxiliaries.values()):
            raise UserError(
                f"{place}: a rewriter learns from the auxiliaries' texts of {entry.dataset}, and there are none; give "
                "an entry of this data set under `auxiliaries`",
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
                raise UserError(f"{setting}: {label!r} is named twice; a label is a task or an attribute", "EPS-S032")
            if label.startswith(".") or {*label} & {*"/\\\0"}:
                raise UserError(
                    f"{setting}: {label!r} cannot name a folder of classifiers; rename the column", "EPS-S033"
                )
        if not every:
            raise UserError(f"{setting} must name at least one label under tasks, attributes or numbers", "EPS-S034")

    def data_paths(self) -> Iterator[tuple[str, str]]:
        """As `ProjectParams.data_paths`; also fine-tuned models and word relations."""
        yield from super().data_paths()
        yield "classification.training.model", self.classification.training.model
        if self.classification.grammar is not None:
            yield "classification.grammar", self.classification.grammar
        for name, entry in self.auxiliaries.items():
            yield f"auxiliaries.{name}.training.model", entry.training.model
            if entry.relations is not None:
                yield f"auxiliaries.{name}.relations", entry.relations

    def read_paths(self) -> Iterator[tuple[str, str]]:
        """As `ProjectParams.read_paths`; also the initial models of rewriters."""
        yield from super().read_paths()
        yield from ((f"rewriters.{name}.model", entry.model) for name, entry in self.rewriters.items())

    def resources(self) -> Iterator[str]:
        """As `ProjectParams.resources`; also auxiliaries and rewriters."""
        yield from super().resources()
        yield from (f"data/auxiliaries/{name}" for name in self.auxiliaries)
        yield from (f"data/rewriters/{name}" for name in self.rewriters)

    def studied(self) -> Iterator[tuple[str, bool]]:
        """As `ProjectParams.studied`."""
        yield "downstream", bool(self.downstream)
        yield "anonymity", bool(self.anonymity)
        yield from super().studied()

    def mechanisms_shown(self) -> Iterator[str]:
        """As `ProjectParams.mechanisms_shown`; also those whose rewrites attackers read."""
        yield from super().mechanisms_shown()
        yield from (cell.mechanism for cell in self.anonymity.values())

    def cells_by_place(self) -> Iterator[tuple[str, MechanismEntry]]:
        """As `ProjectParams.cells_by_place`; also the round trips of rewriters."""
        yield from super().cells_by_place()
        yield from ((f"rewriters.{name}.round_trip", entry.round_trip) for name, entry in self.rewriters.items())


def read(path: Path | str = "params.yaml") -> AnonymityParams:
    """Return the parameters of this study, as `project.params.read` reads them."""
    return params.read(AnonymityParams, path)
