from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.models import bert
from epsilometer.models.bounds import PUBLISHED_BOUNDS, bounds
from epsilometer.models.locate import REVISIONS, locate
from epsilometer.models.logits import GRID
from epsilometer.models.masked_lm import MaskedLM, _BertMaskedLM, assemble
from tests.support import tiny_models
from tests.support.places import ROOT
from tests.support.refusals import refused

DELTA = ROOT / "data" / "embedded" / "models" / "minilm-mlm"
TEXTS = [
    text.split()
    for text in (
        "i want to go from boston to denver",
        "show me the cheapest flight on monday morning",
        "the food was good but the service was slow",
        "will it rain in reykjavík tomorrow ?",
        "yes",
        "the film never quite finds its footing ; the last half hour drags , and drags , and drags .",
    )
]
ROWS = np.array([(i, j) for i, text in enumerate(TEXTS) for j in range(len(text))])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("minilm-mlm")
    assemble(DELTA, locate("all-MiniLM-L6-v2"), out)
    return out


@pytest.fixture(scope="module")
def model(folder: Path) -> MaskedLM:
    return MaskedLM(folder)


@pytest.fixture(scope="module")
def logits(model: MaskedLM) -> np.ndarray:
    return model.mask_logits(TEXTS, ROWS)


def by_transformers(folder: Path, texts: list[list[str]], rows: np.ndarray) -> list[np.ndarray]:
    """The naive twin: the pair as text through the model's own tokeniser, one at a time, all positions."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForMaskedLM.from_pretrained(folder).eval()
    result = []
    for text, word in rows:
        words = list(texts[text])
        words[word] = tokenizer.mask_token
        pair = tokenizer(" ".join(texts[text]), " ".join(words), return_tensors="pt")
        place = int(torch.nonzero(pair["input_ids"][0] == tokenizer.mask_token_id))
        with torch.inference_mode():
            result.append(network(**pair).logits[0, place].numpy())
    return result


def test_equals_transformers(folder: Path, model: MaskedLM, logits: np.ndarray) -> None:
    from transformers import AutoModelForMaskedLM

    _, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    some = np.arange(0, len(ROWS), 4)
    theirs = np.stack(by_transformers(folder, TEXTS, ROWS[some]))[:, model.output_ids]
    assert isinstance(model._model, _BertMaskedLM)
    assert logits.dtype == np.float32
    assert np.abs(logits[some] - theirs).max() < 0.5 / GRID + 1e-4
    assert np.array_equal(logits * GRID, np.round(logits * GRID))


def test_fills_in_something_sensible(model: MaskedLM, logits: np.ndarray) -> None:
    likeliest = {model.outputs[i] for i in np.argsort(-logits[3])[:8]}  # i want to [MASK] from boston to denver
    assert likeliest >= {"go", "leave", "travel", "fly"}


def test_output_vocabulary_is_public_text(model: MaskedLM) -> None:
    assert len(model.outputs) == len(model.output_ids) == logits_width(model)
    assert np.all(np.diff(model.output_ids) > 0)
    assert all(text.strip() == text and text and "\ufffd" not in text for text in model.outputs)
    assert not {"[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "[unused7]"} & set(model.outputs)
    assert {"boston", "ing", "?", "日"} <= set(model.outputs)
    assert not any(text.startswith("##") and len(text) > 2 for text in model.outputs)


def logits_width(model: MaskedLM) -> int:
    return model.mask_logits([["yes"]], np.array([[0, 0]])).shape[1]


def test_a_row_does_not_feel_its_batch(model: MaskedLM, logits: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    order = np.random.default_rng(0).permutation(len(ROWS))
    assert np.array_equal(model.mask_logits(TEXTS, ROWS[order]), logits[order])
    assert np.array_equal(model.mask_logits(TEXTS[1:2], np.array([[0, 2]]))[0], logits[len(TEXTS[0]) + 2])
    monkeypatch.setitem(bert.BLOCK, "cpu", 200)
    assert np.array_equal(model.mask_logits(TEXTS, ROWS[:20]), logits[:20])


def test_a_row_does_not_feel_the_threads(model: MaskedLM, one_thread: None) -> None:
    alone = model.mask_logits(TEXTS, ROWS[:12])
    torch.set_num_threads(2)
    assert np.array_equal(model.mask_logits(TEXTS, ROWS[:12]), alone)


def rare_words(count: int) -> list[str]:
    """Words of some six subwords each; the reference code returned 184 of 220 such words unchanged."""
    generator = np.random.default_rng(3)
    return ["".join(generator.choice(list("bcdfghjklmnpqrstvwxz"), 9)) for _ in range(count)]


def check_windows(model: MaskedLM, words: list[str]) -> None:
    """Every position of a long text has one mask, at the right place, and its word in the other half.

    The twin builds the whole text word by word, from each word's own subwords.
    """
    tokenizer = model._tokenizer
    spaced = [" " * (i > 0) + word for i, word in enumerate(words)]
    pieces = [tokenizer.encode(word, add_special_tokens=False).ids for word in spaced]
    rows = np.array([(0, j) for j in range(len(words))])
    mask = model._model.mask
    before, between, after = model._frame.ids
    for (_, j), row in zip(rows, model.inputs([words], rows), strict=True):
        assert len(row.ids) == len(row.kinds) <= model.window
        assert [i for i, token in enumerate(row.ids) if token == mask] == [row.mask]
        whole = list(chain(*pieces))
        masked = list(chain(*pieces[:j], [mask], *pieces[j + 1 :]))
        start = sum(map(len, pieces[:j]))
        body = row.ids[len(before) : len(row.ids) - len(after)]
        half = (len(body) - len(between)) // 2
        first, second = body[:half], body[half + len(between) :]
        assert body[half : half + len(between)] == between
        place = row.mask - len(before) - half - len(between)
        assert second == masked[start - place : start - place + len(second)]
        begins = [i for i in range(len(whole)) if whole[i : i + half] == first]
        assert any(i <= start and start + len(pieces[j]) <= i + half for i in begins)


def test_long_texts_keep_the_mask_in_the_window(model: MaskedLM) -> None:
    words = rare_words(220)
    assert len(model._tokenizer.encode(" ".join(words), add_special_tokens=False).ids) > 1000
    check_windows(model, words)
    rows = np.array([(0, 0), (0, 110), (0, 219)])
    assert np.isfinite(model.mask_logits([words], rows)).all()


def test_one_word_longer_than_the_window(model: MaskedLM) -> None:
    word = "".join(rare_words(150))
    text = ["call", "-".join([word[i : i + 40] for i in range(0, len(word), 40)]), "now"]
    for row in model.inputs([text], np.array([(0, 0), (0, 1), (0, 2)])):
        assert len(row.ids) <= model.window
        assert row.ids[row.mask] == model._model.mask


def test_a_mask_written_in_a_text_is_text(model: MaskedLM) -> None:
    text = ["a", "[MASK]", "and", "[SEP]", "here"]
    for row in model.inputs([text], np.array([(0, j) for j in range(5)])):
        assert row.ids.count(model._model.mask) == 1
        assert row.ids.count(102) == 2  # only the two [SEP] of the frame
    with pytest.raises(IndexError, match=r"\(0, 5\)"):
        model.mask_logits([text], np.array([[0, 5]]))


def test_a_word_of_no_subwords_is_masked_in_its_place(model: MaskedLM) -> None:
    [row] = model.inputs([["a", "\u200d", "b"]], np.array([[0, 1]]))
    assert model._tokenizer.decode(row.ids, skip_special_tokens=False) == "[CLS] a b [SEP] a [MASK] b [SEP]"


@pytest.mark.slow
def test_needs_no_transformers(folder: Path) -> None:
    code = f"""
