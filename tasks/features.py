"""The states of a frozen model, one for each text, that heads are trained on."""

from epsilometer.pipeline.flows.reproduce import stage

features = stage("features")
