"""The exponential mechanism on the clipped cosine of word vectors: PrivRewrite's token sanitiser (McSherry and Talwar).

In plain words it replaces each word by another, chosen at random and most often similar to it.

    P(y | x) ~ exp(epsilon u(x, y) / (2 Delta)),    u(x, y) = max(0, cos(x, y)),    Delta = 1

(McSherry and Talwar, FOCS 2007; PrivRewrite, Applied Sciences 15(22) 11930, phase 1). u is in [0, 1], so weight and
normaliser each differ by a factor of at most e^(epsilon / 2) between any two words x and x'. So P(y | x) <= e^epsilon
P(y | x').

Assumptions: the claim is per word, and holds between any two words, near or far; texts are neighbours if they have the
same number of words; the vocabulary is public, and every word of it can replace every word.
"""

from __future__ import annotations

from epsilometer.core.component import component
from epsilometer.mechanisms.words.shared.cosine import CosineMechanism


@component
class Exponential(CosineMechanism):
    """The exponential mechanism, with the settings of all mechanisms on word vectors. Vectors have length 1 here."""
