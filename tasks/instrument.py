"""The instrument's own check, randomised response on two texts."""

from epsilometer.pipeline.flows.reproduce import stage

instrument = stage("instrument")
