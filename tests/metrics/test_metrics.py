"""Metrics of similarity: values computed by hand, empty and extreme texts, and the table that they make."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray

import epsilometer
from epsilometer.auditing.worth.similarity import measure, metric
from epsilometer.metrics.bertscore import BertScore
from epsilometer.metrics.bleu import Bleu, corpus
from epsilometer.metrics.changed import Changed
from epsilometer.metrics.cosine import Cosine
from epsilometer.metrics.grammaticality import Grammaticality
from epsilometer.metrics.jaccard import Jaccard
from epsilometer.metrics.levenshtein import Levenshtein
from epsilometer.metrics.meteor import Meteor
from epsilometer.metrics.part_of_speech import PartOfSpeech
from epsilometer.metrics.perplexity import Perplexity
from epsilometer.metrics.rouge_l import RougeL
from epsilometer.models.encoder import Encoder
from epsilometer.models.memory import Memory
from epsilometer.pipeline.params import read
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.tiny_models import save_gpt2, save_tokenizer

# Pairs at the ends: (empty rewrite), (empty original), (nothing at all), (one word), (emoji are no words).
ENDS = [("play a song", ""), ("", "play a song"), ("", ""), ("play", "Play!"), ("🙂", "🚀 ?"), ("play", "stop")]
BEFORE, AFTER = [a for a, _ in ENDS], [b for _, b in ENDS]


def of(metric: Any, original: str, rewrite: str) -> float:
    return float(metric.measure([original], [rewrite])[0])


def test_levenshtein_by_hand() -> None:
    # "the cat the dog" -> "the cat sat": 7 edits, 15 and 11 characters.
    assert of(Levenshtein(), "The cat, the dog!", "the cat sat") == pytest.approx(1 - 7 / 15)
    assert Levenshtein().measure(BEFORE, AFTER)[:5].tolist() == [0, 0, 1, 1, 1]


def test_jaccard_by_hand() -> None:
    assert of(Jaccard(), "The cat, the dog!", "the cat sat") == 2 / 4
    assert of(Jaccard(), "a b c d", "d c x x") == 2 / 5
    assert Jaccard().measure(BEFORE, AFTER).tolist() == [0, 0, 1, 1, 1, 0]


def test_changed_words_by_hand() -> None:
    assert of(Changed(), "a b c d", "a x c d") == 1 / 4
    assert of(Changed(), "a b c d", "new a b c d") == 1 / 5  # one insertion, although every word has a new position
    assert of(Changed(), "a b c d", "c d") == 2 / 4
    assert of(Changed(), "a b c", "x y") == 1
    assert Changed().measure(BEFORE, AFTER).tolist() == [1, 1, 0, 0, 0, 1]


def test_bleu_by_hand() -> None:
    # 1-grams 4 of 5, 2-grams 3 of 4, 3-grams 2 of 3, 4-grams 1 of 2; six words in the reference, five written.
    reference, rewrite = "the cat sat on the mat", "the cat sat on mats"
    expected = math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert of(Bleu(), reference, rewrite) == pytest.approx(expected)
    assert of(Bleu(), "play a song", "PLAY a song.") == pytest.approx(1)  # effective order, without 4-grams
    assert Bleu().measure(BEFORE, AFTER).tolist() == pytest.approx([0, 0, 1, 1, 1, 0])


def test_corpus_bleu_sums_counts_before_dividing() -> None:
    before = ["the cat sat on the mat", "a b c d e"]
    after = ["the cat sat on mats", "a b c d e"]
    expected = math.exp(1 - 11 / 10) * (9 / 10 * 7 / 8 * 5 / 6 * 3 / 4) ** 0.25
    assert corpus(before, after) == pytest.approx(expected)
    assert corpus(before, after) != pytest.approx(Bleu().measure(before, after).mean(), abs=0.01)
    assert corpus(before, before) == 1


def test_rouge_l_by_hand() -> None:
    # The longest common subsequence is "police the gunman": 3 of 4 and 3 of 5 words (Lin 2004 has 3 of 4 twice).
    assert of(RougeL(), "police killed the gunman", "police kill the old gunman") == pytest.approx(2 * 3 / (4 + 5))
    assert of(RougeL(), "Ærø für die Gäste", "ærø FÜR alle gäste") == pytest.approx(3 / 4)  # letters beyond ASCII
    assert RougeL().measure(BEFORE, AFTER).tolist() == [0, 0, 1, 1, 1, 0]


def test_meteor_by_hand() -> None:
    def expected(matches: int, written: int, reference: int, chunks: int) -> float:
        precision, recall = matches / written, matches / reference
        return precision * recall / (0.9 * precision + 0.1 * recall) * (1 - 0.5 * (chunks / matches) ** 3)

    assert of(Meteor(), "the cats sat down", "the cat sat") == pytest.approx(expected(3, 3, 4, 1))  # cats by stem
    assert of(Meteor(), "a b c d", "c d a b") == pytest.approx(expected(4, 4, 4, 2))
    assert of(Meteor(), "buy a car", "buy an automobile") == pytest.approx(expected(1, 3, 3, 1))  # no synonyms
    assert Meteor().measure(BEFORE, AFTER).tolist() == [0, 0, 1, 0.5, 1, 0]  # a single word scores at most a half


def test_cosine_is_that_of_the_encoder() -> None:
    texts = ["play a song", "play some music", ""]
    vectors = Encoder("all-MiniLM-L6-v2").encode(texts).astype(float)
    cosines = Cosine().measure([texts[0], texts[0], texts[2]], [texts[1], texts[0], texts[0]])
    np.testing.assert_allclose(cosines, [vectors[0] @ vectors[1], 1, vectors[2] @ vectors[0]], atol=1e-6)


def test_known_vectors_are_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["play a song", "rain in france", ""]
    expected, metric = Cosine().measure(texts, texts[::-1]), Cosine()
    metric.remembered.update(zip(texts, Encoder(metric.model).encode(texts), strict=True))
    monkeypatch.setattr(Encoder, "encode", None)  # any use would fail
    np.testing.assert_array_equal(metric.measure(texts, texts[::-1]), expected)


def test_bertscore_by_its_definition() -> None:
    """Against greedy matching of transformers' own token states: [CLS] and [SEP] are matched but weigh nothing."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from epsilometer.models.locate import locate

    folder = locate("all-MiniLM-L6-v2")
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    original, rewrite = "Play a song by the band.", "music by a band, please"

    def states(text: str) -> NDArray[np.float64]:
        with torch.inference_mode():
            last = network(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return torch.nn.functional.normalize(last.double(), dim=-1).numpy()

    similar = states(original) @ states(rewrite).T
    recall, precision = similar.max(axis=1)[1:-1].mean(), similar.max(axis=0)[1:-1].mean()
    metric = BertScore()
    assert of(metric, original, rewrite) == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-5)
    scores = metric.measure([*BEFORE, original, "x"], [*AFTER, original, "x" * 10_000 + " y" * 1000])
    assert scores[:3].tolist() == [0, 0, 1]
    assert scores[6] == pytest.approx(1, abs=1e-5)
    assert np.isfinite(scores).all()


