"""All computations on a GPU: tensors of two devices never mix, and results equal those of the processor.

The tests run on a simulated GPU (`tests/support/stand_in_gpu.py`), which refuses what a GPU would refuse and computes
the rest on the processor, and on a real GPU if there is one. They do not measure its speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epsilometer.attacks.identification.shared.judge_model import JudgeModel
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.integrated_gradients import PIECES, integrated_gradients
from epsilometer.mechanisms.anonymisers.shared.word_edits import spans
from epsilometer.mechanisms.latents.shared import autoencoder
from epsilometer.metrics.grammaticality import Grammaticality
from epsilometer.models import bert, memory
from epsilometer.models.beam_search import beam_search
from epsilometer.models.bert import Bert
from epsilometer.models.causal_lm import CausalLM
from epsilometer.models.classifier import Examples, FineTuning
from epsilometer.models.classifiers.transformer import Transformer, fine_tune
from epsilometer.models.encoder import Encoder
from epsilometer.models.generation import TokenLaw, generate, log_likelihoods
from epsilometer.models.masked_lm import MaskedLM
from epsilometer.models.seq2seq import Seq2Seq
from epsilometer.models.tagging import _projected
from epsilometer.studies.training.attacks.reconstruction.decepticons import Decepticons
from epsilometer.studies.training.attacks.reconstruction.lamp import Lamp
from epsilometer.studies.training.attacks.reconstruction.likelihood import LikelihoodAscent
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge
from epsilometer.studies.training.runs.features import Frozen
from epsilometer.studies.training.runs.general import network, trainable
from epsilometer.studies.training.runs.gram import gram
from epsilometer.studies.training.runs.noise import GaussianNoise
from epsilometer.studies.training.runs.sent import OnMean, send
from epsilometer.studies.training.runs.shared_model import SharedModel
from tests.support import tiny_classifiers, tiny_judges, tiny_models
from tests.support.sparing import first
from tests.support.stand_in_gpu import Mixed, OnGpu, stand_in

TEXTS = ["a b c", "d", "h g f e", "a b"]
LAW = TokenLaw(-3.0, 3.0)
NOISE = Noise.named(1, "on gpu")


GPU = pytest.param("GPU", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"))


@pytest.fixture(params=["stand-in", GPU])
def on_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """The stand-in, with small batches, which a processor computes quickly; or the GPU."""
    monkeypatch.setitem(memory.BUDGET, "cuda", 1 << 18)
    return partial(stand_in if request.param == "stand-in" else gpu, monkeypatch)


@contextmanager
def gpu(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have `device: cuda` be chosen while the context lasts."""
    with patch.context() as at:
        at.setenv("EPSILOMETER_DEVICE", "cuda")
        yield


def same(work: Callable[[], Any], on_gpu: Callable[[], Any], rtol: float = 1e-3) -> None:
    """The same on both; work: numbers and texts, by a model that it builds itself."""
    expected = work()
    with on_gpu():
        result = work()
    for wanted, other in zip(expected, result, strict=True):
        if isinstance(wanted, np.ndarray):
            np.testing.assert_allclose(other, wanted, rtol=rtol, atol=1e-4)
        else:
            assert other == wanted


def test_the_stand_in_refuses_what_a_gpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in(monkeypatch):
        there, here = torch.ones(3, device="cuda"), torch.ones(3)
        assert isinstance(there, OnGpu)
        assert there.device.type == "cuda"
        assert (there + here.to("cuda")).cpu().tolist() == (there[torch.tensor([0, 1, 1])] + 1.0).tolist() == [2.0] * 3
        place = torch.tensor([1]).to("cuda")
        for work in (lambda: there + here, lambda: torch.cat([there, here]), lambda: here[place]):
            with pytest.raises(Mixed):
                work()
        with pytest.raises(RuntimeError, match="numpy"):
            there.numpy()
        with pytest.raises(RuntimeError, match="numpy"):
            np.asarray(there)


