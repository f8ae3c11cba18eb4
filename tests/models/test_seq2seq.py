from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from epsilometer.core.component import EMBEDDED
from epsilometer.models.beam_search import beam_search
from epsilometer.models.bounds import bounds
from epsilometer.models.embedded import seq2seq
from epsilometer.models.locate import locate
from epsilometer.models.seq2seq import Seq2Seq, assemble
from epsilometer.models.teaching import save
from epsilometer.pipeline.stages import model as stage
from tests.support import tiny_models
from tests.support.refusals import refused

SOURCE = EMBEDDED / "minilm-seq2seq"
TEXTS = ["a b c", "d", "e f g h a b c d e f g h", "h h", "", "b a", "c c c c", "g f e", "a h"]


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    return Seq2Seq(seq2seq())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Seq2Seq:
    return Seq2Seq(tiny_models.save_bart(tmp_path_factory.mktemp("bart")))


def test_assembled_model_is_an_ordinary_one(model: Seq2Seq) -> None:
    """Loaded by transformers without a missing weight; the encoder is the sentence encoder, the decoder was trained."""
    from transformers import AutoModelForSeq2SeqLM

    network, report = AutoModelForSeq2SeqLM.from_pretrained(model.folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ours = {name: part.numpy() for name, part in network.state_dict().items()}
    encoder = load_file(locate("all-MiniLM-L6-v2") / "model.safetensors")
    layers = json.loads((SOURCE / "config.json").read_text())["encoder_layers"]
    assert network.config.encoder.num_hidden_layers == layers
    name = f"encoder.layer.{layers - 1}.output.dense.weight"
    assert np.array_equal(ours[f"encoder.{name}"], encoder[name])
    assert np.array_equal(
        ours["decoder.bert.embeddings.word_embeddings.weight"], encoder["embeddings.word_embeddings.weight"]
    )
    for name, part in load_file(SOURCE / "decoder.safetensors").items():
        assert np.array_equal(ours[f"decoder.{name}"], part.astype(np.float32)), name
    bias = load_file(SOURCE / "decoder.safetensors")["cls.predictions.bias"]
    assert set(model.outputs) == set(np.flatnonzero(bias > -29)) - set(model.tokenizer.all_special_ids) | {model.end}
    assert bounds(model.folder) == bounds(SOURCE)
    assert (model.window, model.width) == (512, 384)


def test_embedded_model_copies_what_it_reads(model: Seq2Seq) -> None:
    texts = ["show me the flights from boston to denver", "the staff were rude"]
    ids, mask = model.padded(texts, 20)
    copies = beam_search(model, model.states(ids, mask), 20)
    assert "flights" in copies[0].split()
    assert "staff" in copies[1].split()


def test_padded_texts(small: Seq2Seq) -> None:
    ids, mask = small.padded(TEXTS, 6)
    assert ids[0].tolist() == [8, 9, 10, 1, 0, 0]
    assert ids[2].tolist() == [12, 13, 14, 15, 8, 1]  # truncated, with the end token
    assert ids[4].tolist() == [1, 0, 0, 0, 0, 0]
    assert (mask == (np.arange(6) < mask.sum(1)[:, None])).all()
    assert mask.sum(1).tolist() == [4, 2, 6, 3, 1, 3, 5, 4, 3]


def test_states_and_beams_equal_transformers_one_by_one(small: Seq2Seq) -> None:
    ids, mask = small.padded(TEXTS, 6)
    states = small.states(ids, mask)
    assert states.shape == (9, 6, 32)
    assert torch.equal(small.states(ids[[7, 2]], mask[[7, 2]]), states[[7, 2]])  # independent of the rest of the batch
    noisy = states + 0.3 * torch.from_numpy(np.random.default_rng(0).normal(size=states.shape)).float()
    texts = beam_search(small, noisy, 6)
    from transformers.modeling_outputs import BaseModelOutput

    for i in (0, 2, 4):
        with torch.inference_mode():
            alone = small.network.get_encoder()(
                input_ids=torch.tensor(ids[i : i + 1]), attention_mask=torch.tensor(mask[i : i + 1])
            ).last_hidden_state
            written = small.network.generate(
                encoder_outputs=BaseModelOutput(last_hidden_state=noisy[i : i + 1]), num_beams=3, max_new_tokens=6,
                do_sample=False, early_stopping=True,
            )  # fmt: skip
        assert torch.allclose(states[i], alone[0], atol=1e-5)
        assert texts[i] == small.text(written[0].numpy())


@pytest.mark.parametrize("own_head", [True, False])
def test_a_t5_has_the_head_of_its_checkpoint(tmp_path: Path, own_head: bool) -> None:
    """Of version 1.1, FLAN-T5 say: a head of its own, unscaled. Of version 1: the word embeddings, scaled by d^-1/2.

    config.json is as on the hub, where it says `tie_word_embeddings: false` or nothing; a folder that is written anew
    after training says it otherwise.
    """
    folder = tiny_models.save_t5(tmp_path / "t5")
    weights, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    assert "lm_head.weight" not in weights
    embeddings = weights["shared.weight"]
    head = np.random.default_rng(0).normal(size=embeddings.shape).astype(np.float32) if own_head else embeddings
    if own_head:
        save_file(weights | {"lm_head.weight": head}, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {
        key: value for key, value in config.items() if key not in ("tie_word_embeddings", "scale_decoder_outputs")
    }
    settings |= {"tie_word_embeddings": False} if own_head else {}
    (folder / "config.json").write_text(json.dumps(settings))
    prompts = np.array([[8, 9, 10, 1], [12, 13, 14, 1]])
    save(Seq2Seq(folder), tmp_path / "again")
    for place in (folder, tmp_path / "again"):
        model = Seq2Seq(place)
        logits, _ = model.read(prompts)
        with torch.inference_mode():
            network = model.network
            inputs = {"input_ids": torch.from_numpy(prompts), "decoder_input_ids": torch.full((2, 1), model.start)}
            whole = network(**inputs).logits[:, 0].numpy()
            hidden = network.encoder(input_ids=inputs["input_ids"]).last_hidden_state
            last = network.decoder(input_ids=inputs["decoder_input_ids"], encoder_hidden_states=hidden)[0][:, 0].numpy()
        expected = (last if own_head else last * 32**-0.5) @ head.T
        assert np.allclose(whole, expected, rtol=0, atol=1e-5)
        assert np.allclose(logits, expected[:, model.outputs], rtol=0, atol=1 / 2048 + 1e-5)  # rounded to 1/1024
        other = (last * 32**-0.5 if own_head else last) @ embeddings.T
        assert np.abs(other - expected).max() > 1


def test_a_decoder_of_another_encoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((SOURCE / "config.json").read_text())
    save_file({"bert.encoder.layer.99.output.dense.bias": np.zeros(2, np.float32)}, tmp_path / "decoder.safetensors")
    with refused("EPS-N065"):
        assemble(tmp_path, locate("all-MiniLM-L6-v2"), tmp_path / "out")
    weights = load_file(SOURCE / "decoder.safetensors")
    name = "bert.encoder.layer.1.output.dense.bias"
    save_file({key: part for key, part in weights.items() if key != name}, tmp_path / "decoder.safetensors")
    with refused("EPS-N065"):
        assemble(tmp_path, locate("all-MiniLM-L6-v2"), tmp_path / "out")


@pytest.mark.parametrize("kind", ["decoder", "folder", "pin"])
def test_the_stage_makes_a_folder_with_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tiny_models.save_t5(tmp_path / commit)
    stated = {"low": -1.0, "high": 2.0, "measured_on": "public text"}
    pin = tmp_path / "pin.json"
    pin.write_text(json.dumps({"model": "someone/t5", "revision": commit, **stated}))
    if kind == "folder":
        (folder / "bounds.json").write_text(json.dumps(stated))
    monkeypatch.setattr("epsilometer.models.locate._download", lambda name: folder)
    source = {"decoder": SOURCE, "folder": folder, "pin": pin}[kind]

    class Params:
        models = {"it": str(source)}  # noqa: RUF012

        def path(self, name: str) -> str:
            return name

    monkeypatch.setattr(stage, "read", Params)
    monkeypatch.chdir(tmp_path)
    stage.main("it")
    target = Path("data/models/it")
    assert bounds(target) == (bounds(SOURCE) if kind == "decoder" else (-1.0, 2.0))
    assert len(Seq2Seq(target).tokens(["a"])[0]) >= 2
    monkeypatch.setattr(Params, "models", {"it": str(tmp_path)})
    with refused("EPS-P038"):
        stage.main("it")
