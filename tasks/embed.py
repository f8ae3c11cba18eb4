"""Sentence embeddings of the audited texts."""

from epsilometer.pipeline.flows.reproduce import stage

embed = stage("embed")