import sys
from pathlib import Path
import numpy as np
from epsilometer.models.bounds import bounds
from epsilometer.models.masked_lm import MaskedLM
bounds(Path({str(folder)!r}))
assert "torch" not in sys.modules
MaskedLM({str(folder)!r}).mask_logits([["yes"]], np.array([[0, 0]]))
print("transformers" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_bounds_live_with_the_weights(folder: Path, tmp_path: Path) -> None:
    stated = json.loads((DELTA / "bounds.json").read_text())
    assert bounds(folder) == (stated["low"], stated["high"])
    assert stated["low"] < 0 < stated["quantiles"]["largest logit"]["0.5"] < stated["high"]
    roberta = PUBLISHED_BOUNDS["roberta-base"]
    assert roberta[1] - roberta[0] == pytest.approx(19.5141, abs=1e-4)  # the reference code's Delta
    assert bounds("roberta-base") == bounds("FacebookAI/roberta-base") == roberta
    assert bounds(f"roberta-base@{REVISIONS['roberta-base']}") == roberta
    for other in ("roberta-base@main", "roberta-large", "answerdotai/ModernBERT-base@v2", tmp_path):
        with refused("EPS-N007", "epsilometer bounds ", "clip: [low, high]"):
            bounds(other)


def test_bounds_hold_most_logits(model: MaskedLM, logits: np.ndarray) -> None:
    low, high = bounds(DELTA)
    assert abs(logits.mean() - low) < 1
    assert (logits > high).mean() < 0.001


def test_a_model_without_a_head_is_refused() -> None:
    with refused("EPS-N005"):
        MaskedLM("all-MiniLM-L6-v2")


def test_a_delta_of_another_encoder_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"bert.encoder.layer.99.output.dense.bias": np.zeros(2)}, tmp_path / "delta.safetensors")
    with refused("EPS-N059"):
        assemble(tmp_path, locate("all-MiniLM-L6-v2"), tmp_path / "out")


