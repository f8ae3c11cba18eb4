from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.models import bert
from epsilometer.models.encoder import Encoder, _BertEncoder
from epsilometer.models.locate import locate, would_download
from epsilometer.pipeline.stages.embed import on_grid
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.tiny_models import save_static

TEXTS = """show me the cheapest flights from boston to denver on monday morning
what is the arrival time in san francisco for the 755 am flight leaving washington
which airlines fly from boston to pittsburgh
i'd like to book a table for two at an Italian restaurant in Leeds
add this song to my running playlist, please
Will it rain in Reykjavík tomorrow afternoon?
The film is a deft, delightful mix of sulky teen drama and overcoming-obstacles sports-movie triumph.
It never quite finds its footing; the last half hour drags, and drags, and drags.
Great service, quick delivery. Would use again!!!
Never again. Three weeks late, and nobody answers the phone (0800 123 456).
Two men are playing chess in the park while a dog sleeps under the bench.
The central bank left its main interest rate unchanged at 4.25 % on Thursday.
"You cannot be serious," she said, and closed the door behind her.
O Romeo, Romeo! wherefore art thou Romeo?
Photosynthesis converts light energy into chemical energy stored in glucose.
lol that was soooo funny 😂😂
日本語の文も少し
naïve café déjà-vu œuvre
a
go""".splitlines()


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder("all-MiniLM-L6-v2")


def variety(count: int) -> list[str]:
    """Texts of 1 to some 60 words, cut from the sentences above."""
    words = " ".join(TEXTS).split()
    generator = np.random.default_rng(0)
    return [" ".join(words[start : start + generator.geometric(0.08)]) for start in generator.integers(0, 190, count)]


def test_equals_sentence_transformers(encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    texts = TEXTS + variety(44)
    theirs = SentenceTransformer(str(locate("all-MiniLM-L6-v2")), device="cpu").encode(texts)
    ours = encoder.encode(texts)
    assert ours.dtype == np.float32
    assert (ours * theirs).sum(1).min() > 0.99999
    assert np.abs(ours - theirs).max() < 1e-5


def test_token_vectors_equal_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = save_static(tmp_path / "static", " ".join(TEXTS).split())
    texts = [*TEXTS, *variety(44)]
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts, normalize_embeddings=True)
    ours = Encoder(folder)
    assert np.abs(ours.encode(texts) - theirs).max() < 1e-6
    assert np.array_equal(np.concatenate([ours.encode([text]) for text in texts]), ours.encode(texts))
    assert (ours.dimensions, ours.cut) == (4, 0)
    assert not ours.encode([""]).any()


def test_vectors_have_unit_norm_and_nothing_gives_nothing(encoder: Encoder) -> None:
    assert np.abs(np.linalg.norm(encoder.encode([*TEXTS, "", "   "]), axis=1) - 1).max() < 1e-6
    assert encoder.encode([]).shape == (0, encoder.dimensions) == (0, 384)


def test_a_text_does_not_feel_its_batch(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = variety(70)
    whole = encoder.encode(texts)
    order = np.random.default_rng(1).permutation(len(texts))
    assert np.array_equal(encoder.encode([texts[i] for i in order]), whole[order])
    assert np.array_equal(encoder.encode(texts[30:45]), whole[30:45])
    assert np.array_equal(np.concatenate([encoder.encode([text]) for text in texts[:3]]), whole[:3])
    monkeypatch.setitem(bert.BLOCK, "cpu", 300)
    assert np.array_equal(encoder.encode(texts), whole)


def test_a_text_does_not_feel_the_threads(encoder: Encoder, one_thread: None) -> None:
    texts = variety(60)
    alone = encoder.encode(texts)
    torch.set_num_threads(2)
    assert np.array_equal(encoder.encode(texts), alone)


def test_bfloat16_is_near() -> None:
    texts = TEXTS[:8]
    near = (
        Encoder("all-MiniLM-L6-v2", precision="bfloat16").encode(texts) * Encoder("all-MiniLM-L6-v2").encode(texts)
    ).sum(1)
    assert near.min() > 0.999
    assert near.max() < 1 - 1e-7  # so the precision really differed


def test_long_texts_are_cut_and_counted() -> None:
    encoder = Encoder("all-MiniLM-L6-v2")
    assert encoder.window == 256
    fits, cut, longer = "go " * 254, "go " * 255, "go " * 254 + "boston " * 3000
    vectors = encoder.encode([fits, "boston", cut, longer])
    assert encoder.cut == 2
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[0], vectors[3])
    encoder.encode([cut])
    assert encoder.cut == 3


