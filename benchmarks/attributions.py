"""Speed of attributions of many texts, compared with one call of captum per text, with one fine-tuned classifier.

captum is timed twice: with 50 steps, and with the same check of completeness and doubling of steps as this project.
`ratio` compares with the first of these. `steps` is the number of steps before any doubling. `same words` is the share
of texts in which the same words have a positive score as with the largest number of steps; a search uses only these
words. `same order` is the share of texts in which their order is the same, too. Seconds are processor time, which other
programs disturb less than wall-clock time. The accuracy of the classifier is printed first, since attributions of a
classifier that has learnt nothing are meaningless.

usage: python -m benchmarks.attributions [--texts N] [--label gender]
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import torch

from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.anonymisers.shared.attribution import Attribution, attributions
from epsilometer.mechanisms.anonymisers.shared.integrated_gradients import MOST_STEPS, PUBLISHED_STEPS, STEPS
from epsilometer.models.classifier import TRANSFORMER, Classifier, Examples, FineTuning
from epsilometer.models.classifiers.by_kind import train
from epsilometer.models.embedded import weights
from epsilometer.models.logits import GRID

TRAINED_ON, SEED = 2600, 1
TRAINING = FineTuning(str(weights("deberta")), rate=0.0003, batch=8, longest=128)


def one_call_a_text(classifier: Any, texts: Sequence[str], most: int = PUBLISHED_STEPS) -> None:
    """Compute attributions as in captum's tutorial, one text at a time.

    most: the number of steps, initially 50, is doubled up to this while completeness is missed by more than 5 %.
    """
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
        steps, missed, allowed = PUBLISHED_STEPS, np.inf, 0.0
        while steps <= most and missed > allowed:
            scores, delta = gradients.attribute(
                ids,
                baselines=baselines,
                target=target,
                additional_forward_args=mask,
                n_steps=steps,
                return_convergence_delta=True,
            )
            missed = abs(float(delta))
            allowed = max(Attribution().tolerance * abs(float(scores.sum() - delta)), 1 / GRID)
            steps *= 2
        scores.sum(-1)


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of `work`, and its processor time in seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def positive(scores: Sequence[Mapping[str, float]]) -> list[list[str]]:
    """Return the words of each text with a positive score, by falling score."""
    return [
        [word for word, score in sorted(of_text.items(), key=lambda pair: -pair[1]) if score > 0] for of_text in scores
    ]


def main() -> None:
    """Print one row per way and number of steps."""
    parser = ArgumentParser()
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--label", default="gender")
    options = parser.parse_args()
    reviews = generate("reviews", TRAINED_ON + options.texts, SEED)
    parts = (reviews.head(TRAINED_ON), reviews.tail(options.texts))
    texts = parts[1]["text"].to_list()
    examples, others = (
        Examples(part["text"].to_list(), part[options.label].cast(pl.String).to_list()) for part in parts
    )
    classifier: Classifier = train(TRANSFORMER, examples, TRAINING, Noise.named(1, SEED, "benchmark"))
    said = classifier.probabilities(texts).argmax(axis=1)
    right = np.mean([classifier.classes[i] == label for i, label in zip(said, others.labels, strict=True)])
    print(f"accuracy {right:.2f} on these {len(texts)} texts, {torch.get_num_threads()} threads")
    one_call_a_text(classifier, texts[:2])
    _, plain = seconds(lambda: one_call_a_text(classifier, texts))
    _, doubled = seconds(lambda: one_call_a_text(classifier, texts, MOST_STEPS))
    exact = positive(attributions(classifier, texts, Attribution(steps=MOST_STEPS)).scores)
    rows: list[tuple[Any, ...]] = [("one call a text", PUBLISHED_STEPS, plain / len(texts), 1.0, None, None, None)]
    rows.append(("one call a text, doubled", PUBLISHED_STEPS, doubled / len(texts), plain / doubled, None, None, None))
    for steps in (PUBLISHED_STEPS, STEPS):
        ours, spent = seconds(partial(attributions, classifier, texts, Attribution(steps=steps)))
        pairs = list(zip(positive(ours.scores), exact, strict=True))
        words, order = np.mean([(set(a) == set(b), a == b) for a, b in pairs], axis=0).tolist()
        missed = float(ours.incomplete.mean())
        rows.append(("many texts", steps, spent / len(texts), plain / spent, words, order, missed))
    columns = ["way", "steps", "seconds a text", "ratio", "same words", "same order", "incomplete"]
    with pl.Config(tbl_cols=-1, tbl_width_chars=160, fmt_str_lengths=30):
        print(pl.DataFrame(rows, columns, orient="row"))


if __name__ == "__main__":
    main()
