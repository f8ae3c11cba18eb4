"""Generated reviews of shops and services, to start with."""

from epsilometer.corpora.synthetic import generate

__all__ = ["generate"]
