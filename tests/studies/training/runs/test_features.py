from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoModelForSequenceClassification, BertConfig

from epsilometer.core.component import EMBEDDED
from epsilometer.core.randomness import Noise
from epsilometer.models.memory import Memory, activations
from epsilometer.runtime.resuming import Parts
from epsilometer.studies.training.runs import features
from epsilometer.studies.training.runs.features import ABOUT, LAYERS, MULTIPLE, ROWS, Frozen, read, write
from epsilometer.studies.training.runs.heads import last_layers, load_last_layers
from tests.support.hub import COMMIT, hub
from tests.support.refusals import refused
from tests.support.tiny_classifiers import SAVE, save_bert_classifier, save_gpt2_classifier
from tests.support.tiny_models import save_qwen

TEXTS = ["a b c", "document of the a b c d e f g h h h h a", "d e", " a b c b", "g", "h g f e d c b a a b"]


def first_or_last(folder: Path, frozen: Frozen) -> NDArray[np.float32]:
    """The states by transformers' own network, a text at a time and without padding."""
    model: Any = AutoModel.from_pretrained(folder).eval()
    if frozen.kind == "gpt2":
        model.ln_f = torch.nn.Identity()
    place = 0 if frozen.kind == "bert" else -1
    with torch.no_grad():
        rows = [model(input_ids=torch.tensor([ids])).last_hidden_state[0, place].numpy() for ids in frozen.ids(TEXTS)]
    return np.array(rows)


@pytest.mark.parametrize("kind", [*SAVE])
def test_states_are_those_of_the_first_token_or_of_the_last_before_the_norm(kind: str, tmp_path: Path) -> None:
    folder = SAVE[kind](tmp_path)
    frozen = Frozen(folder, 12)
    states = frozen.states(TEXTS)
    assert states.shape == (len(TEXTS), frozen.width)
    np.testing.assert_allclose(states, first_or_last(folder, frozen), atol=2e-5)
    assert np.abs(states[0] - states[2]).max() > 0.05  # the texts have different states


def test_a_bert_of_another_activation_runs_by_transformers(tmp_path: Path) -> None:
    folder = save_bert_classifier(tmp_path, hidden_act="gelu_new")
    frozen = Frozen(folder, 12)
    np.testing.assert_allclose(frozen.states(TEXTS), first_or_last(folder, frozen), atol=2e-5)


def test_the_end_token_pads_as_in_the_classifier(tmp_path: Path) -> None:
    """transformers' GPT-2 classifier, padded with the end token, has the logits of the states."""
    folder = save_gpt2_classifier(tmp_path)
    frozen, end = Frozen(folder, 12), 1
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert model.config.pad_token_id is None
    model.config.pad_token_id = end
    ids = frozen.ids(TEXTS)
    width = max(map(len, ids)) + 2
    padded = torch.tensor([[*row, *[end] * (width - len(row))] for row in ids])
    with torch.no_grad():
        logits = model(input_ids=padded, attention_mask=(padded != end).long()).logits
    head = last_layers(folder).head(2, Noise.named(1, "begin"))
    np.testing.assert_allclose(head.logits(frozen.states(TEXTS)), logits, atol=2e-5)


@pytest.mark.parametrize(("kind", "config"), [("bert", {}), ("bert", {"hidden_act": "gelu_new"}), ("gpt2", {})])
def test_a_state_depends_on_its_text_alone(kind: str, config: dict[str, Any], tmp_path: Path) -> None:
    """Also where a batch happens to be full, without padding, in which transformers may leave out the mask."""
    frozen = Frozen(SAVE[kind](tmp_path, **config), 12)
    full = [" ".join(np.roll(list("abcdefgh"), i)[: 6 if kind == "bert" else 8]) for i in range(8)]
    assert set(frozen.lengths(full)[0]) == {MULTIPLE}
    assert ROWS["cpu"] == len(full)
    texts = [*full, *TEXTS]
    together = frozen.states(texts)
    np.testing.assert_array_equal(together[::-1], frozen.states(texts[::-1]))
    np.testing.assert_array_equal(together, np.concatenate([frozen.states([text]) for text in texts]))


