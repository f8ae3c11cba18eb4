"""Part-of-speech tags and one (subject, verb, object) triple per sentence, for English.

The embedded tagger consists of two small heads on the frozen hidden states of all-MiniLM-L6-v2. A word's features are
the means of its pieces' states in all seven layers, 2,688 numbers. The first layer of each head is linear in the
features, so its output is a sum of one term per encoder layer. The term of an encoder layer is added as soon as the
layer is computed, and the features are never stored. Any spaCy pipeline with a parser can replace the embedded tagger
(`tagger`).

Sentences end at a full stop, exclamation or question mark before white space, and at a line's end. The tagger finds a
single word for each part of a triple. `phrase` adds adjacent words that belong to this word according to their tags.
These rules do not depend on private texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import EMBEDDED
from epsilometer.core.errors import UserError
from epsilometer.models.locate import ENCODER, locate

if TYPE_CHECKING:
    from torch import Tensor

HEADS = EMBEDDED / "minilm-heads"

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # as in training; a contraction is one word; each mark is a unit
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\s*\n\s*")
_CHUNK = 2048  # sentences in memory at a time; the number does not change results
_DECIMALS = 6  # decimals of rounded scores; rounding hides small differences between kernels
_POSSESSIVE = frozenset(["my", "your", "his", "her", "its", "our", "their"])
_MODIFIER = frozenset(["ADJ", "NUM", "NOUN", "PROPN"])


class Triple(NamedTuple):
    """A triple in lower case. Each part has at least one word."""

    subject: str
    relation: str
    object: str

    @property
    def text(self) -> str:
        """Return the triple as one text, for embeddings and the search for near-duplicates."""
        return " | ".join(self)


class Tagged(NamedTuple):
    """A tagged sentence.

    words: the words.
    upos:  their Universal Dependencies tags.
    roles: the indices of subject, verb and object; None for a sentence without a triple.
    """

    words: list[str]
    upos: list[str]
    roles: tuple[int, int, int] | None


class TripleReader(Protocol):
    """A component that extracts triples from texts."""

    def triples(self, texts: Sequence[str]) -> list[list[Triple]]:
        """Return the triples of each text in their order, at most one per sentence."""
        ...


def sentences(text: str) -> list[str]:
    """Return the sentences of a text. They end at punctuation before white space, and at line ends."""
    return [part for part in (piece.strip() for piece in _END.split(text)) if part]


def words_and_marks(sentence: str) -> list[str]:
    """Return the units that are tagged: words, which may contain apostrophes, and single punctuation marks."""
    return _WORD.findall(sentence)


def places(sentence: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last character (exclusive) of each unit of `words_and_marks`."""
    return (match.span() for match in _WORD.finditer(sentence))


def tagger(name: str, heads: Path = HEADS) -> TripleReader:
    """Return the embedded tagger ("minilm-heads", with weights in `heads`), or an installed spaCy pipeline by name."""
    return Tagger(heads) if name == HEADS.name else SpacyTagger(name)


