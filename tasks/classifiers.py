"""Classifiers trained on clean texts, the static attackers among them, and the majority baseline."""

from epsilometer.pipeline.flows.reproduce import stage

classifiers = stage("classifiers")
