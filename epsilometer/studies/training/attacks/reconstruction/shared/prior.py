"""The prior log probability of a text by a masked language model.

The prior is the pseudo-log-likelihood sum_t ln p(x_t | all other tokens) (Salazar, Liang, Nguyen and Kirchhoff, ACL
2020). Its terms are the conditional probabilities that Gibbs sampling would use. It ranks texts but is not normalised
over them, so a posterior with this prior is only approximate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.models.fill_mask import FillMask
from epsilometer.studies.training.runs.shared_model import SharedModel

UNSPEAKABLE = -30.0  # nats: log probability of a token that the model never predicts, such as the unknown token


class Prior(FillMask):
    """A masked language model whose vocabulary is that of the model under attack."""

    def check(self, model: SharedModel) -> None:
        """Raise UserError if the model under attack has another vocabulary."""
        own, other = self._tokenizer.get_vocab(), model.tokenizer.get_vocab()
        if own != other:
            raise UserError(
                f"the vocabulary of the masked language model in {self._folder} ({len(own)} tokens) differs from that "
                f"of the attacked model ({len(other)}); set `prior` to a model with the same tokeniser, or to null for "
                "none",
                "EPS-A034",
            )

    def laws(self, ids: Sequence[int], vocabulary: int) -> NDArray[np.float64]:
        """Return the log probability [T, vocabulary] of every token at each position given the text's other tokens.

        ids: the text's T tokens without special tokens; vocabulary: the size of the vocabulary.
        """
        masked = [self._input([*ids[:i], self._frame.mask, *ids[i + 1 :]], i) for i in range(len(ids))]
        laws = np.full((len(ids), vocabulary), UNSPEAKABLE)
        for rows, some in self._laws(masked):
            laws[np.ix_(rows, self.output_ids)] = np.maximum(some, UNSPEAKABLE)
        return laws
