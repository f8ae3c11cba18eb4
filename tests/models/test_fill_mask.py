"""Predictions of a masked language model for a text with a single mask, when the model sees no other mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.logits import GRID

TEXTS = ["I want to book a table at Luigi's trattoria.", "the film drags, and drags, and drags.", "yes 🎉"]
TABLE, LUIGI, DRAGS, FIRST_DRAGS = Place(0, 17, 22), Place(0, 26, 33), Place(1, 31, 36), Place(1, 9, 14)


@pytest.fixture(scope="module")
def model() -> FillMask:
    return FillMask(masked_lm())


def test_equals_transformers(model: FillMask) -> None:
    """Of one piece by the text with a mask in its place, of several by one mask after another."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(masked_lm()), AutoModelForMaskedLM.from_pretrained(masked_lm())

    def log_probability(text: str, start: int, end: int) -> float:
        encoded = tokenizer(text, return_offsets_mapping=True)
        ids, offsets = torch.tensor([encoded["input_ids"]]), encoded["offset_mapping"]
        total = 0.0
        for i, (first, last) in enumerate(offsets):
            if first < end and last > start:
                masked = ids.clone()
                masked[0, i] = tokenizer.mask_token_id
                with torch.inference_mode():
                    law = network.eval()(masked).logits[0, i][model.output_ids].double().log_softmax(-1)
                total += float(law[np.searchsorted(model.output_ids, int(ids[0, i]))])
        return total

    places = [TABLE, LUIGI, DRAGS]
    theirs = [log_probability(TEXTS[p.text], p.start, p.end) for p in places]
    assert len(tokenizer(TEXTS[0][26:33], add_special_tokens=False)["input_ids"]) > 1
    assert model.log_probabilities(TEXTS, places) == pytest.approx(theirs, abs=10 / GRID)


def test_likeliest_are_the_top_of_the_law_by_which_words_are_judged(model: FillMask) -> None:
    outputs, log_p = model.likeliest(TEXTS, [TABLE], 50)
    assert (np.diff(log_p[0]) <= 0).all()
    assert model.whole[outputs[0]].all()
    place = [model.outputs[o] for o in outputs[0]].index("table")
    assert log_p[0, place] == model.log_probabilities(TEXTS, [TABLE])[0]
    pieces, _ = model.likeliest(TEXTS, [TABLE], len(model.outputs), whole=False)
    assert sorted(pieces[0]) == list(range(len(model.outputs)))


def test_an_answer_depends_on_its_place_alone(model: FillMask) -> None:
    places = [TABLE, LUIGI, DRAGS, FIRST_DRAGS, TABLE]
    together = model.log_probabilities(TEXTS, places)
    assert together[0] == together[4]
    assert together[2] != together[3]  # the same word at another position
    assert [model.log_probabilities(TEXTS, [place])[0] for place in places] == together.tolist()


def test_what_the_model_cannot_spell_has_no_probability(model: FillMask) -> None:
    assert model.log_probabilities(TEXTS, [Place(2, 4, 5), Place(2, 3, 4)]).tolist() == [-np.inf, -np.inf]
    assert len(model.log_probabilities(TEXTS, [])) == 0


def test_of_a_long_text_the_window_around_the_mask_is_read(model: FillMask) -> None:
    """The filler is one piece, so that the window can be written out."""
    filler = "word " * model.window
    text = filler + TEXTS[0] + " " + filler
    place = Place(0, len(filler) + TABLE.start, len(filler) + TABLE.end)
    room = model.window - 2
    before = room // 2 - len(model._tokenizer.encode(TEXTS[0][: TABLE.start], add_special_tokens=False))
    after = room - before - len(model._tokenizer.encode(TEXTS[0], add_special_tokens=False))
    window = "word " * before + TEXTS[0] + " word" * after
    shifted = Place(0, 5 * before + TABLE.start, 5 * before + TABLE.end)
    assert model.log_probabilities([text], [place]) == model.log_probabilities([window], [shifted])


def test_draws_follow_the_law_among_allowed_outputs(model: FillMask) -> None:
    """By inverse CDF: uniforms evenly spaced give each output as often as its law says, to one draw."""
    best, log_p = model.likeliest(TEXTS, [TABLE], 5)
    allowed = np.zeros(len(model.outputs), bool)
    allowed[best[0]] = True
    uniforms = (np.arange(1000) + 0.5) / 1000
    outputs = model.draw(TEXTS, [TABLE] * 1000, uniforms, allowed)
    shares = np.exp(log_p[0]) / np.exp(log_p[0]).sum()
    assert [(outputs == output).sum() for output in best[0]] == pytest.approx(shares * 1000, abs=1.01)
    assert (model.draw(TEXTS, [TABLE], np.array([1.0]), allowed) == best[0].max()).all()
