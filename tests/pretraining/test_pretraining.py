"""Training of the embedded models: bit-exact resuming, float16, loading by other libraries, and refusals."""

from __future__ import annotations

import json
import lzma
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from pretraining import __main__ as pretrain
from pretraining import texts, vocabulary
from pretraining.corruption import corrupt, words
from pretraining.deberta import Deberta
from pretraining.guidance import astray
from pretraining.judge import Judge
from pretraining.paraphraser import Paraphraser
from pretraining.seq2seq import Seq2Seq
from pretraining.training import Progress, train
from tests.support.places import ROOT
from tests.support.sparing import first

RECIPES = {"seq2seq": Seq2Seq, "judge": Judge, "paraphraser": Paraphraser, "deberta": Deberta}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 1,500 made lines and pairs."""
    folder = tmp_path_factory.mktemp("made")
    draw = np.random.default_rng(0)
    nouns, verbs = (
        ["cat", "dog", "bird", "child", "teacher", "farmer", "baker", "friend"],
        ["sees", "likes", "hears", "follows", "helps", "calls"],
    )
    rows = [
        [f"the {draw.choice(nouns)} {draw.choice(verbs)} a {draw.choice(nouns)} {n}" for _ in range(2)]
        for n in range(1500)
    ]
    (folder / "corpus.txt").write_text("".join(f"{row[0]}\n" for row in rows))
    (folder / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return folder


def recipe(name: str, corpus: Path, start: Path | None = None) -> Any:
    torch.manual_seed(0)
    return RECIPES[name](corpus / "corpus.txt", corpus / "pairs.tsv", corpus / "cache", start, "cpu", 60)


@pytest.mark.parametrize(
    "name", [name if name == "deberta" else pytest.param(name, marks=pytest.mark.slow) for name in RECIPES]
)
def test_a_run_that_was_cut_ends_in_the_same_weights(name: str, corpus: Path, tmp_path: Path) -> None:
    def weights(stops: list[int], checkpoint: Path) -> dict[str, torch.Tensor]:
        for stop in stops:
            made_here = recipe(name, corpus)
            done = train(made_here, checkpoint, name, 0, Progress(), lambda p, stop=stop: p.steps >= stop)
            assert done.steps == stop
        return made_here.module.state_dict()

    whole, cut = weights([3], tmp_path / "whole"), weights([1, 3], tmp_path / "cut")
    assert all(torch.equal(part, cut[key]) for key, part in whole.items())
    begin = recipe(name, corpus).module.state_dict()
    assert any(not torch.equal(part, begin[key]) for key, part in whole.items())


@pytest.mark.parametrize("name", ["judge", "paraphraser", "deberta"])
def test_saved_models_are_half_precision_and_load_by_the_auto_classes(name: str, corpus: Path, tmp_path: Path) -> None:
    import transformers

    saved = recipe(name, corpus)
    saved.save(tmp_path)
    assert {part.dtype for part in load_file(tmp_path / "model.safetensors").values()} == {torch.float16}
    auto = "AutoModelForMaskedLM" if name == "deberta" else "AutoModelForCausalLM"
    model, report = getattr(transformers, auto).from_pretrained(tmp_path, output_loading_info=True, dtype=torch.float32)
    assert not report["missing_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.is_fast
    ends = ["[CLS]", "the", "cat"] + ["[SEP]"] * (name == "deberta")
    assert tokenizer.convert_ids_to_tokens(tokenizer("The cat")["input_ids"]) == ends
    ids = tokenizer("the cat sees a dog", return_tensors="pt")
    with torch.inference_mode():
        here = saved.module.eval()(ids["input_ids"]).logits
        assert torch.allclose(model(ids["input_ids"]).logits, here, atol=0.05)
    stored = set((corpus / "cache").iterdir())
    again = recipe(name, corpus, start=tmp_path)  # training can also continue from it, on the stored texts
    assert torch.isfinite(again.loss(np.random.default_rng(0))[0])
    assert set((corpus / "cache").iterdir()) == stored


@pytest.mark.slow
def test_the_decoder_is_what_the_embedded_encoder_decoder_is_assembled_from(corpus: Path, tmp_path: Path) -> None:
    from transformers import EncoderDecoderModel

    from epsilometer.models.locate import locate
    from epsilometer.models.seq2seq import assemble

    saved = recipe("seq2seq", corpus)
    saved.save(tmp_path)
    stored = load_file(tmp_path / "decoder.safetensors")
    assert {part.dtype for part in stored.values()} == {torch.float16}
    assert not any("word_embeddings" in name for name in stored)
    assemble(tmp_path, locate("all-MiniLM-L6-v2"), tmp_path / "whole")
    model = EncoderDecoderModel.from_pretrained(tmp_path / "whole").eval()
    assert model.config.encoder.num_hidden_layers == 3
    source = torch.tensor([[101, 1996, 4937, 102]])
    with torch.inference_mode():
        there = model(source, decoder_input_ids=source[:, :2]).logits
        states = saved.encoder(source).last_hidden_state
        here = saved.module.eval()(source[:, :2], encoder_hidden_states=states).logits
    assert torch.allclose(there, here, atol=0.05)
    assert torch.isfinite(recipe("seq2seq", corpus, start=tmp_path).loss(np.random.default_rng(0))[0])


def test_the_task_writes_a_record_and_goes_on(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretrain, "_device", lambda: ("cpu", "test"))
    monkeypatch.setattr(pretrain, "TOKENS", {"cpu": 60})
    command = [
        "--corpus",
        str(corpus / "corpus.txt"),
        "--pairs",
        str(corpus / "pairs.tsv"),
        "--only",
        "deberta",
        "--minutes",
        "0.01",
    ]
    records = []
    for _ in range(2):
        pretrain.main(*command)
        records.append(json.loads((tmp_path / "data/embedded/models/deberta/training.json").read_text()))
    first, second = records
    assert 0 < first["steps"] < second["steps"]
    assert 0 < first["tokens"] < second["tokens"]
    assert second["minutes"].keys() == {"test"}
    assert second["seed"] == 0
    assert second["held_out"].keys() == {"masked_top1", "masked_top5", "pieces"}


def test_held_out_pieces_count_as_likeliest_or_among_five(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each four pieces one is the likeliest of ten entries, one the fifth, one the sixth, and one the last."""
    ranked = torch.arange(10.0, 0.0, -1.0).repeat(4, 1)
    model = recipe("deberta", corpus)
    monkeypatch.setattr(model, "_masked", lambda rows, generator: (ranked, torch.tensor([0, 4, 5, 9]), len(rows)))
    quality = model.quality()
    assert (quality["masked_top1"], quality["masked_top5"]) == (0.25, 0.5)
    assert quality["pieces"] == 4 * math.ceil(len(model._held) / 20)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--only", "gpt5"], "--only .*minilm-seq2seq, judge, .*'gpt5'"),
        (["--minutes", "0"], "--minutes .* 0$"),
        (["--minutes", "-1"], "--minutes .* -1$"),
        (["--corpus", "absent.txt"], r"absent\.txt .*\.txt\.xz"),
        (["--pairs", "absent.tsv"], r"absent\.tsv .*\.tsv\.xz"),
    ],
)
def test_what_the_task_refuses(
    words: list[str], named: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretrain, "_device", lambda: ("cpu", "test"))
    files = ["--corpus", str(corpus / "corpus.txt"), "--pairs", str(corpus / "pairs.tsv")]
    with pytest.raises(UserError, match=named):
        pretrain.main(*files, *words)
    assert not (tmp_path / "data/embedded").exists()


