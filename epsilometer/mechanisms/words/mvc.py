"""MVC, calibrated multivariate perturbations (Feyisetan, Balle, Drake and Diethe, WSDM 2020, algorithm 1).

In plain words it adds random noise to the meaning of each word, and writes the word nearest to the result.

The vector x of each word, of d dimensions, is moved by noise of density ~ exp(-epsilon ||z||), and the word nearest to
the moved point is written:

    z = r g / ||g||,    g ~ N(0, I_d),    r ~ Gamma(d, 1 / epsilon),    y = argmin_w ||x + z - w||.

The densities of x + z and x' + z differ by at most e^(epsilon ||x - x'||), and finding the nearest word is
post-processing. The noise is about d / epsilon long: in hundreds of dimensions it needs an epsilon of that order. It is
continuous, so no law can be computed.

Assumptions: epsilon belongs to a word; distances are Euclidean, of the raw vectors; texts are neighbours if they have
equally many words; the vocabulary is public.

Departures: the nearest word is exact (the reference code, sjmeis/MLDP 65a9eb8, searches approximately), and a word
outside the vocabulary, which the reference code passes unchanged, becomes a fixed word first (`shared/vocabulary.py`).
"""

from __future__ import annotations

from epsilometer.core.component import component
from epsilometer.mechanisms.words.shared.moved import MovedWords


@component
class MVC(MovedWords):
    """The MVC mechanism, with the settings of every mechanism on word vectors."""