def test_bertscore_takes_fewer_texts_where_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    metric, sizes = BertScore(), []
    texts = [" ".join(words) for words in itertools.product(["old", "new"], ["dog", "cat", "cow"], ["barks", "ran"])]
    whole = metric.measure(texts, texts[::-1])
    monkeypatch.setitem(metric.__dict__, "_memory", Memory("cuda", "the model", 1 << 30))
    score = metric._scorer.score

    def limited(*pairs: list[str], batch_size: int) -> Any:
        sizes.append(batch_size)
        if batch_size > 4:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return score(*pairs, batch_size=batch_size)

    monkeypatch.setattr(metric._scorer, "score", limited)
    np.testing.assert_allclose(metric.measure(texts, texts[::-1]), whole, atol=1e-5)
    assert sizes == [64, 32, 16, 8, 4]


def test_bertscore_refuses_what_the_library_would_misread(tmp_path: Path) -> None:
    with refused("EPS-M097", "7"):
        of(BertScore(layer=7), "a", "b")
    folder = save_gpt2(tmp_path / "not5")
    (folder.rename(tmp_path / "bt5x"))
    with refused("EPS-M095", "t5"):
        of(BertScore(model=str(tmp_path / "bt5x")), "a", "b")


def test_parts_of_speech_by_hand() -> None:
    metric = PartOfSpeech()
    tags = metric.tags(["the old dog barked loudly", "The old dog barked, loudly!"])
    assert [*tags.values()] == [["DET", "ADJ", "NOUN", "VERB", "ADV"]] * 2
    assert of(metric, "the old dog barked loudly", "the young cat slept quietly") == 1
    # One of five words is removed, and the tags of the others do not change.
    assert of(metric, "the old dog barked loudly", "the dog barked loudly") == pytest.approx(1 - 1 / 5)
    assert metric.measure(BEFORE, AFTER)[:5].tolist() == [0, 0, 1, 1, 1]
    assert of(metric, "dog " * 200, "dog " * 200 + "dog") == pytest.approx(1 - 1 / 201, abs=0.05)  # in runs of 60 words


