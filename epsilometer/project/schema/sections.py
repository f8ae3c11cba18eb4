"""The sections of params.yaml, each a frozen data class; `project.params` puts them together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    field_validator,
    model_validator,
)

from epsilometer.auditing.trials.design import LARGEST_SET
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.models.locate import ENCODER
from epsilometer.runtime.scaling import Engine

Probability = Annotated[float, Field(gt=0, lt=1)]
LARGEST_SEED = 2**53 - 1


def _seed(value: int) -> int:
    if not 0 <= value <= LARGEST_SEED:
        raise ValueError(f"must be from 0 to {LARGEST_SEED} (2^53 - 1): JSON and figures hold no larger whole numbers")
    return value


Class = Annotated[str, BeforeValidator(str)]  # of a label, be it a number in the file
Seed = Annotated[int, AfterValidator(_seed)]
Match = Literal["words", "none"]
Precision = Literal["float32", "bfloat16", "auto"]


class Section(BaseModel):
    """A part of params.yaml: frozen, unknown keys refused."""

    # Built with the whole or at first use; building each part alone took a third of the time to load them all.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Audit(Section):
    """What holds for the whole audit."""

    seed: Seed = Field(description="Names every random stream of the audit.")
    round: Seed = Field(0, description="Raised by one, it gives fresh noise on unchanged inputs.")
    alpha: Probability = Field(0.01, description="The error probability of each interval and of each family of tests.")


class Layout(Section):
    """The layout of a file of texts, as in `epsilometer.corpora.files.Layout`."""

    separator: str | None = Field(
        None, description="The character between fields; null takes that of the file's suffix."
    )
    quotes: bool = Field(True, description="Whether fields may stand between double quotes.")
    header: bool = Field(
        True, description="Whether the first line names the columns, which are `1`, `2`, ... otherwise."
    )
    encoding: str = Field("utf-8", description="The encoding, as Python names it.")


class Resplit(Section):
    """The shares of the splits that are drawn."""

    validation: Annotated[float, Field(ge=0, lt=1)] = Field(0.1, description="The share of the validation split.")
    test: Annotated[float, Field(gt=0, lt=1)] = Field(0.2, description="The share of the test split.")

    @model_validator(mode="after")
    def _leaves_some(self) -> Resplit:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation + test must be below 1, got {self.validation + self.test:g}: nothing would be left to "
                "train on"
            )
        return self


class SetTrials(Section):
    """Trials of sets of texts, over which worth, loss and ceilings are taken."""

    size: Annotated[int, Field(ge=2, le=LARGEST_SET)] = Field(10, description="How many texts a set has.")
    count: PositiveInt = Field(100, description="How many sets are drawn; each gets one trial.")


class Dataset(Section):
    """A data set to audit."""

    source: str = Field(
        description="A file, a folder or a generator (its suffix says which), from the project's folder."
    )
    part: str | None = Field(None, description="The part of a source that holds several corpora.")
    count: PositiveInt | None = Field(None, description="How many texts a generator writes.")
    text: str | tuple[str, ...] = Field("text", description="The column of the text; several columns are joined.")
    labels: tuple[str, ...] = Field((), description="The columns of labels.")
    split: str | None = Field("split", description="The column that names each row's split.")
    rows: PositiveInt | None = Field(None, description="Reads only the first so many rows.")
    layout: Layout = Field(Layout(), description="How a CSV or text file is laid out.")
    use: str = Field("train", description="The split that is audited.")
    match: Match | None = Field(None, description="As `trials.match`, for this data set.")
    sets: SetTrials | None = Field(
        None,
        description="Trials of sets of texts drawn at random, of equal length under `match: words`: a pair of each, in "
        "the place of the pairs that `trials` asks for. Ceilings are computed on them, which most dissimilar pairs "
        "do not bind.",
    )
    public: bool = Field(False, description="Whether the report may show examples of its texts.")
    group: tuple[str, ...] = Field(
        (),
        description="The columns that together name an author or a pair, whose rows stay together when splits are "
        "drawn.",
    )
    resplit: Resplit | None = Field(None, description="Draws the splits anew, by `group`; the rest is `train`.")
    merge: Mapping[str, Mapping[str, Annotated[tuple[Class, ...], Field(min_length=1)]]] = Field(
        {},
        description="By label, the classes that are made of others, as in `rating: {good: [4, 5], bad: [1, 2]}`; a "
        "text of none of these has no such label.",
    )
    classes: Mapping[str, Annotated[tuple[str, ...], Field(min_length=2)]] = Field(
        {},
        description="By label, the classes that count; a text of any other, too rare to be learnt, has no such label.",
    )

    @field_validator("merge")
    @classmethod
    def _apart(cls, value: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        for label, merged in value.items():
            every = [one for parts in merged.values() for one in parts]
            if twice := sorted({one for one in every if every.count(one) > 1}):
                raise ValueError(f"{label}: class {twice[0]!r} is in two classes; name it once")
        return value

    @field_validator("group", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        """One column may be written as its bare name."""
        return (value,) if isinstance(value, str) else value


class Embedding(Section):
    """The sentence encoder behind candidate sampling."""

    model: str = Field(
        ENCODER,
        description="The encoder: an embedded one by name, a folder or pin from the project's folder, or a hub id.",
    )
    precision: Precision = Field(
        "float32", description="The precision that it computes in; `auto` is bfloat16 where the hardware multiplies it."
    )


class TrialSettings(Section):
    """How trials are drawn."""

    count: PositiveInt = Field(description="T, the number of trials of a cell.")
    candidates: Annotated[int, Field(ge=2)] = Field(2, description="k, the number of candidates of a trial.")
    temperature: float = Field(
        -10_000,
        description="lambda of Probabilistic Transition Sampling: below 0 candidates are unlike each other, above 0 "
        "alike.",
    )
    match: Match = Field("none", description="`words`: the candidates of a trial have equally many words; `none`: any.")


class Words(Section):
    """The word vectors and lists that are built."""

    sources: Annotated[Mapping[str, str], Field(min_length=1)] = Field(description="Files of word vectors, by name.")
    lists: PositiveInt = Field(1, description="How many 1-D lists are built from each.")


class PublicCorpus(Section):
    """Public texts to build on."""

    source: str = Field(description="As a data set's `source`.")
    parts: tuple[str, ...] = Field(
        (), description="Of a generator, the parts that are read one after the other, `count` texts of each."
    )
    count: PositiveInt | None = Field(None, description="How many texts a generator writes.")
    text: str = Field("text", description="The column of the text.")
    seed: Seed = Field(1, description="The seed of a generator, so that its texts differ from the audited ones.")


class TriplesEntry(Section):
    """A corpus of triples, which DP-ST reads."""

    corpus: PublicCorpus = Field(description="The public texts that triples are extracted from.")
    clusters: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = Field(
        description="The sizes of the clusterings."
    )
    dimensions: PositiveInt = Field(32, description="How many dimensions of an embedding are kept.")
    threshold: Annotated[float, Field(gt=0, le=0.95)] = Field(
        0.4, description="The similarity from which two triples are near-duplicates."
    )
    encoder: str = Field(ENCODER, description="The sentence encoder of triples.")
    tagger: str = Field("minilm-heads", description="The embedded tagger, or a spaCy pipeline.")


class AutoencoderEntry(Section):
    """An autoencoder, which ADePT reads."""

    corpus: PublicCorpus = Field(description="The public texts that it learns from.")
    shape: Mapping[str, Any] = Field(
        {}, description="Sizes of the network (`Shape` in `epsilometer/mechanisms/latents/shared/autoencoder.py`)."
    )
    training: Mapping[str, Any] = Field({}, description="Settings of its training (the same file).")
    vectors: str | None = Field(None, description="A file of word vectors to start from.")


Kind = Literal["transformer", "linear", "encoder"]
Attacker = Literal["static", "relabelled", "adaptive", "augmented", "author", "detector"]


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


class Labels(Section):
    """Which labels of a data set are tasks to be done, and which are private attributes to be inferred."""

    tasks: tuple[str, ...] = Field((), description="Labels that a classifier is to learn from rewrites.")
    attributes: tuple[str, ...] = Field((), description="Private labels that an attacker infers.")


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


class NoiseAwareEntry(Section):
    """A pruned model, which DP-BART reads."""

    model: str = Field(description="The model to start from.")
    corpus: PublicCorpus = Field(description="The public texts that it learns from.")
    training: Mapping[str, Any] = Field(
        description="Settings of `epsilometer/mechanisms/latents/shared/noise_aware.py`."
    )


class MechanismEntry(Section):
    """A mechanism to audit: a shipped one by its name, or a file of one's own; the resource that it reads, if any."""

    mechanism: str = Field(description="The name: of a shipped mechanism, or of your own.")
    file: str | None = Field(None, description="The Python file of a mechanism of your own, from the project's folder.")
    resource: str | None = Field(None, description="What the mechanism reads, from the folder of this file.")
    epsilons: tuple[float, ...] | None = Field(
        None, description="The privacy budgets; left out for a mechanism that takes none."
    )
    settings: Mapping[str, Any] = Field({}, description="Settings of the mechanism, by name.")

    @property
    def budgets(self) -> tuple[float, ...]:
        """The epsilons; NO_BUDGET alone where there are none."""
        return (NO_BUDGET,) if self.epsilons is None else self.epsilons


