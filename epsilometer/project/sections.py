"""The sections of params.yaml that more than one study reads, each a frozen pydantic model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

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

from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.sizes import LARGEST_SET
from epsilometer.core.values import number
from epsilometer.corpora.parts import PUBLIC
from epsilometer.runtime.scaling import Engine

Probability = Annotated[float, Field(gt=0, lt=1)]
LARGEST_SEED = 2**53 - 1


def _seed(value: int) -> int:
    if not 0 <= value <= LARGEST_SEED:
        raise ValueError(
            f"must be from 0 to {LARGEST_SEED} (2^53 - 1): JSON cannot represent larger whole numbers exactly"
        )
    return value


def _filled(value: Any) -> Any:
    return {name: settings or {} for name, settings in value.items()} if isinstance(value, dict) else value


PLAIN = BeforeValidator(number)  # refuses a boolean, which pydantic accepts as 1
Number = Annotated[float, PLAIN]
Class = Annotated[str, BeforeValidator(str)]  # a class of a label; a number in the file becomes text
Seed = Annotated[int, AfterValidator(_seed)]
# Components by name, each with its settings; a component without settings may be a bare key.
Named = Annotated[Mapping[str, Mapping[str, Any]], BeforeValidator(_filled)]
Match = Literal["words", "none"]
Precision = Literal["float32", "bfloat16", "auto"]


class Section(BaseModel):
    """A frozen part of params.yaml. Unknown keys, NaN and infinite numbers are refused."""

    # Validators are built for the whole file or at first use; building one for each section would take a third of the
    # load time.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class Audit(Section):
    """Settings of the whole audit."""

    seed: Seed = Field(description="The seed of every random stream of the audit.")
    round: Seed = Field(0, description="Raise it by one for fresh noise on unchanged inputs.")
    alpha: Probability = Field(0.01, description="The error probability of each interval and of each family of tests.")


class Layout(Section):
    """The layout of a file of texts, as in `epsilometer.corpora.files.Layout`."""

    separator: str | None = Field(
        None, description="The character between fields; null: the one that the file's suffix implies."
    )
    quotes: bool = Field(True, description="Whether fields may be in double quotes.")
    header: bool = Field(
        True, description="Whether the first line has the columns' names. Otherwise these are `1`, `2`, ..."
    )
    encoding: str = Field("utf-8", description="The encoding, as Python names it.")


class Resplit(Section):
    """The shares of texts in random splits."""

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
    """Trials on random sets of texts, from which worth (mean cosine), loss and ceilings are computed."""

    size: Annotated[int, Field(ge=2, le=LARGEST_SET)] = Field(10, description="The number of texts in a set.")
    count: PositiveInt = Field(100, description="How many sets are drawn; each gets one trial.")


class Chunks(Section):
    """Settings for joining short texts, such as the sentences of an essay, to longer texts."""

    texts: Annotated[int, Field(ge=2)] = Field(
        description="How many texts are joined into one; the last may have fewer."
    )
    of: tuple[str, ...] = Field(
        (), description="Columns in which joined texts must agree, in addition to their labels and split."
    )


class _Bounds(Section):
    """Lower and upper bound of a number."""

    least: PositiveInt
    most: PositiveInt

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least must be at most `most`, got {self.least} and {self.most}")
        return self


class Length(_Bounds):
    """Bounds on the number of words of a text; texts outside them are left out."""

    least: PositiveInt = Field(description="The fewest words of a text.")
    most: PositiveInt = Field(description="The most words of a text.")


class Authors(_Bounds):
    """The choice of authors, and of texts of each author; the data set's `group` must identify authors."""

    least: PositiveInt = Field(
        40, description="The minimum number of audited texts of an author; authors with fewer are left out."
    )
    most: PositiveInt = Field(
        60, description="The maximum number of texts of an author, over all splits, chosen by a hash of each text."
    )
    texts: PositiveInt = Field(
        1500,
        description="Authors are chosen in a random order until their audited texts reach this number.",
    )