def test_files_are_read_in_their_format_only(corpus: Path, tmp_path: Path) -> None:
    tokenizer = vocabulary.full()
    packed = tmp_path / "corpus.txt.xz"
    packed.write_bytes(lzma.compress((corpus / "corpus.txt").read_bytes()))
    for left, other in zip(
        texts.read(packed, 1, tokenizer, tmp_path),
        texts.read(corpus / "corpus.txt", 1, tokenizer, tmp_path),
        strict=True,
    ):
        assert np.array_equal(left.columns[0].values, other.columns[0].values)
    for content, columns, named in (
        (b"one column\n", 2, "bad, line 1: 1 "),
        (b"a\tb\tc\n", 2, "bad, line 1: 3 "),
        (b"\xff\xfe\n", 1, "bad .*UnicodeDecodeError"),
        (b"too few texts\n", 1, "bad .* 3 to 64 "),
    ):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(UserError, match=named):
            texts.read(tmp_path / "bad", columns, tokenizer, tmp_path)


def test_no_held_out_text_is_trained_on(corpus: Path, tmp_path: Path) -> None:
    train_rows, held = texts.read(corpus / "corpus.txt", 1, vocabulary.full(), tmp_path)
    seen = {train_rows[i][0].tobytes() for i in range(len(train_rows))}
    assert len(train_rows) + len(held) == 1500
    assert len(held) >= 2
    assert not any(held[i][0].tobytes() in seen for i in range(len(held)))


def test_the_small_vocabulary_spells_every_word() -> None:
    tokenizer = vocabulary.frequent(["the cat sat on the mat"] * 3, pieces=700)
    base = vocabulary.full()
    assert tokenizer.encode("The cat", add_special_tokens=False).tokens == ["the", "cat"]
    spelt = tokenizer.encode("zebra", add_special_tokens=False).tokens
    assert "".join(piece.removeprefix("##") for piece in spelt) == "zebra"
    assert len(spelt) > len(base.encode("zebra", add_special_tokens=False).tokens)
    assert np.array_equal(vocabulary.continues(tokenizer).sum(), sum(p.startswith("##") for p in tokenizer.get_vocab()))
    narrow = vocabulary.embeddings(tokenizer, 32)
    assert narrow.shape == (tokenizer.get_vocab_size(), 32)
    assert narrow.norm(dim=1).mean().item() == pytest.approx(1.0)