def test_needs_no_transformers() -> None:
    code = """
import sys
from epsilometer.models.encoder import Encoder
assert "torch" not in sys.modules
assert Encoder("all-MiniLM-L6-v2").encode(["go"]).shape == (1, 384)
print([name for name in ("transformers", "sentence_transformers", "sklearn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("model", ["./no-such-folder", "/no/such/folder", "a/b/c", Path("all-MiniLM")])
def test_a_path_that_is_not_there_is_refused(model: str | Path) -> None:
    with refused("EPS-N052"):
        Encoder(model)
    with refused("EPS-N052"):
        would_download(model)


def test_a_model_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with refused("EPS-C087", "nobody/nothing@v1", "epsilometer check params --fetch"):
        locate("nobody/nothing@v1")
    assert would_download("nobody/nothing@v1")
    assert not would_download("all-MiniLM-L6-v2")


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with refused("EPS-N047"):
        locate(tmp_path)


def test_an_unknown_precision_is_refused() -> None:
    with refused("EPS-N004"):
        Encoder("all-MiniLM-L6-v2", precision="float8")


@pytest.fixture(scope="module")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random RoBERTa of two layers as a sentence-transformers folder with a window of 30 tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    folder = tmp_path_factory.mktemp("roberta")
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    bpe.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>", mask_token="<mask>", model_max_length=30,
    ).save_pretrained(folder / "plain")  # fmt: skip
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=40, pad_token_id=1,
    )  # fmt: skip
    RobertaModel(config).save_pretrained(folder / "plain")
    transformer = Transformer(str(folder / "plain"))
    SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu").save(str(folder / "sentences"))
    return folder / "sentences"


def test_other_models_go_by_sentence_transformers(tiny_roberta: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = Encoder(tiny_roberta)
    texts = [*TEXTS[:12], ""]
    theirs = SentenceTransformer(str(tiny_roberta), device="cpu").encode(texts, normalize_embeddings=True)
    ours = encoder.encode(texts)
    assert not isinstance(encoder._model, _BertEncoder)
    assert np.abs(ours - theirs).max() < 1e-5
    assert encoder.dimensions == 32
    lengths = [len(ids) for ids in encoder._model.tokenizer(texts)["input_ids"]]
    assert encoder.window == 30
    assert encoder.cut == sum(length > 30 for length in lengths) > 0
    assert np.array_equal(encoder.encode(texts[::-1])[::-1], ours)
    assert np.array_equal(encoder.encode(texts[3:5]), ours[3:5])


def test_another_pooling_does_not_go_by_our_bert(tmp_path: Path) -> None:
    source = locate("all-MiniLM-L6-v2")
    for path in source.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "1_Pooling").unlink()
    (tmp_path / "1_Pooling").mkdir()
    pooling = json.loads((source / "1_Pooling" / "config.json").read_text())
    pooling |= {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS[:3])
    assert np.abs(Encoder(tmp_path).encode(TEXTS[:3]) - theirs).max() < 1e-5
    assert np.abs(Encoder(source).encode(TEXTS[:3]) - theirs).max() > 0.01


@pytest.mark.slow
def test_embeddings_of_an_audit_are_the_same_on_every_processor(tmp_path: Path) -> None:
    """Kernels without vector instructions, and those that this processor has. In float32 most last bits differ.

    Of 10^9 numbers about one may come out otherwise; here are 11,520.
    """
    texts = [f"play song {i} by the band number {i * i}" for i in range(30)]
    code = (
        "import sys, numpy as np\n"
        "from epsilometer.models.encoder import Encoder\n"
        "from epsilometer.pipeline.stages.embed import on_grid\n"
        f"np.save(sys.argv[1], on_grid(Encoder('all-MiniLM-L6-v2', 'float64').encode({texts})))\n"
    )
    plain = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    path = tmp_path / "plain.npy"
    subprocess.run([sys.executable, "-c", code, str(path)], env=os.environ | plain, cwd=ROOT, check=True)
    own = on_grid(Encoder("all-MiniLM-L6-v2", "float64").encode(texts))
    assert np.array_equal(np.load(path), own)