class Dataset(Section):
    """A data set to audit."""

    source: str = Field(
        description="The path of the texts, from the project's folder: a file, a folder, a generator (`.py`), or a pin "
        "(`.json`) of a hub's data set or of a file in a package."
    )
    part: str | None = Field(None, description="For a source with several corpora: the one to read.")
    count: PositiveInt | None = Field(None, description="How many texts a generator writes.")
    text: str | tuple[str, ...] = Field("text", description="The column of the text; several columns are joined.")
    pair: bool = Field(
        False,
        description="Whether the two columns of `text` are the sides of a pair, such as a question and an answer. "
        "Under `downstream` each side is rewritten by itself, and classifiers read both. Audits treat a pair as one "
        "text.",
    )
    chunks: Chunks | None = Field(
        None, description="Joins texts in their order; a chunk has the group of its first text."
    )
    labels: tuple[str, ...] = Field((), description="The columns of labels.")
    split: str | None = Field("split", description="The column that names each row's split.")
    rows: PositiveInt | None = Field(None, description="The number of rows to read, from the first; null: all.")
    layout: Layout = Field(Layout(), description="How a CSV or text file is laid out.")
    use: str = Field("train", description="The split that is audited.")
    match: Match | None = Field(None, description="Replaces `trials.match` for this data set.")
    sets: SetTrials | None = Field(
        None,
        description=(
            "Samples random sets of texts (of equal length under `match: words`), and makes a trial of a pair from "
            "each, instead of the pairs that `trials` describes. The usual pairs of dissimilar texts have few texts "
            "in common, so the ceiling of worth that they give is loose."
        ),
    )
    public: bool = Field(False, description="Whether the report may show examples of its texts.")
    screened: bool = Field(
        False,
        description=(
            "For a data set that is not public: whether the report may show examples in which no name, number, "
            "address or offensive word is found."
        ),
    )
    public_part: Probability | None = Field(
        None,
        description=(
            "The share of texts that become the split `public`. A hash of each text decides (under `group`, of the "
            "first text of an author or pair). Mechanisms and learners may be made from this split; it is not "
            "audited."
        ),
    )
    group: tuple[str, ...] = Field(
        (),
        description="The columns that together identify an author or a pair. Random splits never divide its rows.",
    )
    authors: Authors | None = Field(
        None,
        description="Chooses authors, identified by `group`, and texts of each author. Only the first of several texts "
        "with the same words stays, so that authors share no text.",
    )
    resplit: Resplit | None = Field(
        None, description="Samples new splits, by `group`; the remaining texts are `train`."
    )
    length: Length | None = Field(None, description="Leaves out texts with fewer or more words.")
    without: Mapping[str, Annotated[tuple[Class, ...], Field(min_length=1)]] = Field(
        {}, description="For each column, the values whose rows are left out, as in `without: {author: [459]}`."
    )
    merge: Mapping[str, Mapping[str, Annotated[tuple[Class, ...], Field(min_length=1)]]] = Field(
        {},
        description=(
            "For each label, new classes that join others, as in `rating: {good: [4, 5], bad: [1, 2]}`. Texts of "
            "other classes lose this label."
        ),
    )
    classes: Mapping[str, Annotated[tuple[str, ...], Field(min_length=2)]] = Field(
        {},
        description="For each label, the classes to use. Texts of other classes, such as rare ones, lose this label.",
    )
    complete: bool = Field(
        False,
        description="Leaves out texts that lack one of the labels. Mechanisms that read the true labels need this.",
    )

    @property
    def sides(self) -> tuple[str, ...]:
        """The two columns of a pair; empty if texts are not pairs."""
        return tuple(self.text) if self.pair else ()

    @model_validator(mode="after")
    def _pair_of_two(self) -> Dataset:
        if self.pair and (isinstance(self.text, str) or len({*self.text}) != 2):
            raise ValueError("pair: text must name two columns, one for each side, as in `text: [text_a, text_b]`")
        if self.pair and self.chunks is not None:
            raise ValueError("chunks: pairs cannot be joined; leave out chunks, or pair")
        return self

    @model_validator(mode="after")
    def _authors_by_group(self) -> Dataset:
        if self.authors is not None and (not self.group or self.chunks is not None):
            raise ValueError(
                "authors: `group` must name the columns of the author, and `chunks` must be left out; "
                "write for instance group: [author]"
            )
        return self

    @model_validator(mode="after")
    def _audits_no_public_part(self) -> Dataset:
        if self.public_part is not None and self.use == PUBLIC:
            raise ValueError(f"use must be another split than {PUBLIC!r}, the public part, which is not audited")
        return self

    @field_validator("merge")
    @classmethod
    def _apart(cls, value: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        for label, merged in value.items():
            every = [part for parts in merged.values() for part in parts]
            if twice := sorted({part for part in every if every.count(part) > 1}):
                raise ValueError(f"{label}: class {twice[0]!r} is in two classes; name it once")
        return value

    @field_validator("group", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        """Accept the bare name of a single column."""
        return (value,) if isinstance(value, str) else value


class Words(Section):
    """The word vectors and lists that are built."""

    sources: Mapping[str, str] = Field({}, description="Files of word vectors, by name.")
    lists: PositiveInt = Field(1, description="How many one-dimensional word lists are built from each source.")


class MechanismEntry(Section):
    """A mechanism to audit, shipped or in a file of your own, with its resource and settings."""

    mechanism: str = Field(description="The name of a shipped mechanism, or of your own.")
    file: str | None = Field(None, description="The Python file of a mechanism of your own, from the project's folder.")
    resource: str | None = Field(
        None, description="The file or folder that the mechanism reads, from the folder of this file."
    )
    epsilons: tuple[Number, ...] | None = Field(
        None, description="The privacy budgets; left out for a mechanism that takes none."
    )
    settings: Mapping[str, Any] = Field({}, description="Settings of the mechanism, by name.")

    @property
    def budgets(self) -> tuple[float, ...]:
        """The epsilons; only NO_BUDGET if there are none."""
        return (NO_BUDGET,) if self.epsilons is None else self.epsilons


class Cell(MechanismEntry):
    """A data set and a mechanism. DVC reruns a cell as a whole."""

    dataset: str = Field(description="The data set whose texts are rewritten.")


class Runtime(Section):
    """Settings that cannot change a result (`runtime/scaling.py`)."""

    block: PositiveInt = Field(
        1 << 16,
        description="The maximum number of trials in a slice of work; slices of attacks have up to four times as many. "
        "Each of several workers gets at least four slices, of at least 256 trials.",
    )
    workers: PositiveInt = Field(1, description="How many slices run at a time. Each worker loads its own models.")
    stages: PositiveInt | None = Field(
        None,
        description="How many independent stages `epsilometer pipeline repro` runs at a time. null: two on at least "
        "two cores, but one if stages have several workers or use Ray. 1 takes the least memory.",
    )
    ray: str | None = Field(
        None,
        description="Where workers run. null: processes of this machine; `auto`: the Ray cluster at `RAY_ADDRESS`, or "
        "else a new cluster for the stage on 127.0.0.1; `HOST:PORT`: a Ray cluster that this machine has joined.",
    )
    gpus: Annotated[float, Field(ge=0)] = Field(
        0,
        description="GPUs for each Ray worker, a share of one or a whole number; `device` decides if they are used.",
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
            raise ValueError(f"gpus ({self.gpus:g}) have an effect only with Ray; set ray, or leave gpus out")
        return self

    @property
    def engine(self) -> Engine:
        """The engine that runs slices."""
        return Engine(self.workers, self.ray, self.gpus)