def save_roberta(folder: Path, head: bool = True) -> None:
    """Byte-level BPE of the texts above; the tokeniser states no longest input, the table has 60 - 2 places."""
    tiny_models.save_roberta(folder, [" ".join(text) for text in TEXTS], head)


def save_distilbert(folder: Path) -> None:
    """A random DistilBERT with WordPiece; no token types."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import DistilBertConfig, DistilBertForMaskedLM, PreTrainedTokenizerFast

    # The vocabulary is not trained, because training chooses at random among equally frequent pieces.
    letters = sorted({letter for text in TEXTS for word in text for letter in word.lower()})
    words = sorted({word.lower() for text in TEXTS for word in text if word.isalpha()})
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces = BertWordPieceTokenizer({entry: i for i, entry in enumerate(dict.fromkeys([*entries, *words[::2]]))})
    PreTrainedTokenizerFast(
        tokenizer_object=pieces._tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]",
        mask_token="[MASK]", model_max_length=64, model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=pieces.get_vocab_size(), dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=64,
        initializer_range=0.5,
    )  # fmt: skip
    DistilBertForMaskedLM(config).save_pretrained(folder)


@pytest.mark.parametrize(("save", "window"), [(save_roberta, 58), (save_distilbert, 64)])
def test_other_models_go_by_transformers(tmp_path: Path, save: Callable[[Path], None], window: int) -> None:
    save(tmp_path)
    model = MaskedLM(tmp_path)
    assert model.window == window
    assert not isinstance(model._model, _BertMaskedLM)
    rows = ROWS[ROWS[:, 0] < 3]
    assert max(len(row.ids) for row in model.inputs(TEXTS, rows)) < window  # so the twin has equal input
    ours = model.mask_logits(TEXTS, rows)
    theirs = np.stack(by_transformers(tmp_path, TEXTS, rows))[:, model.output_ids]
    assert np.ptp(theirs) > 1
    assert np.abs(ours - theirs).max() < 0.5 / GRID + 1e-4
    assert np.array_equal(model.mask_logits(TEXTS, rows[::-1])[::-1], ours)
    assert np.array_equal(model.mask_logits(TEXTS, rows[4:6]), ours[4:6])
    assert all(text.strip() == text and text and "\ufffd" not in text for text in model.outputs)
    assert not {"<s>", "<mask>", "[MASK]", "[CLS]"} & set(model.outputs)
    check_windows(model, " ".join(map(" ".join, TEXTS)).split())
    assert np.isfinite(model.mask_logits([rare_words(40)], np.array([[0, 39], [0, 0]]))).all()
    with refused("EPS-N007"):
        bounds(tmp_path)


@pytest.mark.parametrize("save", [save_roberta, save_distilbert])
def test_half_precision_keeps_logits_apart(tmp_path: Path, save: Callable[[Path], None]) -> None:
    """bfloat16 for the layers, float32 for the vocabulary head, whose logits are no numbers of bfloat16."""
    save(tmp_path)
    rows = ROWS[:1]
    exact, rough = (MaskedLM(tmp_path, precision).mask_logits(TEXTS, rows)[0] for precision in ("float32", "bfloat16"))
    assert 0 < np.abs(exact - rough).max() < 0.5
    assert (rough != torch.from_numpy(rough).bfloat16().float().numpy()).mean() > 0.5


@pytest.mark.parametrize("save", [save_roberta, save_distilbert])
def test_logits_that_are_not_finite_are_refused(tmp_path: Path, save: Callable[[Path], None]) -> None:
    from safetensors.torch import load_file, save_file

    save(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][20] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with refused("EPS-N054"):
        MaskedLM(tmp_path).mask_logits(TEXTS, ROWS[:2])


def test_token_types_can_be_left_out(model: MaskedLM, folder: Path, logits: np.ndarray) -> None:
    """As one path of the reference code has it; the model was trained with them, and its logits differ."""
    without = MaskedLM(folder, token_types=False)
    assert all(row.kinds.sum() == 0 for row in without.inputs(TEXTS, ROWS))
    assert any(row.kinds.sum() > 0 for row in model.inputs(TEXTS, ROWS))
    assert np.abs(without.mask_logits(TEXTS, ROWS) - logits).max() > 0.1


def test_a_tokeniser_without_a_mask_is_refused(tmp_path: Path) -> None:
    tiny_models.save_bert(tmp_path)
    with refused("EPS-N055", str(tmp_path)):
        MaskedLM(tmp_path)


def test_another_model_without_a_head_is_refused(tmp_path: Path) -> None:
    save_roberta(tmp_path, head=False)
    with refused("EPS-N057"):
        MaskedLM(tmp_path)
