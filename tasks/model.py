"""A model that mechanisms read, assembled or fetched."""

from epsilometer.pipeline.flows.reproduce import stage

model = stage("model")
