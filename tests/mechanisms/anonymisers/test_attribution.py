"""Attribution: correct where the exact answer is known, complete on networks, and independent of other texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.attribution import Attribution, attributions
from epsilometer.mechanisms.anonymisers.shared.integrated_gradients import PIECES, _Line, _pieces, integrated_gradients
from epsilometer.mechanisms.anonymisers.shared.word_edits import edited, spans
from epsilometer.models.classifier import Examples, FineTuning
from epsilometer.models.classifiers.linear import Linear
from epsilometer.models.classifiers.transformer import Transformer
from epsilometer.models.embedded import weights
from tests.support.refusals import refused
from tests.support.sparing import first
from tests.support.tiny_models import save_word_bert

WORDS = ["my", "husband", "wife", "likes", "the", "camera", "and", "battery", "is", "this", ",", "."]
TEXTS = [
    "My husband likes the camera, and the battery.",
    "Wife",
    "",
    "42 !",
    "The CAMERA is the camera.",
    "My wife likes this and my wife likes that and the husband likes the battery and the wife",
]


class Bag(torch.nn.Module):
    """Logits that are linear in the sum of the embeddings of a text's pieces."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(entries, 8)
        self.head = torch.nn.Linear(8, 3)
        self.config = SimpleNamespace(pad_token_id=0, hidden_size=8, num_attention_heads=1, num_hidden_layers=1)
        self.device = torch.device("cpu")

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.words

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return SimpleNamespace(logits=self.head((self.words(input_ids) * attention_mask[..., None]).sum(1)))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    """Three classes, with weights large enough for a curved path."""
    folder = save_word_bert(tmp_path_factory.mktemp("bert"), WORDS)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return _livelier(Transformer(folder, ["a", "b", "c"], FineTuning(str(folder))))


@pytest.fixture(scope="module")
def bag(bert: Transformer) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        network = Bag(len(WORDS) + 4)
    return SimpleNamespace(
        kind="transformer", network=network, tokenizer=bert.tokenizer, longest=64, memory=bert.memory
    )


def _livelier(classifier: Transformer) -> Transformer:
    with torch.no_grad():
        for parameter in classifier.network.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.3)
    classifier.network.eval()
    return classifier


@pytest.mark.parametrize("steps", [1, 3, 50])
def test_a_linear_bag_of_embeddings_is_exact(bag: Any, steps: int) -> None:
    """A(w) = (e(w) - e(padding)) v, summed over occurrences, for any number of steps."""
    cut = [spans(text) for text in TEXTS]
    scores, incomplete = integrated_gradients(bag, cut, steps=steps, tolerance=0.05)
    assert not incomplete.any()
    number = bag.tokenizer.convert_tokens_to_ids
    table, head = bag.network.words.weight.detach().numpy(), bag.network.head.weight.detach().numpy()
    for of_text, of_words, part in zip(cut, scores, _pieces(bag, cut), strict=True):
        assert list(of_words) == list(of_text.places)
        ids = torch.from_numpy(part.ids)[None]
        wanted = int(bag.network(ids, torch.ones_like(ids)).logits.argmax())
        for word, score in of_words.items():
            exact = (table[number(word)] - table[0]) @ head[wanted] * len(of_text.places[word])
            assert score == pytest.approx(exact, abs=1e-5)


def test_completeness_on_the_embedded_transformer() -> None:
    """What the pieces' scores add up to is measured by two forward passes of its own."""
    folder = weights("deberta")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        classifier = Transformer(folder, ["female", "male"], FineTuning(str(folder)))
    classifier.network.eval()
    texts = ["My husband likes this camera, and it isn't too heavy for me.", "Great value!"]
    cut = [spans(text) for text in texts]
    target = classifier.probabilities(texts).argmax(axis=1)
    scores, incomplete = integrated_gradients(classifier, cut, steps=50, tolerance=0.05)
    assert not incomplete.any()
    padding = classifier.tokenizer.pad_token_id
    for text, part, wanted in zip(texts, _pieces(classifier, cut), target, strict=True):
        empty = torch.from_numpy(np.where(part.special, part.ids, padding))[None]
        ids = torch.from_numpy(part.ids)[None]
        with torch.inference_mode():
            full, other = (classifier.network(input_ids=i).logits[0, wanted].item() for i in (ids, empty))
        total = _alone(classifier, part).scores(np.array([wanted]), 50).sum()
        assert total == pytest.approx(full - other, rel=0.05), text
    assert all(set(of_text.places) == set(of_words) for of_text, of_words in zip(cut, scores, strict=True))


