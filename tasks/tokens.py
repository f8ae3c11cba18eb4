"""How the mechanisms cut the same text into tokens, on the data sets of ablations."""

from epsilometer.pipeline.flows.reproduce import stage

tokens = stage("tokens")