def test_corruption_keeps_count_of_places() -> None:
    """Expected shares are met within five standard deviations: false alarm below 1e-6."""
    units, draw = [[i] for i in range(10_000)], np.random.default_rng(0)
    same, places = corrupt(units, draw, lambda: [-1])
    assert same == units
    assert places == list(range(10_000))
    changed, places = corrupt(units, draw, lambda: [-1], replace=0.5, delete=0.2, shuffle=4.0)
    assert len(places) == pytest.approx(8000, abs=5 * 40)
    assert sum(unit == [-1] for unit in changed) == pytest.approx(len(changed) / 2, abs=5 * 45)
    assert all(unit in ([-1], [place]) for unit, place in zip(changed, places, strict=True))
    moved = np.abs(np.argsort(np.argsort(places)) - np.arange(len(places)))
    assert 0 < moved.max() <= 4
    assert len(corrupt(units[:3], draw, lambda: [-1], delete=1.0)[0]) == 1
    assert words(np.array([5, 6, 7, 8]), np.array([False] * 6 + [True, False, False])) == [[5, 6], [7], [8]]


def test_guidance_is_the_lost_share_of_attention() -> None:
    attention = torch.tensor([[[[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]])
    places = torch.tensor([[[True, False, False], [False, False, False]]])
    assert astray(attention, [0], places).item() == pytest.approx(np.log(2))
    assert astray(attention, [1], places).item() == pytest.approx(0.0)
    assert astray(attention, [0, 1], places).item() == pytest.approx(np.log(2) / 2)
    assert astray(attention, [0], torch.zeros_like(places)).item() == 0.0


def test_the_judge_is_trained_on_the_prompt_that_it_will_be_asked() -> None:
    from transformers import PreTrainedTokenizerFast

    from epsilometer.attacks.identification.shared.judge_prompt import characters, plain, plain_ids
    from pretraining.judge import frame

    backend = vocabulary.frequent(["rewrite answer the cat sees a dog"], pieces=700)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="[CLS]")
    for count in (2, 4, 16):
        texts = ["the cat", *["a dog"] * count]
        fixed = frame(vocabulary.frequent(["rewrite answer the cat sees a dog"], pieces=700), count)
        built = [*fixed[0]]
        for text, part in zip(texts, fixed[1:], strict=True):
            built += [*backend.encode(text, add_special_tokens=False).ids, *part]
        assert built == plain_ids(tokenizer, plain(texts[0], texts[1:], characters(count)))


def test_trials_are_about_the_row_that_they_were_made_from(corpus: Path) -> None:
    judge = recipe("judge", corpus)
    draw = Noise.named(1, "test").generator(0)
    rows = judge._lines.spread(40)
    trials = judge._trials(rows, judge._lines, draw, 3, 0.0)
    for row, trial in zip(rows, trials, strict=True):
        assert trial.rewrite == row[0].tolist() == trial.candidates[trial.target]
        assert len(trial.candidates) == 3
    assert {trial.target for trial in trials} == {0, 1, 2}


EMBEDDED = ROOT / "data/embedded/models"


def test_embedded_weights_are_small_and_have_their_records() -> None:
    sizes = {
        folder.name: sum(p.stat().st_size for p in folder.iterdir()) / 2**20
        for folder in EMBEDDED.iterdir()
        if folder.is_dir()
    }
    assert max(sizes.values()) < 20, sizes
    assert sum(sizes.values()) < 90, sizes
    for name in pretrain.MODELS:
        record = json.loads((EMBEDDED / name / "training.json").read_text())
        assert record.keys() >= {"steps", "tokens", "minutes", "seed", "held_out"}, name
        assert (EMBEDDED / name / "README.md").is_file()


@pytest.mark.parametrize(("count", "right"), first(1, [(2, 85), (16, 50)]))
def test_the_embedded_judge_sees_through_half_of_the_words(count: int, right: int) -> None:
    """Made texts, fixed draws: a judge that guesses is right in so many of 100 trials with probability below 1e-12."""
    from epsilometer.attacks.identification.shared.judge_model import JudgeModel
    from epsilometer.corpora.synthetic import generate

    lines = list(generate("reviews", 400, 1)["text"])
    draw = Noise.named(1, "test").generator(0)
    spare = [word for line in lines for word in line.split()]
    questions, targets = [], draw.integers(count, size=100)
    for target in targets:
        candidates = [lines[i] for i in draw.choice(len(lines), count, replace=False)]
        rewrite = [str(draw.choice(spare)) if draw.random() < 0.5 else word for word in candidates[target].split()]
        questions.append((" ".join(rewrite), candidates))
    scores, _ = JudgeModel(EMBEDDED / "judge").scores(questions)
    assert 100 * (np.argmax(scores, axis=1) == targets).mean() >= right