@pytest.mark.parametrize("steps", first(1, [3, 16]))
def test_scores_and_completeness_are_captums(bert: Transformer, steps: int) -> None:
    """To 1e-5 of the largest score, whatever the passes: of several texts, and of fewer rows than there are nodes."""
    from captum.attr import LayerIntegratedGradients

    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = bert.network(input_ids=ids, attention_mask=mask).logits
        return logits

    pieces, target = _pieces(bert, [spans(TEXTS[0]), spans(TEXTS[4])]), np.array([1, 2])
    width = max(len(part.ids) for part in pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PIECES, "cpu", 5 * width)
        line = _Line(bert, pieces, np.arange(2), width)
        scores, ends = line.scores(target, steps), line.ends()
    padding = bert.tokenizer.pad_token_id
    for part, wanted, ours, end in zip(pieces, target, scores, ends, strict=True):
        ids = torch.from_numpy(part.ids)[None]
        gradients, delta = LayerIntegratedGradients(forward, bert.network.get_input_embeddings()).attribute(
            ids,
            baselines=torch.from_numpy(np.where(part.special, part.ids, padding))[None],
            target=int(wanted),
            additional_forward_args=torch.ones_like(ids),
            n_steps=steps,
            return_convergence_delta=True,
        )
        theirs = gradients.detach().double().sum(-1)[0].numpy()
        near = 1e-5 * np.abs(theirs).max()
        np.testing.assert_allclose(ours[: len(theirs)], theirs, rtol=0, atol=near)
        assert end[0, wanted] - end[1, wanted] == pytest.approx(theirs.sum() - float(delta), abs=10 * near)