def test_rows_follow_from_a_budget_and_are_halved_where_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on CUDA, computed on the processor: of other rows only last bits may differ."""
    frozen = Frozen(save_gpt2_classifier(tmp_path), 12)
    texts = TEXTS * 5
    whole = frozen.states(texts)
    network: Any = frozen._network
    each = 4 * activations(network._network.config, 2 * MULTIPLE)
    monkeypatch.setattr(network, "_memory", Memory("cuda", "the model", 16 * each))
    forward, sizes = network._network.forward, []

    def limited(**inputs: torch.Tensor) -> Any:
        if len(inputs["input_ids"]) > 4:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        sizes.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(network._network, "forward", limited)
    np.testing.assert_allclose(frozen.states(texts), whole, atol=1e-5)
    assert set(sizes) == {4} or set(sizes) == {2, 4}


def test_a_special_token_in_a_text_is_text(tmp_path: Path) -> None:
    frozen = Frozen(save_bert_classifier(tmp_path), 12)
    assert frozen.ids(["a [SEP] b"])[0].count(2) == 1


@pytest.mark.parametrize("kind", [*SAVE])
def test_a_killed_extraction_goes_on_to_the_same_bytes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "BLOCK", 2)
    frozen = Frozen(SAVE[kind](tmp_path / "model"), 12)
    splits = {"train": TEXTS, "test": TEXTS[:3], "empty": []}
    folder = tmp_path / "features"
    write(frozen, splits, folder / "whole", Parts(tmp_path / "other"))
    texts_asked: list[str] = []

    class Killed(Exception):
        pass

    class Mortal(Frozen):
        left = 2

        def states(self, texts: Any) -> NDArray[np.float32]:
            if not self.left:
                raise Killed
            self.left -= 1
            texts_asked.extend(texts)
            return super().states(texts)

    for _ in range(2):
        mortal = Mortal(frozen.folder, 12)
        with pytest.raises(Killed):
            write(mortal, splits, folder / "resumed", Parts(tmp_path / "begun"))
    assert not (folder / "resumed" / "test.npy").exists()
    write(frozen, splits, folder / "resumed", Parts(tmp_path / "begun"))
    assert len(texts_asked) == 2 * 2 * 2
    assert sorted(texts_asked[:6]) == sorted(TEXTS)  # the second run resumed where the first ended
    names = {path.name for path in (folder / "whole").iterdir()}
    assert names == {"train.npy", "test.npy", LAYERS, ABOUT} == {p.name for p in (folder / "resumed").iterdir()}
    for name in names:
        assert (folder / "whole" / name).read_bytes() == (folder / "resumed" / name).read_bytes()


def test_a_folder_of_features_says_what_it_is(tmp_path: Path) -> None:
    frozen = Frozen(save_gpt2_classifier(tmp_path / "model"), 12)
    folder = tmp_path / "features" / "mine"
    write(frozen, {"train": TEXTS, "test": TEXTS[:1]}, folder, Parts(tmp_path / "begun"))
    about = json.loads((folder / ABOUT).read_text())
    assert about["splits"] == {"train": {"texts": 6, "cut": 1}, "test": {"texts": 1, "cut": 0}}
    assert (about["kind"], about["width"], about["length"]) == ("gpt2", 32, 12)
    assert about["tensors"] == ["score.weight", "transformer.ln_f.bias", "transformer.ln_f.weight"]
    np.testing.assert_array_equal(read(folder, "train"), frozen.states(TEXTS))
    noise = Noise.named(1, "begin")
    head = load_last_layers(folder / LAYERS).head(2, noise)
    np.testing.assert_array_equal(head.vector, last_layers(frozen.folder).head(2, noise).vector)
    with refused("EPS-T002"):
        read(folder, "validation")


@pytest.mark.parametrize("kind", [*SAVE])
@pytest.mark.parametrize("text", ["", "  \t "])
def test_a_text_of_no_tokens_is_refused_before_any_work(kind: str, text: str, tmp_path: Path) -> None:
    frozen = Frozen(SAVE[kind](tmp_path / "model"), 12)
    with refused("EPS-T045", "1"):
        frozen.states(["a", text])
    with refused("EPS-T045", "6"):
        write(
            frozen, {"train": TEXTS, "test": [*TEXTS, text]}, tmp_path / "features" / "mine", Parts(tmp_path / "begun")
        )
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


@pytest.mark.parametrize(("kind", "least"), [("bert", 3), ("gpt2", 1)])
def test_a_length_that_the_model_cannot_read_is_refused(kind: str, least: int, tmp_path: Path) -> None:
    folder = SAVE[kind](tmp_path)
    Frozen(folder, least)
    for length in (least - 1, 65):
        with refused("EPS-T044", "length", str(least), "64", str(length)):
            Frozen(folder, length)


def test_a_model_without_what_is_needed_is_refused_by_name(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    with refused("EPS-T014"):
        Frozen(save_qwen(tmp_path / "qwen"), 12)
    folder = save_gpt2_classifier(tmp_path / "gpt2")
    tensors = load_file(folder / "model.safetensors")
    del tensors["transformer.h.1.mlp.c_fc.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with refused("EPS-T005"):
        Frozen(folder, 12)
    (folder / "tokenizer.json").unlink()
    with refused("EPS-T047"):
        Frozen(folder, 12)
    folder = save_bert_classifier(tmp_path / "bert")
    config = BertConfig.from_pretrained(folder).to_dict() | {"position_embedding_type": "relative_key"}
    (folder / "config.json").write_text(json.dumps(config))
    with refused("EPS-T003"):
        Frozen(folder, 12)


@pytest.mark.parametrize("kind", [*SAVE])
def test_a_model_is_named_by_folder_pin_or_id(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub is asked once, for the pinned revision; what it gives is read like any folder."""
    folder = SAVE[kind](tmp_path / "made")
    pin = tmp_path / "pin.json"
    pin.write_text(json.dumps({"model": "someone/small", "revision": COMMIT}))
    noise = Noise.named(1, "begin")
    states, head = Frozen(folder, 12).states(TEXTS), last_layers(folder).head(2, noise)
    with hub(tmp_path / "cache", monkeypatch) as served:
        served.add("models/someone/small", folder)
        for name in (pin, f"someone/small@{COMMIT}"):
            np.testing.assert_array_equal(Frozen(name, 12).states(TEXTS), states)
            np.testing.assert_array_equal(last_layers(name).head(2, noise).vector, head.vector)
    assert [name for name, _ in served.requests].count("model.safetensors") == 1


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", str(EMBEDDED / "minilm-paraphraser")])
def test_the_embedded_bert_and_gpt2_are_read(model: str) -> None:
    """The classifier that transformers builds of the whole model, with the same last layers, has the same losses."""
    frozen, layers = Frozen(model, 24), last_layers(model)
    assert len(layers.tensors) == 2  # a pooler or a norm, without a classifier
    head = layers.head(3, Noise.named(1, "begin"))
    texts = ["The room was cold, and the waiter rude.", "Lovely!", "We shall come back " * 10]
    whole: Any = AutoModelForSequenceClassification.from_pretrained(frozen.folder, num_labels=3, dtype=torch.float32)
    report = whole.load_state_dict({n: torch.from_numpy(t) for n, t in head.parameters.items()}, strict=False)
    assert not report.unexpected_keys
    with torch.no_grad():
        logits = torch.cat([whole.eval()(input_ids=torch.tensor([ids])).logits for ids in frozen.ids(texts)])
    np.testing.assert_allclose(head.logits(frozen.states(texts)), logits, atol=1e-4)


