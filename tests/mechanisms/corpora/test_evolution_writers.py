"""Public models that write the variations of `private_evolution`."""

from __future__ import annotations

from pathlib import Path

import pytest

from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.tokens.dp_prompt import DPPrompt
from epsilometer.models.embedded import masked_lm, seq2seq
from epsilometer.models.locate import ENCODER
from tests.support.refusals import refused

TEXTS = ["play a song by the band", "book a table for four", "is it going to rain tomorrow"]


def varied(writer: str | Path | None) -> list[str]:
    """Variations of the texts by a writer."""
    mechanism = PrivateEvolution(resource=tuple(TEXTS), writer=writer)
    return mechanism.variations(TEXTS, Noise.named(len(TEXTS), "writers"))


def test_a_model_that_generates_text_paraphrases_at_a_temperature_of_one_half() -> None:
    noise = Noise.named(len(TEXTS), "writers")
    paraphrases = DPPrompt(resource=seq2seq(), clip=(-50.0, 50.0)).rewrite(TEXTS, 400.0, noise).texts
    assert varied(seq2seq()) == [new or old for old, new in zip(TEXTS, paraphrases, strict=True)]


def test_a_masked_model_replaces_words_and_keeps_their_number() -> None:
    by_name = varied(masked_lm())
    assert by_name == varied(None) != TEXTS
    assert [len(text.split()) for text in by_name] == [len(text.split()) for text in TEXTS]


def test_an_encoder_without_a_vocabulary_head_is_refused() -> None:
    with refused("EPS-N045"):
        varied(ENCODER)


@pytest.mark.slow
def test_smollm2_writes_variations() -> None:
    pytest.importorskip("gguf")
    every = varied(Path(__file__).parents[3] / "profiles/packages/smollm2.json")
    assert len(set(every)) == len(TEXTS)
    assert not set(every) & set(TEXTS)