def test_a_padded_baseline_moves_no_positions(tmp_path: Path, bert: Transformer) -> None:
    """RoBERTa counts positions by what is no padding: F at the baseline is that of the path's own end."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    with torch.random.fork_rng():
        torch.manual_seed(5)
        config = RobertaConfig(
            vocab_size=len(WORDS) + 4, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=66, pad_token_id=0, num_labels=2,
        )  # fmt: skip
        network = RobertaForSequenceClassification(config).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0.0, 0.3)
    roberta = SimpleNamespace(
        kind="transformer", network=network, tokenizer=bert.tokenizer, longest=64, memory=bert.memory
    )
    _, incomplete = integrated_gradients(roberta, [spans(text) for text in TEXTS], steps=50, tolerance=0.05)
    assert not incomplete.any()


def test_steps_are_doubled_until_complete(bert: Transformer) -> None:
    """With one step some texts miss; doubled, none does, and each then equals what its own number of steps gives."""
    cut = [spans(text) for text in TEXTS]
    target = bert.probabilities(TEXTS).argmax(axis=1)
    few = [_total(bert, text, int(wanted), 1) for text, wanted in zip(TEXTS, target, strict=True)]
    assert any(abs(total - wanted) > 0.05 * abs(wanted) for total, wanted in few)
    scores, incomplete = integrated_gradients(bert, cut, steps=1, tolerance=0.05)
    assert not incomplete.any()
    many, _ = integrated_gradients(bert, cut, steps=100, tolerance=0.05)
    for few_steps, exact in zip(scores, many, strict=True):
        bound = 0.05 * sum(map(abs, exact.values())) + 1e-3
        assert all(abs(few_steps[word] - exact[word]) < 2 * bound for word in exact)


def _alone(classifier: Transformer, part: Any) -> _Line:
    return _Line(classifier, [part], np.array([0]), len(part.ids))


def _total(bert: Transformer, text: str, target: int, steps: int) -> tuple[float, float]:
    line = _alone(bert, _pieces(bert, [spans(text)])[0])
    (end,) = line.ends()
    return float(line.scores(np.array([target]), steps).sum()), float(end[0, target] - end[1, target])


def test_what_still_misses_is_counted(bert: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.mechanisms.anonymisers.shared.integrated_gradients.MOST_STEPS", 1)
    target = bert.probabilities(TEXTS).argmax(axis=1)
    few = [_total(bert, text, int(wanted), 1) for text, wanted in zip(TEXTS, target, strict=True)]
    missed = [abs(total - wanted) > max(0.05 * abs(wanted), 1 / 1024) for total, wanted in few]
    _, incomplete = integrated_gradients(bert, [spans(text) for text in TEXTS], steps=1, tolerance=0.05)
    assert incomplete.tolist() == missed
    assert any(missed)


def test_padding_and_batch_change_nothing(bert: Transformer) -> None:
    """The same bits among other texts and in another order; to rounding, more padding."""
    settings = Attribution(steps=4)
    together = attributions(bert, TEXTS, settings).scores
    assert attributions(bert, TEXTS[::-1], settings).scores[::-1] == together
    assert [attributions(bert, [text], settings).scores[0] for text in TEXTS] == together
    part, target = _pieces(bert, [spans(TEXTS[0])]), np.array([1])
    narrow, wide = (_Line(bert, part, np.array([0]), width).scores(target, 8)[0] for width in (12, 40))
    np.testing.assert_allclose(wide[:12], narrow, atol=1e-5)
    np.testing.assert_allclose(wide[12:], 0, atol=1e-6)


@pytest.mark.parametrize("text", ["My husband likes the camera, and the battery.", "The camera is the camera."])
def test_occlusion_equals_two_forward_passes(bert: Transformer, text: str) -> None:
    of_text = spans(text)
    scores = attributions(bert, ["unrelated", text], Attribution("occlusion")).scores[1]
    before = bert.probabilities([text])[0]
    for word, places in of_text.places.items():
        after = bert.probabilities([edited(of_text, dict.fromkeys(places, ""))])[0]
        assert scores[word] == before[before.argmax()] - after[before.argmax()]


@pytest.fixture(scope="module")
def linear() -> Linear:
    return Linear.fit(
        Examples(["my husband likes the camera", "my wife likes it", "the battery", "this wife"], list("abca"))
    )


def test_linear_scores_add_up_to_the_logit(linear: Linear) -> None:
    """Less the intercept, exactly; words that it never saw have no share. By default, gradients give the same."""
    scores = attributions(linear, TEXTS, Attribution("linear")).scores
    logits = linear.features(TEXTS) @ linear.coefficients.T
    target = linear.probabilities(TEXTS).argmax(axis=1)
    for of_words, row, wanted in zip(scores, logits, target, strict=True):
        assert sum(of_words.values()) == pytest.approx(row[wanted], abs=1e-12)
    assert scores[4]["is"] == 0
    assert attributions(linear, TEXTS, Attribution()).scores == scores


WEIGHTS = {"husband": 0.3, "camera": -0.2, "likes": 0.1}


class Counted:
    """The probability of its first class is linear in which words are there."""

    kind, classes = "encoder", ("yes", "no")

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        held = [{token.lower() for token in spans(text).tokens} for text in texts]
        yes = 0.6 + np.array([sum(WEIGHTS.get(word, 0.0) for word in some) for some in held])
        return np.stack([yes, 1 - yes], axis=1)


def test_lime_finds_linear_weights_and_depends_on_the_text_alone() -> None:
    settings = Attribution("lime")
    classifier: Any = Counted()
    scores = attributions(classifier, TEXTS, settings).scores
    assert attributions(classifier, TEXTS[::-1], settings).scores[::-1] == scores
    first = scores[0]
    # Lasso shrinks all weights towards zero, and preserves their order.
    assert sorted(first, key=first.__getitem__)[0] == "camera"
    assert sorted(first, key=first.__getitem__)[-2:] == ["likes", "husband"]
    assert first["the"] == pytest.approx(0, abs=0.02)
    assert scores[2:4] == [{}, {}]


def test_bad_settings_and_kinds() -> None:
    with refused("EPS-C022", "occlusion"):
        Attribution("oclusion")
    with refused("EPS-M015", "1", "100", "2", "0", "0"):
        Attribution(steps=0)
    classifier: Any = Counted()
    with refused("EPS-M016", "encoder", "integrated_gradients"):
        attributions(classifier, TEXTS, Attribution())
    assert attributions(classifier, [], Attribution()).scores == []
