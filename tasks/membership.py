"""Who was in a training set, by every attack on every model of a cell."""

from epsilometer.pipeline.flows.reproduce import stage

membership = stage("membership")