class Tagger:
    """The embedded tagger: heads from a folder (heads.safetensors, labels.json) on the encoder all-MiniLM-L6-v2.

    A sentence's tags do not depend on other sentences. Raises UserError for a folder without heads.
    """

    def __init__(self, heads: Path = HEADS) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        if not (heads / "heads.safetensors").is_file() or not (heads / "labels.json").is_file():
            raise UserError(
                f"{heads} does not contain a tagger: heads.safetensors and labels.json are missing; give the folder of "
                "a tagger",
                "EPS-N076",
            )
        labels = json.loads((heads / "labels.json").read_text())
        self.labels: list[str] = labels["upos"]
        self._weights = {name: w.astype(np.float64) for name, w in load_file(heads / "heads.safetensors").items()}
        self._first = ("upos.hidden", "roles.word", "roles.sentence", "roles.null")
        folder = locate(ENCODER)
        self._bert = _projected(folder, np.concatenate([self._weights[f"{n}.weight"] for n in self._first]))
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(labels["features"]["max_pieces"])

    def tag(self, split: Sequence[Sequence[str]]) -> list[Tagged]:
        """Return the tags and the triple of each sentence. split: the words of each sentence."""
        return [tagged for i in range(0, len(split), _CHUNK) for tagged in self._chunk(split[i : i + _CHUNK])]

    def upos(self, split: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        """Return only the tags of each sentence. split: the words of each sentence. Equal sentences are tagged once."""
        distinct = list(dict.fromkeys(map(tuple, split)))
        tags = (tags for i in range(0, len(distinct), _CHUNK) for tags in self._tags(distinct[i : i + _CHUNK]))
        tags_of = dict(zip(distinct, tags, strict=True))
        return [tags_of[tuple(words)] for words in split]

    def triples(self, texts: Sequence[str]) -> list[list[Triple]]:
        """Return the triples of each text in their order, at most one per sentence."""
        return _in_texts(texts, lambda parts: [as_triple(tagged) for tagged in self.tag(parts)])

    def _tags(self, split: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
        ends = np.cumsum([len(words) for words in split])
        tags = self._upos(*self._projections(split, ends, self._first[:1]))
        for words, end in zip(split, ends, strict=True):
            yield tuple(self.labels[i] for i in tags[end - len(words) : end])

    def _upos(self, features: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the index of each word's tag. features: outputs of the head's linear map, [words, columns]."""
        hidden = _gelu(features + self._weights["upos.hidden.bias"])
        scores = hidden @ self._weights["upos.out.weight"].T + self._weights["upos.out.bias"]
        return np.round(scores, _DECIMALS).argmax(axis=1)

    def _chunk(self, split: Sequence[Sequence[str]]) -> Iterator[Tagged]:
        lengths = np.array([len(words) for words in split])
        ends = np.cumsum(lengths)
        upos, word, sentence, null = self._projections(split, ends, self._first)
        w = self._weights
        tags = self._upos(upos)
        number = np.repeat(np.arange(len(split)), lengths)
        share = 1 / np.maximum(lengths, 1)[:, None]
        total = np.zeros((len(split), sentence.shape[1])), np.zeros((len(split), null.shape[1]))
        np.add.at(total[0], number, sentence)
        np.add.at(total[1], number, null)
        hidden = _gelu(word + w["roles.word.bias"] + (total[0] * share)[number])
        nobody = (total[1] * share)[number] + w["roles.null.bias"]
        scores = np.round(hidden @ w["roles.out.weight"].T - nobody, _DECIMALS)
        for words, end, length in zip(split, ends, lengths, strict=True):
            part = slice(end - length, end)
            yield Tagged(list(words), [self.labels[i] for i in tags[part]], _best(scores[part]))

    def _projections(
        self, split: Sequence[Sequence[str]], ends: NDArray[np.int64], maps: Sequence[str]
    ) -> list[NDArray[np.float64]]:
        """Return the output of each linear map in `maps` for each word's features: float64 [words, columns] per map.

        maps: a prefix of `self._first`, with at least one name. ends: for each sentence, the number of words up to its
        end, in this and all earlier sentences.
        """
        columns = [len(self._weights[f"{name}.weight"]) for name in maps]
        encodings = self._tokenizer.encode_batch([list(words) for words in split], is_pretokenized=True)
        pieces = self._bert.projections([encoding.ids for encoding in encodings], sum(columns))
        owners = [
            -1 if word is None else start + word
            for encoding, start in zip(encodings, [0, *ends[:-1].tolist()], strict=True)
            for word in encoding.word_ids
        ]
        owner = np.array(owners, np.int64)
        runs = np.flatnonzero(np.diff(owner, prepend=-2))  # the pieces of a word are consecutive
        means = np.zeros((int(ends[-1]) if len(ends) else 0, sum(columns)))
        if len(runs):
            sums = np.add.reduceat(pieces, runs, axis=0, dtype=np.float64)
            counts = np.diff(runs, append=len(owner))
            belongs = owner[runs] >= 0
            means[owner[runs][belongs]] = sums[belongs] / counts[belongs, None]
        return np.split(means, np.cumsum(columns)[:-1], axis=1)


class SpacyTagger:
    """A tagger that uses the parser of an installed spaCy pipeline. Raises UserError if the pipeline is missing."""

    def __init__(self, name: str) -> None:
        try:
            import spacy

            self._pipeline: Any = spacy.load(name)
        except (ImportError, OSError) as error:
            raise UserError(
                f"tagger {name!r} is neither {HEADS.name!r} nor an installed spaCy pipeline; install it (pip install "
                f"spacy; python -m spacy download {name}), or omit `tagger`",
                "EPS-N077",
            ) from error

    def triples(self, texts: Sequence[str]) -> list[list[Triple]]:
        """Return the triples of each text in their order, at most one per sentence."""

        def find(parts: Sequence[Sequence[str]]) -> list[Triple | None]:
            from spacy.tokens import Doc

            vocabulary = self._pipeline.vocab
            documents = self._pipeline.pipe(Doc(vocabulary, words=list(words)) for words in parts)
            return [as_triple(_parsed(document)) for document in documents]

        return _in_texts(texts, find)


def as_triple(tagged: Tagged) -> Triple | None:
    """Return the triple of a tagged sentence, with each word extended by `phrase`; None for a sentence without one."""
    if tagged.roles is None:
        return None
    return Triple(*(" ".join(tagged.words[i].lower() for i in phrase(tagged, role)) for role in range(3)))


def phrase(tagged: Tagged, role: int) -> range:
    """Return the indices of the words of a subject (role 0), verb (1) or object (2).

    A noun is extended to the left by adjectives, numbers and nouns, then by one determiner or possessive. A name is
    also extended to the right by names. A verb is extended to the left by auxiliaries, particles and adverbs. A copula
    is also extended to the right by particles ("is not"). A word with another role is never included.
    """
    words, upos, roles = tagged
    assert roles is not None
    low, high = roles[role], roles[role] + 1

    def free(i: int, tags: frozenset[str] | set[str]) -> bool:
        return 0 <= i < len(words) and i not in roles and upos[i] in tags

    if role == 1:
        while free(low - 1, {"AUX", "PART", "ADV"}):
            low -= 1
        while upos[roles[1]] == "AUX" and free(high, {"PART"}):
            high += 1
        return range(low, high)
    name = upos[low] == "PROPN"
    if name or upos[low] == "NOUN":
        while free(low - 1, _MODIFIER):
            low -= 1
        if free(low - 1, {"DET"}) or (free(low - 1, {"PRON"}) and words[low - 1].lower() in _POSSESSIVE):
            low -= 1
    while name and free(high, {"PROPN"}):
        high += 1
    return range(low, high)


def _in_texts(texts: Sequence[str], find: Any) -> list[list[Triple]]:
    """Split texts into sentences and words, call `find` once for all sentences, and return the triples by text."""
    parts = [[words_and_marks(sentence) for sentence in sentences(text)] for text in texts]
    triples = iter(find([words for part in parts for words in part]))
    return [[triple for _ in part if (triple := next(triples)) is not None] for part in parts]


def _best(scores: NDArray[np.float64]) -> tuple[int, int, int] | None:
    """Return distinct words as subject, verb and object, with the largest sum of scores; None if no sum exceeds 0.

    scores: [words, 3]. Only the three words with the largest scores for each role are tried.
    """
    best = np.argsort(-scores, axis=0, kind="stable")[:3].T.tolist()
    total, chosen = 0.0, None
    for s, v, o in product(*best):
        here = scores[s, 0] + scores[v, 1] + scores[o, 2]
        if here > total and s != v and v != o and s != o:
            total, chosen = here, (s, v, o)
    return chosen


def _gelu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr

    return x * ndtr(x)


def _parsed(document: Any) -> Tagged:
    """Return a parsed sentence with the roles of its main clause: subject, root, and object.

    The object is the root's direct object, indirect object or complement. Without one, it is the object of a
    preposition.
    """
    tagged = Tagged([token.text for token in document], [token.pos_ for token in document], None)
    root = next((token for token in document if token.head == token), None)
    if root is None:
        return tagged
    subject = next((child for child in root.children if child.dep_ in ("nsubj", "nsubjpass", "nsubj:pass")), None)
    objects = [c for c in root.children if c.dep_ in ("dobj", "obj", "attr", "acomp", "dative", "iobj")]
    objects += [c for adjunct in root.children for c in adjunct.children if c.dep_ == "pobj"]
    if subject is None or not objects:
        return tagged
    return tagged._replace(roles=(subject.i, root.i, objects[0].i))


def _projected(folder: Path, weight: NDArray[np.float64]) -> Any:
    """Return a BERT that applies a linear map to each token's hidden states, concatenated over all layers.

    weight: [columns, layers * width].
    """
    import torch
    from torch.nn import functional as F

    from epsilometer.models.bert import SLICE, Bert
    from epsilometer.models.devices import resolved

    class Projected(Bert):
        def projections(self, sequences: Sequence[Sequence[int]], columns: int) -> NDArray[np.float32]:
            """Return the first `columns` outputs of the map for all tokens, in order: [tokens, columns]."""
            lengths = np.array([len(sequence) for sequence in sequences])
            ends = np.cumsum(lengths)
            result = np.empty((int(lengths.sum()), columns), np.float32)

            @torch.inference_mode()
            def fill(members: list[int]) -> None:
                places = np.concatenate([np.arange(ends[i] - lengths[i], ends[i]) for i in members])
                result[places] = self._sum([sequences[i] for i in members], columns)[: len(places)].cpu().numpy()

            self._in_blocks(fill, sequences, "tag")
            return result

        def _sum(self, sequences: list[Sequence[int]], columns: int) -> Tensor:
            lengths = [len(sequence) for sequence in sequences]
            hidden = self._embed(sequences, None)
            total = hidden.new_zeros(len(hidden), columns)
            for number, part in enumerate(parts):
                for rows, out in zip(hidden.split(SLICE[device]), total.split(SLICE[device]), strict=True):
                    out += F.linear(rows, part[:columns])
                if number < len(self._layers):
                    layer = self._layers[number]
                    hidden = self._feed(layer, hidden, self._attend(layer, hidden, lengths))
            return total

    device = resolved()
    bert = Projected(folder, device=device)
    parts = torch.from_numpy(weight).float().to(device).split(bert.width, dim=1)
    return bert