class Cell(MechanismEntry):
    """A mechanism on a data set: what DVC reruns as a whole."""

    dataset: str = Field(description="The data set whose texts are rewritten.")


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


class Instrument(Section):
    """The known-loss check: randomised response on two texts, whose loss is its epsilon."""

    epsilons: tuple[float, ...] = Field(
        (0.5, 1.0, 2.0, 4.0), description="The budgets of randomised response on two texts, which are its losses."
    )
    trials: PositiveInt = Field(100_000, description="Trials of each.")


class Claims(Section):
    """The check of claims against their worst case."""

    vocabulary: Annotated[int, Field(ge=2)] = Field(
        500, description="How many words of a mechanism's vocabulary are compared, each with each."
    )


class Exact(Section):
    """The exact loss of mechanisms whose law is known (`auditing.exact_loss`)."""

    pairs: PositiveInt = Field(
        25,
        description="The most pairs of texts of equally many words; the first trials are read until they have so many, "
        "and all other pairs of these trials are measured too.",
    )
    width: Annotated[float, Field(gt=0)] = Field(
        0.1, description="The most that rounding may move a loss, in nats each way."
    )
    all_pairs: bool = Field(
        False,
        description="Whether the relative epsilon is over all pairs of the audited texts where these can be compared, "
        "and not over the pairs of the trials alone.",
    )
    draws: PositiveInt = Field(
        200, description="The most draws for each group of pairs, where the average comes from importance sampling."
    )


