"""Round trips through models that rewrite sentences equal those of transformers, and do not depend on other texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.back_translation import BackTranslation
from epsilometer.mechanisms.anonymisers.round_trip import RoundTrip
from epsilometer.mechanisms.anonymisers.shared.by_sentence import SentenceMechanism
from epsilometer.mechanisms.controls.constant import Constant
from epsilometer.models.beam_search import rewritten
from epsilometer.models.embedded import seq2seq
from epsilometer.models.translation import Translator
from tests.support import tiny_models
from tests.support.refusals import refused

SENTENCES = ["a b the of.", "c d", "h g the. of d e f", "b the a the b", "zzz", "", "g </s> a <pad>", "f"]
TEXTS = ["a b the of. c d!\n h g", "c d!", "", "  ", "42 ...", "the of.  the of. a", "c d! a b the of."]


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("marian")
    return tiny_models.save_marian(folder / "there", 6), tiny_models.save_marian(folder / "back", 7)


def rewrite(mechanism: SentenceMechanism, texts: list[str]) -> Rewrites:
    return mechanism.rewrite(texts, NO_BUDGET, Noise.named(len(texts), "x"))


def test_a_translation_is_that_of_transformers(marian: tuple[Path, Path]) -> None:
    """Scores on a grid of 1/1024 a token may order two hypotheses differently that are nearer than that."""
    model = Translator(marian[0])
    written = rewritten(model, SENTENCES, 6, beams=4)
    assert len(set(written)) > 4
    equal = 0
    for sentence, ours in zip(SENTENCES, written, strict=True):
        beams = model.network.generate(
            input_ids=torch.tensor(model.tokens([sentence])), num_beams=4, num_return_sequences=4, max_new_tokens=6,
            do_sample=False, early_stopping=True, bad_words_ids=[[model.pad], [model.tokenizer.unk_token_id]],
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        best = [model.text(row.numpy()) for row in beams.sequences]
        assert beams.sequences_scores[0] - beams.sequences_scores[best.index(ours)] < 1 / 1024
        equal += ours == best[0]
    assert equal >= 6


def test_the_tokens_are_transformers_but_for_special_tokens_that_are_written(marian: tuple[Path, Path]) -> None:
    model = Translator(marian[0])
    for sentence in SENTENCES:
        ids = model.tokens([sentence])[0]
        if "<" not in sentence:
            assert ids == model.tokenizer(sentence)["input_ids"]
        assert ids.count(model.end) == 1
        assert model.pad not in ids


def test_back_translation_goes_through_both_models_sentence_by_sentence(marian: tuple[Path, Path]) -> None:
    there, back = (Translator(folder) for folder in marian)
    mechanism = BackTranslation(resource=marian[0], back=marian[1], longest=6)
    rewrites = rewrite(mechanism, TEXTS)

    def through(sentence: str) -> str:
        return rewritten(back, rewritten(there, [sentence], 12, 4), 12, 4)[0]

    assert rewrites.texts[0] == f"{through('a b the of.')} {through('c d!')}\n {through('h g')}"
    assert rewrites.texts[1] == through("c d!")
    assert rewrites.texts[2:5] == TEXTS[2:5]  # nothing to translate
    one_by_one = [rewrite(mechanism, [text]).texts[0] for text in reversed(TEXTS)]
    assert rewrites.texts == one_by_one[::-1]
    assert rewrites.outcomes is not None
    assert list(rewrites.outcomes.status) == [FOUND, FOUND, NOTHING, NOTHING, NOTHING, FOUND, FOUND]
    assert (rewrites.outcomes.changed <= rewrites.outcomes.words).all()
    assert rewrites.outcomes.words.tolist() == [8, 2, 0, 0, 1, 5, 6]
    assert not rewrites.outcomes.asked.any()


def test_nothing_of_a_long_sentence_is_left_out(marian: tuple[Path, Path]) -> None:
    mechanism = BackTranslation(resource=marian[0], back=marian[1], longest=5)
    pieces = mechanism._pieces("a b c d  e f g h a b. " + "abcdefgh" * 4)
    assert "".join(piece + gap for piece, gap in pieces) == "a b c d  e f g h a b. " + "abcdefgh" * 4
    model = mechanism.models[0]
    assert all(len(model.tokens([piece])[0]) <= 5 for piece, _ in pieces)
    assert len(pieces) > 6


def test_the_round_trip_of_the_embedded_model_copies_most_words() -> None:
    mechanism = RoundTrip(resource=seq2seq())
    texts = ["The staff were rude. I would not book there again!", "show me the flights from boston to denver"]
    rewrites = rewrite(mechanism, texts)
    assert rewrites.texts[1] == texts[1]
    assert rewrites.outcomes is not None
    assert list(rewrites.outcomes.status) == [FOUND, NOTHING]
    assert (rewrites.outcomes.changed <= 3).all()
    assert rewrite(mechanism, texts[::-1]).texts == rewrites.texts[::-1]


def test_what_is_no_translation_model_is_refused(tmp_path: Path, marian: tuple[Path, Path]) -> None:
    bart = tiny_models.save_bart(tmp_path / "bart")
    with refused("EPS-N078"):
        rewrite(BackTranslation(resource=marian[0], back=bart), ["a"])


def test_a_constant_says_nothing_of_its_text() -> None:
    rewrites = Constant(text="none").rewrite(TEXTS, NO_BUDGET, Noise.named(len(TEXTS), "x"))
    assert rewrites.texts == ["none"] * len(TEXTS)
    assert [check.rule for check in check_mechanism(Constant(), None, TEXTS) if check.problem] == []
