"""Parameters' resources on the hub: listed with sizes, fetched by one command, and sufficient for all later steps."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import torch

from epsilometer.cli import main as cli
from epsilometer.models.locate import hub_id
from epsilometer.pipeline import expected
from epsilometer.pipeline.downloads import downloads, fetch, packaged, repositories
from epsilometer.pipeline.expected import PUBLISHED, parameters
from epsilometer.pipeline.params import read
from epsilometer.runtime import packages
from tests.support import tiny_models
from tests.support.hub import COMMIT, Hub, hub
from tests.support.places import ROOT
from tests.support.wheels import only_folder, pin, write_pin, write_wheel

PARAMS = f"""
audit: {{seed: 0}}
datasets:
  queries: {{source: queries.json}}
embedding: {{model: nobody/encoder@{COMMIT}}}
trials: {{count: 100}}
words: {{sources: {{minilm: words.json}}}}
models: {{paraphraser: words.json}}
cells: {{queries-constant: {{dataset: queries, mechanism: constant}}}}
attacks:
  judge: {{model: nobody/judge@{COMMIT}}}
  embedding: {{model: nobody/encoder@{COMMIT}}}
mechanisms: {{}}
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.chdir(tmp_path)
    Path("queries.json").write_text(json.dumps({"dataset": "nobody/queries", "revision": COMMIT}))
    Path("words.json").write_text(json.dumps({"model": "nobody/words", "revision": COMMIT}))
    Path("params.yaml").write_text(PARAMS)
    out = io.BytesIO()
    pl.DataFrame({"text": ["a b", "c d", "e f"]}).write_parquet(out)
    with hub(tmp_path / "cache", monkeypatch) as server:
        server.files["datasets/nobody/queries"] = {"train.parquet": out.getvalue()}
        server.add("models/nobody/words", tiny_models.save_gpt2(tmp_path / "gpt2"))
        server.files["models/nobody/encoder"] = server.files["models/nobody/words"]
        server.files["models/nobody/judge"] = server.files["models/nobody/words"]
        yield server