def test_a_checkpoint_of_the_first_berts_is_read(tmp_path: Path) -> None:
    """bert-base-uncased calls its norms' weights gamma and beta; a norm's name begins no head."""
    from safetensors.numpy import load_file, save_file

    folder = save_bert_classifier(tmp_path)
    states, layers = Frozen(folder, 12).states(TEXTS), last_layers(folder)
    tensors = load_file(folder / "model.safetensors")
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    assert older.keys() != tensors.keys()
    save_file(older, folder / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(Frozen(folder, 12).states(TEXTS), states)
    assert last_layers(folder).tensors.keys() == layers.tensors.keys()


def test_a_checkpoint_in_bfloat16_is_read(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_gpt2_classifier(tmp_path)
    exact = last_layers(folder).tensors
    tensors = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert np.isfinite(Frozen(folder, 12).states(TEXTS)).all()
    for name, tensor in last_layers(folder).tensors.items():
        np.testing.assert_allclose(tensor, exact[name], rtol=2**-8)


def test_a_gpt2_without_prefixes_is_read(tmp_path: Path) -> None:
    """As gpt2 of the hub names its tensors: h.0..., ln_f.weight."""
    from safetensors.numpy import load_file, save_file

    folder = save_gpt2_classifier(tmp_path)
    states, layers = Frozen(folder, 12).states(TEXTS), last_layers(folder)
    tensors = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items() if "score" not in name}
    save_file(bare, folder / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(Frozen(folder, 12).states(TEXTS), states)
    norm = {name for name in layers.tensors if "ln_f" in name}
    assert last_layers(folder).tensors.keys() == norm
    assert len(norm) == 2
