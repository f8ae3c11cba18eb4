"""Which mechanism stays within the stated limits, at which budget, on which data set."""

from epsilometer.pipeline.flows.reproduce import stage

decide = stage("decide")
