"""The loss that a mechanism's law proves between pairs of texts, without trials."""

from epsilometer.pipeline.flows.reproduce import stage

exact = stage("exact")
