"""Train a classifier of any kind on examples, or load a saved one."""

from __future__ import annotations

from pathlib import Path

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.file_names import listed
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import KINDS, LINEAR, TRANSFORMER, Classifier, Examples, FineTuning, read_about


def train(
    kind: str, examples: Examples, settings: FineTuning, noise: Noise, validation: Examples | None = None
) -> Classifier:
    """Return a classifier trained on these examples.

    noise: one stream of random numbers for the whole training. validation: texts whose loss selects the best of several
    epochs; without these texts, the last epoch is used. Raises UserError for an unknown kind, for examples of only one
    class, for fewer examples than a transformer's batch, and for validation texts of a class without examples.
    """
    if kind not in KINDS:
        raise unknown("kind of classifier", kind, KINDS)
    classes = sorted({*examples.labels})
    if len(classes) < 2:
        raise UserError(
            f"a classifier needs examples of at least 2 classes, got {listed(classes, 'class')}; leave "
            "this label out, or give texts of another class",
            "EPS-N018",
        )
    if validation is not None and (strange := sorted({*validation.labels} - {*classes})):
        raise UserError(
            f"the validation texts have {listed(strange, 'class')}, but the training texts do not; give training texts "
            "of every class",
            "EPS-N019",
        )
    if kind == TRANSFORMER:
        from epsilometer.models.classifiers.transformer import fine_tune

        return fine_tune(examples, classes, settings, noise, validation=validation)
    if kind == LINEAR:
        from epsilometer.models.classifiers.linear import Linear

        return Linear.fit(examples)
    from epsilometer.models.classifiers.encoder import EncoderHead

    return EncoderHead.fit(examples)


def load(folder: Path | str) -> Classifier:
    """Return the classifier saved in a folder. Raises UserError if it is missing or damaged."""
    about = read_about(Path(folder))
    kind = about["kind"]
    if kind == TRANSFORMER:
        from epsilometer.models.classifiers.transformer import Transformer

        return Transformer.load(Path(folder), about)
    if kind == LINEAR:
        from epsilometer.models.classifiers.linear import Linear

        return Linear.load(Path(folder), about)
    from epsilometer.models.classifiers.encoder import EncoderHead

    return EncoderHead.load(Path(folder), about)
