"""Attributions of many texts beside one call of captum a text, in one run, with one fine-tuned classifier.

`steps` are those before any doubling. `same words`: the share of texts in which the same words have a positive score as
with the most steps, which is all that a search takes from them. Seconds are the processor's, which other programs
disturb less than the wall clock's.

usage: python -m benchmarks.attributions [--texts N] [--label gender]
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch

from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.anonymisers.shared.attribution import Attribution, attributions
from epsilometer.mechanisms.anonymisers.shared.integrated_gradients import MOST_STEPS
from epsilometer.models.classifier import TRANSFORMER, Classifier, Examples, FineTuning, train
from epsilometer.models.embedded import weights

TRAINED_ON, SEED = 2600, 1
TRAINING = FineTuning(str(weights("deberta")), rate=0.001, batch=8, longest=128)


def one_call_a_text(classifier: Any, texts: Sequence[str]) -> None:
    """As captum's tutorial does it: a text alone, 50 steps at once, and the difference to completeness."""
    from captum.attr import LayerIntegratedGradients

    network, tokenizer = classifier.network, classifier.tokenizer
    gradients = LayerIntegratedGradients(
        lambda ids, mask: network(input_ids=ids, attention_mask=mask).logits, network.get_input_embeddings()
    )
    for text in texts:
        encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
        ids, mask = encoded["input_ids"], encoded["attention_mask"]
        baselines = torch.where(encoded["special_tokens_mask"] == 1, ids, tokenizer.pad_token_id)
        with torch.inference_mode():
            target = int(network(input_ids=ids, attention_mask=mask).logits.argmax())
        scores, _ = gradients.attribute(
            ids, baselines=baselines, target=target, additional_forward_args=mask, return_convergence_delta=True
        )
        scores.sum(-1)


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and the processor's seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def positive(scores: Sequence[Mapping[str, float]]) -> list[set[str]]:
    """The words that count towards the predicted class."""
    return [{word for word, score in of_text.items() if score > 0} for of_text in scores]


def main() -> None:
    """Print a row a way and number of steps."""
    parser = ArgumentParser()
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--label", default="gender")
    asked = parser.parse_args()
    reviews = generate("reviews", TRAINED_ON + asked.texts, SEED)
    known, texts = reviews.head(TRAINED_ON), reviews.tail(asked.texts)["text"].to_list()
    examples = Examples(known["text"].to_list(), known[asked.label].cast(pl.String).to_list())
    classifier: Classifier = train(TRANSFORMER, examples, TRAINING, Noise.named(1, SEED, "benchmark"))
    one_call_a_text(classifier, texts[:2])
    _, plain = seconds(lambda: one_call_a_text(classifier, texts))
    exact = attributions(classifier, texts, Attribution(steps=MOST_STEPS))
    rows = [("one call a text", 50, plain / len(texts), 1.0, None, None)]
    for steps in (50, 25, 12, 6):
        ours, spent = seconds(lambda steps=steps: attributions(classifier, texts, Attribution(steps=steps)))
        same = [a == b for a, b in zip(positive(ours.scores), positive(exact.scores), strict=True)]
        rows.append(
            (
                "many texts",
                steps,
                spent / len(texts),
                plain / spent,
                float(np.mean(same)),
                float(ours.incomplete.mean()),
            )
        )
    columns = ["way", "steps", "seconds a text", "ratio", "same words", "incomplete"]
    print(pl.DataFrame(rows, columns, orient="row"))


if __name__ == "__main__":
    main()