def test_perplexity_is_e_to_the_mean_loss(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = save_gpt2(tmp_path)
    text, ids = "a b c the", [1, 8, 9, 10, 6]  # begins with </s>, the tokeniser's only special token
    with torch.inference_mode():
        logits = AutoModelForCausalLM.from_pretrained(folder).eval()(torch.tensor([ids])).logits[0].double()
    possible = [i for i in range(17) if i not in (0, 2)]  # <pad> and <unk> are never put out
    loss = [-logits[t][possible].log_softmax(-1)[possible.index(token)].item() for t, token in enumerate(ids[1:])]
    metric = Perplexity(model=str(folder))
    assert of(metric, "whatever", text) == pytest.approx(
        math.exp(np.mean(loss)), rel=2e-3
    )  # logits on a grid of 1/1024
    values = metric.measure([""] * 4, [text, "", "🙂", "a " * 500])
    assert np.isnan(values).tolist() == [False, True, True, False]


def test_the_embedded_model_finds_sentences_likelier_than_their_words_shuffled() -> None:
    texts = ["what time does the train leave for the city", "the city leave what train for does time the"]
    whole, shuffled = Perplexity().measure(texts, texts)
    assert 1 < whole < shuffled / 2


def test_grammaticality_is_the_probability_of_the_acceptable_class(tmp_path: Path) -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    def saved(name: str, labels: int, **more: Any) -> str:
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=17, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
            max_position_embeddings=66, pad_token_id=0, num_labels=labels, **more,
        )  # fmt: skip
        model = BertForSequenceClassification(config).eval()
        model.classifier.weight.data.normal_()
        model.save_pretrained(tmp_path / name)
        save_tokenizer(tmp_path / name, closes=True)
        with torch.inference_mode():
            logits.append(model(torch.tensor([[8, 9, 1]])).logits[0].double().softmax(-1))
        return str(tmp_path / name)

    logits: list[Any] = []
    usual = saved("usual", 2)
    named = saved("named", 2, id2label={0: "acceptable", 1: "unacceptable"}, label2id={"acceptable": 0})
    rewrites = ["a b", "", "a b " * 300, "the c d e f"]
    values = Grammaticality(model=usual).measure(rewrites, rewrites)
    assert values[0] == pytest.approx(logits[0][1].item(), abs=1e-5)
    assert np.isnan(values).tolist() == [False, True, False, False]
    assert of(Grammaticality(model=named), "", "a b") == pytest.approx(logits[1][0].item(), abs=1e-5)
    with refused("EPS-M099", "3"):
        of(Grammaticality(model=saved("three", 3)), "", "a b")
    with refused("EPS-C014", "model"):
        metric("grammaticality", {})


# ------------------------------------------------------------------------------------------------------- tables


class Counting:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.questions = 0

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        self.questions += len(originals)
        return np.array([np.nan if not b else len(a) - len(b) for a, b in zip(originals, rewrites, strict=True)])


def test_equal_pairs_are_measured_once_and_nothing_is_null() -> None:
    counting = Counting()
    table = measure(["aa", "a", "aa", "a"], ["b", "b", "b", ""], {"length": counting})
    assert table["length"].to_list() == [1, 0, 1, None]
    assert counting.questions == 3
    assert measure([], [], {"length": counting}).shape == (0, 1)


def test_a_token_of_a_megabyte_is_cut() -> None:
    table = epsilometer.similarity(["x" * 1_000_000, "play a song"], ["x" * 999_999 + "y", "y" * 1_000_000])
    assert table.null_count().row(0) == (0,) * 7
    assert table["changed"].to_list() == [0, 1]  # the texts are equal in the first 10,000 characters


def test_the_call_gives_a_row_a_pair() -> None:
    table = epsilometer.similarity(["play a song", "one two"], ["play a tune", ""], metrics=["jaccard", Counting()])
    assert table.columns == ["jaccard", "Counting"]
    assert table.rows() == [(0.5, 0), (0, None)]
    cheap = epsilometer.similarity(["play a song"], ["play a song"])
    assert cheap.columns == ["cosine", "levenshtein", "jaccard", "changed", "bleu", "rouge_l", "meteor"]
    assert cheap.row(0) == pytest.approx((1, 1, 1, 0, 1, 1, 1 - 0.5 / 27))


@pytest.mark.parametrize(
    ("originals", "rewrites", "metrics", "refusal"),
    [
        (["a"], ["b", "c"], ["jaccard"], ("EPS-A195", "1", "2")),
        ("a", ["b"], ["jaccard"], ("EPS-A194", "originals")),
        (["a"], [None], ["jaccard"], ("EPS-A194", "rewrites")),
        (["a"], ["b"], ["jacard"], ("EPS-C022", "jacard", "jaccard")),
        (["a"], ["b"], ["bleu", "bleu"], ("EPS-C019", "bleu")),
        (["a"], ["b"], ["grammaticality"], ("EPS-C014", "utility.metrics.grammaticality", "model")),
    ],
)
def test_bad_calls_are_refused(originals: Any, rewrites: Any, metrics: Any, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        epsilometer.similarity(originals, rewrites, metrics)


def test_settings_name_metrics_beside_the_cosine(tmp_path: Path) -> None:
    written = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    path = tmp_path / "params.yaml"
    written["utility"] = {"metrics": {"bleu": None, "bertscore": {"layer": 5}}}
    path.write_text(yaml.safe_dump(written))
    assert read(path).utility.metrics == {"bleu": {}, "bertscore": {"layer": 5}}
    written["utility"] = {"metrics": {"cosine": {}}}
    path.write_text(yaml.safe_dump(written))
    with refused("EPS-P060"):
        read(path)


def test_a_metric_that_returns_too_little_is_refused() -> None:
    class One:
        def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
            return np.ones(1)

    with refused("EPS-A196", "one", "1", "2"):
        measure(["a", "b"], ["c", "d"], {"one": One()})