class Utility(Section):
    """How rewrites are compared with their texts."""

    texts: PositiveInt = Field(50, description="How many trials' rewrites are compared with their originals.")
    target: Annotated[float, Field(gt=0)] = Field(1.0, description="The loss in nats at which mechanisms are compared.")
    metrics: Mapping[str, Mapping[str, Any]] = Field(
        {},
        description="Metrics beside the cosine, which is always measured: modules of `epsilometer.metrics` or paths of "
        "files, and their settings.",
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _settings(cls, value: Any) -> Any:
        """A metric without settings may be written as a bare key."""
        return {k: v or {} for k, v in value.items()} if isinstance(value, dict) else value

    @field_validator("metrics")
    @classmethod
    def _not_the_cosine(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if "cosine" in value:
            raise ValueError("the cosine is always measured, by the model of `embedding`; leave it out")
        return value


class TextCounts(Section):
    """How many texts classifiers are trained and tested on, and thresholds chosen on, at most."""

    train: PositiveInt = Field(1000, description="The most texts to train on.")
    test: PositiveInt = Field(1000, description="The most texts to test on.")
    validation: PositiveInt = Field(1000, description="The most texts to choose thresholds on.")
    rewritten: PositiveInt | None = Field(
        None,
        description="How many of the training texts are rewritten for attackers to learn from; null is all. Victims "
        "train on all of them in any case.",
    )

    @property
    def sizes(self) -> dict[str, int]:
        """Of the splits that classifiers are trained and tested on."""
        return {"train": self.train, "test": self.test}

    @property
    def anonymized(self) -> dict[str, int]:
        """Of the splits whose rewrites stage `anonymity` measures."""
        return {"train": min(self.train, self.rewritten or self.train), "test": self.test}


class Training(FineTuning):
    """Training with several seeds, of which each gives a classifier of its own."""

    seeds: PositiveInt = Field(5, description="How many classifiers are trained, each with a seed of its own.")


class Classification(Section):
    """Classifiers of texts, clean and rewritten."""

    labels: Mapping[str, Labels] = Field(
        {}, description="By data set, of every data set that has cells in `downstream` or `anonymity`."
    )
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = Field(
        ("transformer",),
        description="The kinds of the classifiers of clean texts, which are victims and static attackers; `downstream` "
        "trains transformers alone.",
    )
    texts: TextCounts = Field(TextCounts(), description="How many texts are used.")
    training: Training = Field(Training(), description="How classifiers are trained.")


class AnonymityCell(Cell):
    """A cell whose rewrites are measured by what classifiers still infer from them."""

    part: Literal["test", "validation"] = Field(
        "test",
        description="`test`: the texts that everything is measured on, and those that attackers learn rewrites from; "
        "`validation`: those alone that settings are chosen on.",
    )


class Attackers(Section):
    """Who infers attributes from a cell's rewrites (`utility.attackers`)."""

    names: tuple[Attacker, ...] = Field(
        ("static", "relabelled", "adaptive", "augmented", "author", "detector"),
        description="The attackers (`epsilometer/utility/attackers.py`).",
    )
    kinds: tuple[Kind, ...] | None = Field(
        None, description="The kinds of their classifiers, among `classification.kinds`; null is all of them."
    )
    seeds: PositiveInt = Field(1, description="The most seeds of each kind.")
    authors: tuple[PositiveInt, ...] = Field((1, 5, 20), description="How many texts of one author are read together.")
    llm: Mapping[str, Mapping[str, Any]] = Field(
        {},
        description="Language models that are asked, by their names in tables, with the settings of "
        "`epsilometer/utility/llm_inference.py`.",
    )


class Ablation(Cell):
    """A cell in which factors of the audit are varied, one at a time, at one epsilon."""

    epsilon: float = Field(description="The budget of all variations.")
    trials: PositiveInt = Field(1000, description="T of each variation.")
    candidates: tuple[Annotated[int, Field(ge=2)], ...] = Field((2, 4, 8, 16), description="Values of k.")
    temperatures: tuple[float, ...] = Field((-10_000, 0, 10_000), description="Values of lambda.")
    seeds: Annotated[int, Field(ge=0)] = Field(5, description="How many runs have trials and noise of their own.")


class Sweep(Cell):
    """A cell in which settings of its mechanism are varied, one at a time, on the same trials and noise."""

    epsilon: Annotated[float, Field(gt=0)] = Field(description="The budget of all variations but its own.")
    trials: PositiveInt = Field(200, description="T of each value.")
    vary: Annotated[Mapping[str, Annotated[tuple[float, ...], Field(min_length=1)]], Field(min_length=1)] = Field(
        description="By setting of the mechanism, or `epsilon`, the values that it takes."
    )


class Runtime(Section):
    """Settings that cannot change a result (`runtime/scaling.py`)."""

    block: PositiveInt = Field(
        1 << 16,
        description="The most trials a slice; attacks take four blocks. Several workers get at least four slices each, "
        "of at least 256 trials.",
    )
    workers: PositiveInt = Field(1, description="How many slices run at a time, each worker with models of its own.")
    ray: str | None = Field(
        None,
        description="null: processes of this machine; `auto`: the Ray cluster that `RAY_ADDRESS` names, or else one "
        "that is started for the stage on 127.0.0.1 alone; `HOST:PORT`: a cluster that this machine has joined.",
    )
    gpus: Annotated[float, Field(ge=0)] = Field(
        0,
        description="GPUs of each of Ray's workers, a share or a whole number; `device` says whether to use them.",
    )

    @field_validator("ray")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"auto|[^\s:/]+:\d{1,5}", value):
            raise ValueError("must be null, auto or the HOST:PORT of a Ray cluster")
        return value

    @model_validator(mode="after")
    def _share(self) -> Runtime:
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(f"gpus must be a share of one GPU or a whole number, got {self.gpus:g}")
        if self.gpus and self.ray is None:
            raise ValueError(f"gpus ({self.gpus:g}) are shared out by Ray alone; set ray, or leave gpus out")
        return self

    @property
    def engine(self) -> Engine:
        """The engine that runs slices."""
        return Engine(self.workers, self.ray, self.gpus)
