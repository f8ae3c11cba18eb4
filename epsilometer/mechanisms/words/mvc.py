"""MVC, calibrated multivariate perturbations (Feyisetan, Balle, Drake and Diethe, WSDM 2020, algorithm 1).

In plain words it adds random noise to the meaning of each word, and writes the word nearest to the result.

The vector x of each word, of d dimensions, is moved by noise z of density ~ exp(-epsilon ||z||), and the word y nearest
to the moved point is written:

    z = r g / ||g||,    g ~ N(0, I_d),    r ~ Gamma(d, 1 / epsilon),    y = argmin_w ||x + z - w||.

The densities of x + z and x' + z differ by a factor of at most e^(epsilon ||x - x'||), and finding the nearest word is
post-processing. The length of the noise is about d / epsilon, so useful outputs in hundreds of dimensions need an
epsilon of the order of d. The law of y is an integral over the noise, which is not computed.

Assumptions: the claim is per word; distances are Euclidean, between the raw vectors; texts are neighbours if they have
the same number of words; the vocabulary is public.

Departures: the nearest word is exact, whereas the reference code (sjmeis/MLDP 65a9eb8) searches approximately. The
reference code leaves out-of-vocabulary words unchanged; here they are first replaced by a fixed word
(`shared/vocabulary.py`).
"""

from __future__ import annotations

from epsilometer.core.component import component
from epsilometer.mechanisms.words.shared.moved import MovedWords


@component
class MVC(MovedWords):
    """The MVC mechanism, with the settings of every mechanism on word vectors."""
