"""The judge by likelihood: its scores equal those of one pass per pair, and it distinguishes easy pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.identification.paraphrase import ParaphraseAttack
from epsilometer.core.attack import Context, guess_and_score
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.dp_prompt import prompt
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.tiny_judges import TEXTS, save_model

EASY = [  # texts and their paraphrases; other texts serve as candidates
    ("show me the flights from boston to denver on monday morning", "which planes go from boston to denver on monday"),
    ("play some jazz by miles davis", "put on a jazz record by miles davis"),
    ("what is the weather like in paris tomorrow", "tell me tomorrow's weather in paris"),
    ("set an alarm for seven in the morning", "wake me with an alarm at seven"),
    ("my dog loves to run in the park", "in the park my dog likes running"),
    ("i have been studying for my math test all night", "all night i studied for a test in math"),
    ("we went hiking in the mountains last weekend", "last weekend we hiked in the mountains"),
    ("the pizza at that restaurant was really good", "that restaurant makes really good pizza"),
    ("do you have any brothers or sisters", "how many brothers and sisters do you have"),
    ("i want to travel to japan next summer", "next summer i would like to visit japan"),
]


def context(texts: list[str], trials: int) -> Context:
    return Context(texts, None, 1.0, Noise.named(trials, "test"))


def hits(attack: ParaphraseAttack, times: int) -> int:
    """Right guesses on every text with several other texts as the second candidate, in both orders."""
    texts, rows = [text for text, _ in EASY], []
    for i in range(len(EASY)):
        for step in range(1, times + 1):
            rows.append([i, (i + step) % len(EASY)] if step % 2 else [(i + step) % len(EASY), i])
    candidates = np.array(rows)
    source = np.repeat(np.arange(len(EASY)), times)
    rewrites = Rewrites([EASY[i][1] for i in source])
    (guesses,) = guess_and_score(attack, [rewrites], candidates, [context(texts, len(rows))])
    return int((candidates[np.arange(len(rows)), guesses.slots] == source).sum())


@pytest.mark.parametrize("template", [True, False])
def test_scores_are_those_of_one_pass_for_each_pair(tmp_path: Path, template: bool) -> None:
    """One string at a time, by transformers alone, over the tokens that can be drawn."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = save_model(tmp_path, template=template)
    attack = ParaphraseAttack(model=str(folder))
    candidates = np.array([[0, 1], [2, 3]])
    rewrites = Rewrites(["jazz on monday", "weather in boston"])
    (scores,) = attack.score_grid([rewrites], candidates, [context(TEXTS, 2)])
    tokeniser, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    outputs = attack._network.outputs
    for row, text in enumerate(rewrites.texts):
        for slot in range(2):
            written = prompt(TEXTS[candidates[row, slot]])
            if template:
                written = tokeniser.apply_chat_template(
                    [{"role": "user", "content": written}],
                    tokenize=False,
                    add_generation_prompt=True,
                    enable_thinking=False,
                )
            head = tokeniser(written, add_special_tokens=False)["input_ids"]
            tail = [*tokeniser(text, add_special_tokens=False)["input_ids"], tokeniser.eos_token_id]
            with torch.inference_mode():
                logits = model(torch.tensor([head + tail])).logits[0, len(head) - 1 : -1]
            logs = logits[:, outputs].double().log_softmax(-1)
            alone = sum(float(logs[i, np.searchsorted(outputs, token)]) for i, token in enumerate(tail))
            assert scores[row, slot] == pytest.approx(alone, abs=0.02)


def test_epsilons_and_equal_pairs_share_their_scores(tmp_path: Path) -> None:
    attack = ParaphraseAttack(model=str(save_model(tmp_path)))
    candidates = np.array([[0, 1], [1, 0]])
    output = Rewrites(["some jazz", "some jazz"])
    first, second = attack.score_grid([output, output], candidates, [context(TEXTS, 2)] * 2)
    assert (first == second).all()
    assert (first[0] == first[1][::-1]).all()


def test_a_rewrite_longer_than_the_window_is_truncated_and_a_candidate_refused(tmp_path: Path) -> None:
    attack = ParaphraseAttack(model=str(save_model(tmp_path, positions=256)))
    (scores,) = attack.score_grid([Rewrites(["jazz " * 400])], np.array([[0, 1]]), [context(TEXTS, 1)])
    assert np.isfinite(scores).all()
    with refused("EPS-A209", "256"):
        attack.score_grid([Rewrites(["jazz"])], np.array([[0, 1]]), [context(["a " * 400, "b"], 1)])


def test_the_embedded_model_tells_easy_pairs_apart() -> None:
    """By chance 24 of 30 are right with a probability of 7e-4."""
    assert hits(ParaphraseAttack(), 3) >= 24


@pytest.mark.slow
def test_a_small_published_model_tells_all_easy_pairs_apart() -> None:
    try:
        attack = ParaphraseAttack(model=str(ROOT / "profiles/packages/smollm2.json"))
        attack._network  # noqa: B018
    except UserError as error:
        pytest.skip(f"needs the package and the library gguf: {error}")
    assert hits(attack, 3) == 30