def test_packed_bert(tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder = tiny_models.save_word_bert(tmp_path, tiny_models.WORDS, num_hidden_layers=2)
    ids = [[1, 5, 6, 2], [1, 7, 2], [1, 8, 9, 2], [1, 2]]

    def work() -> tuple[Any, ...]:
        model, kinds = Bert(folder), [np.zeros(len(row), np.int64) for row in ids]
        tags = _projected(folder, np.random.default_rng(0).standard_normal((7, 3 * 32)))
        return model.means(ids), model.states(ids, kinds, [0] * 4).cpu().numpy(), tags.projections(ids, 5)

    same(work, on_gpu)


@pytest.mark.parametrize("packed", [True, False])
def test_masked_language_models(packed: bool, tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder = save_masked(tmp_path) if packed else tiny_models.save_roberta(tmp_path)
    words, rows = [text.split() for text in TEXTS], np.array([(0, 1), (2, 3), (1, 0)])
    same(lambda: (MaskedLM(folder).mask_logits(words, rows),), on_gpu)


def save_masked(folder: Path) -> Path:
    """A BERT with its vocabulary head, and [MASK] among its pieces."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    tiny_models.save_word_bert(folder, tiny_models.WORDS)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"mask_token": "[MASK]"})
    tokenizer.save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **shape)
        BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", first(2, tiny_models.SAVE))
def test_generators(name: str, tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder = tiny_models.SAVE[name](tmp_path)
    source, sequences = np.array([0, 1, 2, 0, 3, 3]), [[7, 8], [9, 10, 11, 1]] * 3

    def work() -> tuple[Any, ...]:
        model: Any = (Seq2Seq if name in ("t5", "bart") else CausalLM)(folder)
        prompts, budgets = model.tokens(TEXTS), np.full(6, 10.0)
        draws = Noise.named(np.arange(6), "gpu").uniforms(5)
        texts = generate(model, LAW, prompts, source, budgets, np.full(6, 5), draws)
        likelihoods = log_likelihoods(model, LAW, prompts, source, sequences, budgets)
        beams = []
        if isinstance(model, Seq2Seq):
            beams = beam_search(model, model.states(np.array(prompts[2:3])), 4)
        return [texts.row(i).tolist() for i in range(6)], likelihoods, beams

    same(work, on_gpu)


def test_sentence_encoders(tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder = tiny_models.save_mpnet(tmp_path)
    same(lambda: (Encoder(folder).encode(TEXTS),), on_gpu)


def test_judge(tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder, prompts = tiny_judges.save_model(tmp_path), [(text, tiny_judges.TEXTS[:2]) for text in tiny_judges.TEXTS]

    def work() -> tuple[Any, ...]:
        judge = JudgeModel(folder)
        return judge.scores(prompts)[0], [reply.text for reply in judge.replies(prompts, 4)]

    same(work, on_gpu)


def test_classifiers_and_attributions(
    tmp_path: Path, on_gpu: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PIECES, "cuda", 64)
    # A GPU samples other numbers for dropout than the processor.
    folder = tiny_classifiers.save_bert_classifier(tmp_path, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    examples = Examples(["a b c d", "e f g", "a a b", "h g"] * 4, ["one", "two"] * 8)

    def work() -> tuple[Any, ...]:
        model = fine_tune(examples, ["one", "two"], FineTuning(str(folder), batch=4), Noise.named(1, "gpu"))
        scores, _ = integrated_gradients(model, [spans(text) for text in TEXTS], steps=4, tolerance=0.5)
        values = np.array([value for text in scores for value in text.values()])
        return model.probabilities(TEXTS), model.predict(TEXTS).tolist(), values

    same(work, on_gpu)


def test_grammaticality(tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder = tiny_classifiers.save_bert_classifier(tmp_path)
    same(lambda: (Grammaticality(model=str(folder)).measure(TEXTS, TEXTS),), on_gpu)


@pytest.mark.parametrize("kind", tiny_classifiers.SAVE)
def test_training(kind: str, tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder, labels = tiny_classifiers.SAVE[kind](tmp_path), np.array([0, 1, 1, 0])

    def work() -> tuple[Any, ...]:
        frozen, net = Frozen(folder, 12), network(folder, 2, NOISE)
        head, ids = trainable(net, 12, [name for name, _ in net.named_parameters()][-4:]), frozen.padded(TEXTS)
        gradients = head.gradients(ids, labels)
        summed = head.summed(ids, labels, np.arange(4.0))
        return frozen.states(TEXTS), head.logits(ids), gradients.norms(), gradients.gram(), summed

    same(work, on_gpu)


@pytest.mark.parametrize("kind", first(1, tiny_classifiers.SAVE))
def test_gradients_that_clients_send(kind: str, tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    folder = tiny_classifiers.SAVE[kind](tmp_path)

    def work() -> tuple[Any, ...]:
        model, head = SharedModel(folder), SharedModel(folder, tensors="head")
        ids = model.encode(TEXTS)
        update = send(model, ids, [0, 1, 1, 0], GaussianNoise(0.1), np.random.default_rng(0)).update
        return update, gram(model, ids, [0, 1, 1, 0]), gram(head, ids, [0, 1, 1, 0])

    same(work, on_gpu)


ATTACKS: dict[str, Callable[[Path], Any]] = {
    "likelihood": lambda _: LikelihoodAscent(prior=None, steps=1, width=2),
    "published": lambda _: Decepticons(variant="published"),
    "aware": lambda _: Decepticons(batch=2),
    "lamp": lambda language: Lamp(steps=2, starts=3, rearranged=2, moves=2, every=1, language=str(language)),
    "lamp, tag": lambda _: Lamp(loss="tag", steps=1, starts=2, rearranged=2, moves=2, every=1, language=None),
}


@pytest.mark.parametrize("attack", first(1, reversed(ATTACKS)))
def test_attacks_on_gradients(attack: str, tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 256}
    folder = tiny_models.save_word_bert(tmp_path / "bert", [f"w{i}" for i in range(60)], **sizes)
    language = tiny_models.save_gpt2(tmp_path / "gpt2")
    public = [" ".join(f"w{(7 * i + j * j) % 60}" for j in range(6)) for i in range(40)]

    def work() -> tuple[Any, ...]:
        model, noise = SharedModel(folder, longest=16), OnMean(0.0)
        ready = ATTACKS[attack](language).prepare(model, Knowledge(public, noise, np.random.default_rng(0)))
        sent = send(ready.model, model.encode(public[:2]), [0, 1], noise, np.random.default_rng(0))
        return [list(reconstruction.ids) for reconstruction in [ready.reconstruct(sent, np.random.default_rng(1))]]

    same(work, on_gpu)


def test_autoencoder(tmp_path: Path, on_gpu: Callable[[], Any]) -> None:
    texts = [f"{a} {b} {c}" for a in "abc" for b in "def" for c in "gh"] * 2
    how = autoencoder.AutoencoderTraining(steps=5, batch=8)

    def work() -> tuple[Any, ...]:
        model, record = autoencoder.train(texts, autoencoder.Shape(hidden=8, dimensions=6, longest=4), how)
        model.save(tmp_path)
        latents = autoencoder.Autoencoder.load(tmp_path).encode(TEXTS)
        return latents, model.decode(latents), record

    same(work, on_gpu, rtol=1e-2)  # Adam divides gradients by their size, which enlarges rounding errors of small ones


def encode(folder: Path) -> Any:
    model, ids = (
        Bert(tiny_models.save_word_bert(folder, tiny_models.WORDS)),
        [[1, *range(4, 5 + i % 4), 2] for i in range(40)],
    )
    return model.means(ids), model.states(ids, [np.zeros(len(row), np.int64) for row in ids], [0] * 40).cpu().numpy()


def grade(folder: Path) -> Any:
    saved = tiny_classifiers.save_bert_classifier(folder)
    return (Grammaticality(model=str(saved)).measure(TEXTS * 16, TEXTS * 16),)


def attribute(folder: Path) -> Any:
    saved = tiny_classifiers.save_bert_classifier(folder)
    model = Transformer(saved, ["one", "two"], FineTuning(str(saved)))
    scores, _ = integrated_gradients(model, [spans(text) for text in TEXTS], steps=4, tolerance=1e9)
    return (np.array([value for text in scores for value in text.values()]),)


def write_again(folder: Path) -> Any:
    texts = [f"{a} {b} {c}" for a in "abc" for b in "def" for c in "gh"] * 2
    model, record = autoencoder.train(
        texts, autoencoder.Shape(hidden=8, dimensions=6, longest=4), autoencoder.AutoencoderTraining(steps=2, batch=18)
    )
    latents = model.encode(TEXTS)
    return latents, model.decode(latents), record


@pytest.mark.parametrize(
    ("work", "most"), first(2, [(encode, 4000), (write_again, 1200), (grade, 9000), (attribute, 3000)])
)
@pytest.mark.parametrize("budget", first(1, [1, 24 << 30]))
def test_rows_follow_a_budget_of_bytes_and_are_halved_where_memory_runs_out(
    work: Callable[[Path], Any], most: int, budget: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The same whatever the rows: one at a time under a budget of a byte, and as many as fit by halving."""
    monkeypatch.setitem(memory.BUDGET, "cuda", budget)
    monkeypatch.setitem(bert.SLICE, "cuda", 8)
    monkeypatch.setitem(PIECES, "cuda", 64)
    same(lambda: work(tmp_path), partial(stand_in, monkeypatch, most if budget > 1 else None))
    assert ("half as many rows" in capsys.readouterr().err) == (budget > 1)