def call(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        cli(list(arguments))
    return int(str(done.value.code))


def test_everything_is_listed_once_fetched_and_then_here(served: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"data set nobody/queries@{COMMIT}"]
    names += [f"model nobody/{name}@{COMMIT}" for name in ("encoder", "words", "judge")]
    assert [str(repository) for repository in repositories(read())] == names
    assert call("check", "params", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["downloads"] == names
    assert {row["size"] for row in shown["hub"]} == {"known once fetched"}
    assert call("check", "params", "--fetch") == 0
    assert "file 1 of" in capsys.readouterr().err
    assert call("check", "params") == 0
    out = capsys.readouterr().out
    assert out.count(" here\n") == 4
    assert "fetch" not in out
    assert "attack judge: nobody/judge on cpu" in out
    assert "assumed: 30%" in out
    assert all(download.here and download.size == download.state.here for download in downloads(read()))


def test_what_cannot_be_had_is_said_after_all_else_has_come(served: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    served.gated.add("models/nobody/encoder")
    served.files["models/nobody/words"] = {"config.json": b"{}", "model.pt": b"pickle"}
    assert call("check", "params", "--fetch") == 2
    err = capsys.readouterr().err
    assert f"model nobody/encoder@{COMMIT} is gated" in err
    assert "not in safetensors" in err
    assert [download.here for download in downloads(read())] == [True, False, False, True]
    served.gated.clear()


@pytest.mark.parametrize("profile", ["paper", "training_paper", "anonymize_paper"])
def test_the_profiles_name_what_they_fetch(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    every = repositories(read(f"profiles/{profile}.yaml"))
    assert every
    assert all(download.revision and len(download.revision) == 40 for download in every)


def architectures() -> dict[str, torch.nn.Module]:
    """The published architectures without numbers in them."""
    import transformers as t

    flan = t.T5Config(d_model=768, d_ff=2048, num_layers=12, num_heads=12, feed_forward_proj="gated-gelu")
    eight = {"num_key_value_heads": 8, "num_attention_heads": 32}
    with torch.device("meta"):
        return {
            "roberta-base": t.RobertaForMaskedLM(
                t.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
            ),
            "google/flan-t5-base": t.T5ForConditionalGeneration(flan),
            "facebook/bart-base": t.BartForConditionalGeneration(
                t.BartConfig(vocab_size=50265, d_model=768, encoder_layers=6, decoder_layers=6, encoder_ffn_dim=3072,
                             decoder_ffn_dim=3072, encoder_attention_heads=12, decoder_attention_heads=12)
            ),
            "sentence-transformers/all-mpnet-base-v2": t.MPNetModel(
                t.MPNetConfig(vocab_size=30527, max_position_embeddings=514)
            ),
            "Qwen/Qwen3-8B": t.Qwen3ForCausalLM(
                t.Qwen3Config(vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36,
                              head_dim=128, tie_word_embeddings=False, **eight)
            ),
            "meta-llama/Llama-3.2-1B-Instruct": t.LlamaForCausalLM(
                t.LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                              head_dim=64, tie_word_embeddings=True, **eight)
            ),
            "google-bert/bert-base-uncased": t.BertForMaskedLM(t.BertConfig()),
            "openai-community/gpt2": t.GPT2LMHeadModel(t.GPT2Config()),
        }  # fmt: skip


def test_published_parameters_are_those_of_the_architectures() -> None:
    counted = {
        name: sum(parameter.numel() for parameter in network.parameters()) for name, network in architectures().items()
    }
    counted["google/flan-t5-base"] += 32128 * 768  # an untied head, which this configuration ties
    assert counted == {name: count for name, (count, _) in PUBLISHED.items()}


def test_parameters_of_a_model_that_is_here(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = tiny_models.save_qwen(tmp_path / "qwen")
    network = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False, use_safetensors=True)
    assert parameters(folder) == sum(parameter.numel() for parameter in network.parameters())


def test_expectations_follow_their_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 10^12 operations a second: 2 P n / (.3 10^12)."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(expected, "_rate", lambda device, size: 1e12)
    params = read("profiles/paper.yaml")
    rows = {row.what: row for row in expected.expected(params)}
    count, _ = PUBLISHED["Qwen/Qwen3-8B"]
    budgets = sum(len(cell.budgets) for cell in params.cells.values())
    assert rows["attack judge"].seconds == pytest.approx(2 * count * 10_000 * budgets * 512 / 0.3e12)
    assert rows["attack judge"].weights == (2 if rows["attack judge"].device == "cuda" else 4) * count
    count, _ = PUBLISHED["roberta-base"]
    assert rows["atis-dp_mlm"].seconds == pytest.approx(2 * count * 10_000 * 10 * 64 / 0.3e12)
    assert rows["atis-dp_mlm"].weights == 4 * count
    count, _ = PUBLISHED["openai-community/gpt2"]
    trained = {row.what: row for row in expected.expected(read("profiles/training_paper.yaml"))}
    assert trained["features imdb-gpt2"].seconds == pytest.approx(2 * count * 22_500 * 256 / 0.3e12)
    assert not [what for what in trained if what.startswith("private_training")]  # heads need hardly any memory
    assert {hub_id(row.model)[0] for row in rows.values()} <= {*PUBLISHED, "data/embedded/models/minilm-paraphraser"}


def test_a_network_that_is_trained_is_passed_forward_and_back_at_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """6 P n, for 5 epochs, 3 seeds and 7 levels; its features are token ids, which need no model."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(expected, "_rate", lambda device, size: 1e12)
    params = read("profiles/training_paper.yaml")
    ids = params.features["imdb-gpt2"].model_copy(update={"what": "tokens"})
    cell = params.private_training["imdb-gpt2-gaussian"].model_copy(update={"trains": ("transformer.h.11", "score")})
    changes = {"features": {"imdb-gpt2": ids}, "private_training": {"last": cell}, "references": {}, "membership": {}}
    rows = {row.what: row for row in expected.expected(params.model_copy(update=changes))}
    count, _ = PUBLISHED["openai-community/gpt2"]
    assert rows["private_training last"].seconds == pytest.approx(6 * count * 22_500 * 256 * 5 * 3 * 7 / 0.3e12)
    assert "features imdb-gpt2" not in rows


OF_A_PACKAGE = """
audit: {seed: 0}
datasets: {notes: {source: texts.csv}}
embedding: {model: all-MiniLM-L6-v2}
trials: {count: 100}
words: {sources: {}}
cells: {notes-presidio: {dataset: notes, mechanism: presidio, settings: {pipeline: names.json}}}
attacks: {lexical: {}}
mechanisms: {}
"""


def test_the_packages_of_mechanisms_are_listed_and_fetched_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads several files of a wheel would ask for a network in the midst of a run."""
    only_folder(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    files = {"small_talk/names/config.cfg": b"a", "small_talk/names/ner/model": b"bc"}
    sha256 = write_wheel(tmp_path, files)
    write_pin(tmp_path / "names.json", pin(sha256, file="small_talk/names/config.cfg", unpacked=3))
    Path("texts.csv").write_text("text\nhello there\n")
    Path("params.yaml").write_text(OF_A_PACKAGE)
    (before,) = packaged(read("params.yaml"))
    assert (before.pin.name, before.content, before.whole) == ("small-talk", None, True)
    fetch(read("params.yaml"))
    (after,) = packaged(read("params.yaml"))
    assert (after.licence, after.size) == ("MIT", 3)
    assert (packages.folder(after.pin) / "ner/model").read_bytes() == b"bc"
